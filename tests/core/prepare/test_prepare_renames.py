"""Raw files that have another name: no sample comes twice, and none leaves its split, whatever else has changed."""

from __future__ import annotations

import os
import random
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.core.split_sets import make, splits_of
from tests.killing import Moment, died
from tests.preparing import prepare_request
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.dataset.split_rules import SplitRule
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import PrepareReport, prepare
from wdsctl.core.prepare.write import RenamedSample

SAMPLES, EACH = 30, 5

RULES = {
    "shard": SplitRule({"train": 2, "val": 1}, by="shard"),
    "sample": SplitRule({"train": 1, "val": 1}, by="sample"),
    "key": SplitRule({"train": 1, "val": 1}, by="key"),
    "group": SplitRule({"train": 1, "val": 1}, group_by="key:(.*)/"),
    "stratum": SplitRule({"train": 1, "val": 1}, stratify="part:cls"),
    "balanced": SplitRule({"train": 1, "val": 1}, group_by="key:(.*)/", stratify="part:cls"),
}


def pictures(root: Path, *, size: int = 300) -> Path:
    """Samples in six folders, of a picture and a class. All have the same sizes."""
    for i in range(SAMPLES):
        put(root, f"{i % 6}/{i:02d}", i, size=size)
    return root


def put(root: Path, key: str, content: int, *, size: int = 300) -> None:
    file = root / f"{key}.jpg"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(random.Random(content).randbytes(size))
    file.with_suffix(".cls").write_text(str(content % 3))


def move(root: Path, key: str, to: str) -> None:
    (root / to).parent.mkdir(parents=True, exist_ok=True)
    for file in sorted(root.glob(f"{key}.*")):
        file.rename(root / f"{to}{file.suffix}")


def remove(root: Path, key: str) -> None:
    for file in sorted(root.glob(f"{key}.*")):
        file.unlink()


def swap(root: Path, one: str, other: str) -> None:
    move(root, one, "aside")
    move(root, other, one)
    move(root, "aside", other)


def run(source: Path, **more: Any) -> PrepareReport:
    options: dict[str, Any] = {"split": {"train": 1, "val": 1}, "split_by": "sample", **more}
    options |= {"shard_samples": EACH, "take_unsure": True}
    return prepare(str(source), str(source.parent / "out"), prepare_request(**options))


def again(source: Path, **more: Any) -> PrepareReport:
    return run(source, split=None, **more)


def placed(source: Path) -> dict[bytes, list[tuple[str, str]]]:
    """By picture, the shards that have it, and its split there."""
    found: dict[bytes, list[tuple[str, str]]] = {}
    splits = splits_of(str(source.parent / "out"))
    for (shard, key), data in in_shards(source).items():
        found.setdefault(data, []).append((shard, splits[f"{shard}/{key}"]))
    return found


def in_shards(source: Path) -> dict[tuple[str, str], bytes]:
    """The picture of every sample, by shard and key."""
    found = {}
    for path in sorted((source.parent / "out").glob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if member.name.endswith(".jpg") and file is not None:
                    found[path.name, member.name[:-4]] = file.read()
    return found


def keys_of(source: Path) -> list[str]:
    return sorted(key for _, key in in_shards(source))


def in_folder(source: Path) -> list[str]:
    return sorted(str(path.relative_to(source))[:-4] for path in source.rglob("*.jpg"))


def pairs(*names: tuple[str, str]) -> tuple[RenamedSample, ...]:
    return tuple(RenamedSample(before=before, after=after) for before, after in names)


@pytest.mark.parametrize("rule", RULES)
def test_a_renamed_sample_stays_in_its_shard_and_its_split_by_every_rule(tmp_path: Path, rule: str) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    make(str(tmp_path / "out"), RULES[rule])
    before = placed(source)
    for key, to in (("0/00", "0/new"), ("1/01", "5/moved"), ("2/02", "x/02"), ("2/08", "x/08")):
        move(source, key, to)

    report = again(source)

    assert report.folder is not None
    assert report.folder.renamed == pairs(("0/00", "0/new"), ("1/01", "5/moved"), ("2/02", "x/02"), ("2/08", "x/08"))
    assert (report.folder.samples, report.folder.vanished, report.folder.shards) == (SAMPLES, 0, 6)
    assert placed(source) == before
    assert keys_of(source) == in_folder(source)
    assert again(source).up_to_date


@pytest.mark.parametrize("rule", RULES)
def test_a_folder_that_is_renamed_moves_nothing(tmp_path: Path, rule: str) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    make(str(tmp_path / "out"), RULES[rule])
    before = placed(source)
    (source / "3").rename(source / "Three")

    report = again(source)

    assert report.folder is not None
    assert len(report.folder.renamed) == SAMPLES / 6
    assert placed(source) == before
    assert keys_of(source) == in_folder(source)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("other", ["0/06", "5/29"])
def test_samples_that_change_names_with_one_another_keep_their_splits(tmp_path: Path, rule: str, other: str) -> None:
    """Within a shard, and between two."""
    source = pictures(tmp_path / "raw")
    run(source)
    make(str(tmp_path / "out"), RULES[rule])
    before = placed(source)
    swap(source, "0/00", other)

    report = again(source)

    assert report.folder is not None
    assert report.folder.renamed == pairs(("0/00", other), (other, "0/00"))
    assert placed(source) == before
    assert keys_of(source) == in_folder(source)


def test_samples_that_are_all_numbered_anew_keep_their_splits(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = placed(source)
    for folder in range(6):
        for number in reversed(range(folder, SAMPLES, 6)):
            move(source, f"{folder}/{number:02d}", f"{folder}/{number + 6:02d}")

    again(source)

    assert placed(source) == before
    assert keys_of(source) == in_folder(source)


@pytest.mark.parametrize("missing", ["error", "keep"])
def test_in_a_shard_that_would_lose_samples_a_renamed_one_keeps_its_name_and_is_remembered(
    tmp_path: Path, missing: str
) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before, keys = placed(source), keys_of(source)
    remove(source, "0/06")
    move(source, "0/00", "0/new")

    report = again(source, missing=missing)

    assert report.folder is not None
    assert (report.folder.pending, report.folder.renamed) == (pairs(("0/00", "0/new")), ())
    assert (report.folder.vanished, report.folder.samples, report.up_to_date) == (1, SAMPLES, True)
    assert (placed(source), keys_of(source)) == (before, keys)
    assert again(source, missing=missing).folder == report.folder
    (source / "0/new.cls").write_text("another")  # told by its name from now on
    with pytest.raises(DatasetError) as caught:
        again(source)
    assert caught.value.code == "WDS203"

    dropped = again(source, missing="drop")

    assert dropped.folder is not None
    assert (dropped.folder.dropped, dropped.folder.renamed) == (("0/06",), pairs(("0/00", "0/new")))
    assert keys_of(source) == in_folder(source)
    assert {picture: before[picture] for picture in placed(source)} == placed(source)


def test_a_sample_that_is_renamed_again_before_its_shard_could_be_written_has_the_last_name(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = placed(source)
    saved = (source / "0/06.jpg").read_bytes()
    remove(source, "0/06")
    move(source, "0/00", "0/new")
    again(source)
    move(source, "0/new", "0/newer")
    report = again(source)
    assert report.folder is not None
    assert report.folder.pending == pairs(("0/00", "0/newer"))

    put(source, "0/06", 6)
    assert (source / "0/06.jpg").read_bytes() == saved
    report = again(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.pending) == (pairs(("0/00", "0/newer")), ())
    assert placed(source) == before
    assert keys_of(source) == in_folder(source)


def test_a_rename_beside_one_that_vanished_elsewhere_is_carried_out_and_the_other_stays(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = placed(source)
    remove(source, "5/29")
    move(source, "0/00", "0/new")

    report = again(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.vanished) == (pairs(("0/00", "0/new")), 1)
    assert placed(source) == before


def test_what_is_renamed_and_dropped_in_a_later_run_is_still_recognised(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = placed(source)
    move(source, "0/00", "0/new")
    again(source)
    remove(source, "0/06")

    report = again(source, missing="drop")

    assert report.folder is not None
    assert (report.folder.dropped, report.folder.samples) == (("0/06",), SAMPLES - 1)
    assert {picture: before[picture] for picture in placed(source)} == placed(source)


def test_of_two_alike_one_is_renamed(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    put(source, "5/29", 0)
    (source / "5/29.cls").write_text("0")
    run(source)
    before = placed(source)
    move(source, "5/29", "0/0-copy")

    report = again(source)

    assert report.folder is not None
    assert report.folder.renamed == pairs(("5/29", "0/0-copy"))
    assert placed(source) == before


def test_a_copy_is_a_new_sample(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    put(source, "0/copy", 0)
    (source / "0/00.jpg").touch()

    report = again(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.samples) == ((), SAMPLES + 1)


def test_a_sample_that_is_renamed_and_gets_one_more_part_is_the_same(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = placed(source)
    move(source, "0/00", "0/new")
    (source / "0/new.txt").write_text("a cat")

    report = again(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.samples) == (pairs(("0/00", "0/new")), SAMPLES)
    assert placed(source) == before


def test_another_case_of_a_name_is_another_name(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    put(source, "5/a", 100)
    run(source)
    before = placed(source)
    move(source, "5/a", "5/A")

    report = again(source)

    assert report.folder is not None
    assert report.folder.renamed == pairs(("5/a", "5/A"))
    assert placed(source) == before


def test_one_name_that_takes_the_place_of_another_is_refused_unless_what_is_gone_is_dropped(tmp_path: Path) -> None:
    """`mv a b`, with both in shards: b would be in the shards twice."""
    source = pictures(tmp_path / "raw")
    run(source)
    before = placed(source)
    move(source, "0/00", "5/29")

    with pytest.raises(DatasetError) as caught:
        again(source)
    assert caught.value.code == "WDS249"
    assert placed(source) == before

    again(source, missing="drop")
    assert keys_of(source) == in_folder(source)
    assert {picture: before[picture] for picture in placed(source)} == placed(source)


def test_a_dotted_name_that_vanished_and_one_that_looks_like_it_in_shards_are_told_apart(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    put(source, "5/a.b", 100)
    run(source, key_until="last-dot")
    before = placed(source)
    move(source, "5/a.b", "5/a_b")
    report = again(source)
    assert report.folder is not None
    assert (report.folder.renamed, report.folder.samples) == (pairs(("5/a.b", "5/a_b")), SAMPLES + 1)
    assert placed(source) == before

    move(source, "5/a_b", "5/a.b")
    again(source)
    remove(source, "5/a.b")
    put(source, "5/a_b", 200)
    with pytest.raises(DatasetError) as caught:
        again(source)
    assert caught.value.code == "WDS249"
    assert placed(source) == before


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    keys = keys_of(source)
    move(source, "0/00", "0/new")
    move(source, "1/01", "1/new")
    remove(source, "1/07")
    foreseen = again(source, dry_run=True)
    assert keys_of(source) == keys
    report = again(source)

    assert foreseen.folder is not None
    assert report.folder is not None
    for name in ("renamed", "pending", "vanished", "written", "samples"):
        assert getattr(foreseen.folder, name) == getattr(report.folder, name)


SCRIPT = """
import sys
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
prepare(sys.argv[1], sys.argv[2], PrepareRequest(shard_samples=5, take_unsure=True))
"""


def killed_and_run_again(folder: Path, moment: Moment, rule: str, *, is_indexed: bool) -> bool:
    """Whether it was killed there. However that is, all ends as if it had not been."""
    source = pictures(folder / "raw")
    run(source)
    make(str(folder / "out"), RULES[rule])
    before = placed(source)
    (source / "0").rename(source / "zero")
    swap(source, "1/01", "2/26")
    is_dead = died([sys.executable, "-c", SCRIPT, source, folder / "out"], moment, folder / "count")
    if is_indexed:
        index(str(folder / "out"))
    again(source)
    assert placed(source) == before
    assert keys_of(source) == in_folder(source)
    return is_dead


@pytest.mark.parametrize("is_indexed", [False, True])
def test_killed_between_two_shards_and_run_again_it_ends_the_same(tmp_path: Path, is_indexed: bool) -> None:
    assert killed_and_run_again(tmp_path, Moment("replace", 3, parent_only=True), "sample", is_indexed=is_indexed)


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["replace", "fsync"])
@pytest.mark.parametrize("rule", ["sample", "group"])
def test_killed_at_any_moment_and_run_again_it_ends_the_same(tmp_path: Path, seam: str, rule: str) -> None:
    number, is_dead = 0, True
    while is_dead:
        number += 1
        moment = Moment(seam, number, parent_only=True)
        is_dead = killed_and_run_again(tmp_path / f"{number}", moment, rule, is_indexed=number % 2 == 1)
    assert number > 3


def test_what_is_remembered_of_names_is_forgotten_when_the_catalog_has_them(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    move(source, "0/00", "0/new")
    again(source)

    with Ledger.open_for_reading(str(tmp_path / "out/.wdsctl/ledger.sqlite")) as ledger:
        assert ledger.former_keys() == {}


def test_a_sample_that_only_has_another_time_is_not_taken_for_one_that_is_like_it(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    put(source, "5/29", 0)
    (source / "5/29.cls").write_text("0")
    run(source)
    for file in source.rglob("*.*"):
        os.utime(file, (1, 1))

    report = again(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.written) == ((), 6)
