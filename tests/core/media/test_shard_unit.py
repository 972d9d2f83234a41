from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import a_dataset
from tests.core.medley import a_medley, an_image, members
from wdsctl.core.errors import StorageError
from wdsctl.core.media.found import load_found
from wdsctl.core.media.shard_unit import ShardUnit, candidates, found_in, run_shard_unit
from wdsctl.core.offsets import offsets_of
from wdsctl.core.place import locate
from wdsctl.core.verbs.index import index


def a_unit(root: str, shard: int = 0, selection: str = "auto", *, keyframes: bool = False) -> ShardUnit:
    index(root)
    place = locate(root)
    return ShardUnit(root, place.offsets(1), shard, selection, os.path.join(place.meta, "unit"), keyframes)


def kinds(unit: ShardUnit) -> dict[tuple[int, str], str]:
    return {(each.row, each.part): each.form.kind for each in found_in(unit).media}


def test_every_medium_of_a_shard_is_found_with_its_row_and_part(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, a_medley())

    assert kinds(a_unit(root)) == {
        (0, "jpg"): "image",
        (1, "jpg"): "unreadable",
        (1, "seg.png"): "image",
        (2, "mp4"): "video",
    }
    assert kinds(a_unit(root, 1)) == {(0, "wav"): "audio", (1, "bin"): "image", (2, "jpg"): "unreadable"}


@pytest.mark.parametrize(
    ("selection", "parts"),
    [
        ("jpg", ["jpg", "jpg"]),
        ("png", ["seg.png"]),
        ("*.seg.png", ["seg.png"]),
        ("2.*", ["jpg", "seg.png"]),
        ("content", ["jpg", "txt", "jpg", "seg.png", "mp4", "json"]),
        ("gif", []),
    ],
)
def test_only_what_is_selected_is_looked_at(tmp_path: Path, selection: str, parts: list[str]) -> None:
    unit = a_unit(a_dataset(tmp_path, a_medley()))
    assert [each.part for each in candidates(offsets_of(unit.offsets), 0, "a", selection)] == parts


def test_of_a_part_that_a_sample_has_twice_the_last_one_counts(tmp_path: Path) -> None:
    shard = [("1.jpg", an_image(size=(10, 10))), ("1.jpg", an_image(size=(20, 20)))]
    [medium] = found_in(a_unit(a_dataset(tmp_path, {"a.tar": shard}))).media
    assert medium.numbers.width == 20


def test_more_parts_than_are_read_together_are_all_there(tmp_path: Path) -> None:
    shard = {f"{i:04}.png": an_image("PNG", (i % 7 + 1, 2)) for i in range(300)}
    media = found_in(a_unit(a_dataset(tmp_path, {"a.tar": shard}))).media
    assert [(each.row, each.numbers.width) for each in media] == [(i, i % 7 + 1) for i in range(300)]


def test_the_result_is_saved_and_a_shard_that_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, a_medley())
    unit = a_unit(root)

    assert run_shard_unit(unit) is None
    assert load_found(unit.result) == found_in(unit)

    os.unlink(unit.result)
    (tmp_path / "a.tar").write_bytes(b"cut")
    failure = run_shard_unit(unit)
    assert failure is not None
    assert (failure.code, failure.severity, failure.shard) == ("WDS403", "error", "a.tar")
    assert not os.path.exists(unit.result)
    with pytest.raises(StorageError):
        found_in(unit)


def test_a_shard_without_media_gives_nothing(tmp_path: Path) -> None:
    found = found_in(a_unit(a_dataset(tmp_path, {"a.tar": {"1.txt": members()["1.txt"]}})))
    assert (found.media, found.findings) == ((), ())
