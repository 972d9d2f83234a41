from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset
from tests.core.media_samples import an_image, media_shards, members
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import StorageError
from wdsctl.core.index.index import index
from wdsctl.core.index.media_unit import MediaShardUnit, media_candidates, probe_shard, run_media_unit, shard_results
from wdsctl.core.offsets.read import open_cached_offsets


def a_unit(root: str, shard: int = 0, selection: str = "auto", *, keyframes: bool = False) -> MediaShardUnit:
    index(root)
    place = locate(root)
    return MediaShardUnit(root, place.offsets_path(1), shard, selection, "digest", keyframes)


def kinds(unit: MediaShardUnit) -> dict[tuple[int, str], str]:
    return {(each.row, each.part): each.media_format.kind for each in probe_shard(unit).media}


def test_probe_shard_returns_every_medium_with_row_and_part(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())

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
def test_media_candidates_follow_selection(tmp_path: Path, selection: str, parts: list[str]) -> None:
    unit = a_unit(a_dataset(tmp_path, media_shards()))
    assert [each.part for each in media_candidates(open_cached_offsets(unit.offsets_path), 0, "a", selection)] == parts


def test_probe_shard_uses_last_of_duplicate_parts(tmp_path: Path) -> None:
    shard = [("1.jpg", an_image(size=(10, 10))), ("1.jpg", an_image(size=(20, 20)))]
    [medium] = probe_shard(a_unit(a_dataset(tmp_path, {"a.tar": shard}))).media
    assert medium.measures.width == 20


def test_probe_shard_returns_all_parts_beyond_one_batch(tmp_path: Path) -> None:
    shard = {f"{i:04}.png": an_image("PNG", (i % 7 + 1, 2)) for i in range(300)}
    media = probe_shard(a_unit(a_dataset(tmp_path, {"a.tar": shard}))).media
    assert [(each.row, each.measures.width) for each in media] == [(i, i % 7 + 1) for i in range(300)]


def test_run_media_unit_saves_result_and_reports_unreadable_shard(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, media_shards())
    unit = a_unit(root)

    results = shard_results(str(tmp_path / "results"))
    assert results.save([unit], [run_media_unit(unit)]) == [True]
    assert results.load(unit) == probe_shard(unit)

    (tmp_path / "a.tar").write_bytes(b"cut")
    scan = run_media_unit(unit)
    [failure] = scan.findings
    assert (failure.code, failure.severity, failure.shard) == ("WDS403", "error", "a.tar")
    assert results.save([unit], [scan]) == [False]
    with pytest.raises(StorageError):
        probe_shard(unit)


def test_probe_shard_without_media_is_empty(tmp_path: Path) -> None:
    found = probe_shard(a_unit(a_dataset(tmp_path, {"a.tar": {"1.txt": members()["1.txt"]}})))
    assert (found.media, found.findings) == ((), ())
