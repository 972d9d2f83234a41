"""After raw files are renamed, no sample is in the dataset twice and none changes its split."""

from __future__ import annotations

import os
import random
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.core.split_sets import split_by_rule, splits_of
from tests.killing import Moment, run_and_kill
from tests.prepare_requests import prepare_request
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import PrepareReport, prepare
from wdsctl.core.prepare.write import RenamedSample
from wdsctl.core.split_rules.rule import SplitRule

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
    """Writes samples of a picture and a class into six folders. All have the same sizes."""
    for i in range(SAMPLES):
        write_sample(root, f"{i % 6}/{i:02d}", i, size=size)
    return root


def write_sample(root: Path, key: str, content: int, *, size: int = 300) -> None:
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


def swap_names(root: Path, one: str, other: str) -> None:
    move(root, one, "aside")
    move(root, other, one)
    move(root, "aside", other)


def run(source: Path, **more: Any) -> PrepareReport:
    options: dict[str, Any] = {"split": {"train": 1, "val": 1}, "split_by": "sample", **more}
    options |= {"shard_samples": EACH, "take_unsure": True}
    return prepare(str(source), str(source.parent / "out"), prepare_request(**options))


def rerun(source: Path, **more: Any) -> PrepareReport:
    return run(source, split=None, split_by="auto", **more)


def locate_pictures(source: Path) -> dict[bytes, list[tuple[str, str]]]:
    """The shards that contain each picture, with its split there."""
    found: dict[bytes, list[tuple[str, str]]] = {}
    splits = splits_of(str(source.parent / "out"))
    for (shard, key), data in read_pictures(source).items():
        found.setdefault(data, []).append((shard, splits[f"{shard}/{key}"]))
    return found


def read_pictures(source: Path) -> dict[tuple[str, str], bytes]:
    """The picture of every sample, by shard and key."""
    found = {}
    for path in sorted((source.parent / "out").glob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if member.name.endswith(".jpg") and file is not None:
                    found[path.name, member.name[:-4]] = file.read()
    return found


def keys_in_shards(source: Path) -> list[str]:
    return sorted(key for _, key in read_pictures(source))


def keys_in_folder(source: Path) -> list[str]:
    return sorted(str(path.relative_to(source))[:-4] for path in source.rglob("*.jpg"))


def renamed_samples(*names: tuple[str, str]) -> tuple[RenamedSample, ...]:
    return tuple(RenamedSample(before=before, after=after) for before, after in names)


@pytest.mark.parametrize("rule", RULES)
def test_renamed_sample_keeps_shard_and_split_under_every_rule(tmp_path: Path, rule: str) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    split_by_rule(str(tmp_path / "out"), RULES[rule])
    before = locate_pictures(source)
    for key, to in (("0/00", "0/new"), ("1/01", "5/moved"), ("2/02", "x/02"), ("2/08", "x/08")):
        move(source, key, to)

    report = rerun(source)

    assert report.folder is not None
    assert report.folder.renamed == renamed_samples(
        ("0/00", "0/new"), ("1/01", "5/moved"), ("2/02", "x/02"), ("2/08", "x/08")
    )
    assert (report.folder.samples, report.folder.vanished, report.folder.shards) == (SAMPLES, 0, 6)
    assert locate_pictures(source) == before
    assert keys_in_shards(source) == keys_in_folder(source)
    assert rerun(source).up_to_date


@pytest.mark.parametrize("rule", RULES)
def test_renamed_folder_keeps_shards_and_splits(tmp_path: Path, rule: str) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    split_by_rule(str(tmp_path / "out"), RULES[rule])
    before = locate_pictures(source)
    (source / "3").rename(source / "Three")

    report = rerun(source)

    assert report.folder is not None
    assert len(report.folder.renamed) == SAMPLES / 6
    assert locate_pictures(source) == before
    assert keys_in_shards(source) == keys_in_folder(source)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("other", ["0/06", "5/29"])
def test_samples_with_swapped_names_keep_their_splits(tmp_path: Path, rule: str, other: str) -> None:
    """The two samples are in one shard or in different shards."""
    source = pictures(tmp_path / "raw")
    run(source)
    split_by_rule(str(tmp_path / "out"), RULES[rule])
    before = locate_pictures(source)
    swap_names(source, "0/00", other)

    report = rerun(source)

    assert report.folder is not None
    assert report.folder.renamed == renamed_samples(("0/00", other), (other, "0/00"))
    assert locate_pictures(source) == before
    assert keys_in_shards(source) == keys_in_folder(source)


def test_renumbered_samples_keep_their_splits(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = locate_pictures(source)
    for folder in range(6):
        for number in reversed(range(folder, SAMPLES, 6)):
            move(source, f"{folder}/{number:02d}", f"{folder}/{number + 6:02d}")

    rerun(source)

    assert locate_pictures(source) == before
    assert keys_in_shards(source) == keys_in_folder(source)


@pytest.mark.parametrize("missing", ["error", "keep"])
def test_rename_in_shard_with_missing_samples_stays_pending(tmp_path: Path, missing: str) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before, keys = locate_pictures(source), keys_in_shards(source)
    remove(source, "0/06")
    move(source, "0/00", "0/new")

    report = rerun(source, missing=missing)

    assert report.folder is not None
    assert (report.folder.pending, report.folder.renamed) == (renamed_samples(("0/00", "0/new")), ())
    assert (report.folder.vanished, report.folder.samples, report.up_to_date) == (1, SAMPLES, True)
    assert (locate_pictures(source), keys_in_shards(source)) == (before, keys)
    assert rerun(source, missing=missing).folder == report.folder
    (source / "0/new.cls").write_text("another")  # from now on identified only by its name
    with pytest.raises(DatasetError) as caught:
        rerun(source)
    assert caught.value.code == "WDS203"

    dropped = rerun(source, missing="drop")

    assert dropped.folder is not None
    assert (dropped.folder.dropped, dropped.folder.renamed) == (("0/06",), renamed_samples(("0/00", "0/new")))
    assert keys_in_shards(source) == keys_in_folder(source)
    assert {picture: before[picture] for picture in locate_pictures(source)} == locate_pictures(source)


def test_pending_rename_follows_second_rename(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = locate_pictures(source)
    saved = (source / "0/06.jpg").read_bytes()
    remove(source, "0/06")
    move(source, "0/00", "0/new")
    rerun(source)
    move(source, "0/new", "0/newer")
    report = rerun(source)
    assert report.folder is not None
    assert report.folder.pending == renamed_samples(("0/00", "0/newer"))

    write_sample(source, "0/06", 6)
    assert (source / "0/06.jpg").read_bytes() == saved
    report = rerun(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.pending) == (renamed_samples(("0/00", "0/newer")), ())
    assert locate_pictures(source) == before
    assert keys_in_shards(source) == keys_in_folder(source)


def test_rename_is_applied_despite_missing_sample_in_other_shard(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = locate_pictures(source)
    remove(source, "5/29")
    move(source, "0/00", "0/new")

    report = rerun(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.vanished) == (renamed_samples(("0/00", "0/new")), 1)
    assert locate_pictures(source) == before


def test_sample_renamed_earlier_survives_drop_in_same_shard(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = locate_pictures(source)
    move(source, "0/00", "0/new")
    rerun(source)
    remove(source, "0/06")

    report = rerun(source, missing="drop")

    assert report.folder is not None
    assert (report.folder.dropped, report.folder.samples) == (("0/06",), SAMPLES - 1)
    assert {picture: before[picture] for picture in locate_pictures(source)} == locate_pictures(source)


def test_one_of_two_equal_samples_is_renamed(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    write_sample(source, "5/29", 0)
    (source / "5/29.cls").write_text("0")
    run(source)
    before = locate_pictures(source)
    move(source, "5/29", "0/0-copy")

    report = rerun(source)

    assert report.folder is not None
    assert report.folder.renamed == renamed_samples(("5/29", "0/0-copy"))
    assert locate_pictures(source) == before


def test_copied_sample_is_new_sample(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    write_sample(source, "0/copy", 0)
    (source / "0/00.jpg").touch()

    report = rerun(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.samples) == ((), SAMPLES + 1)


def test_renamed_sample_with_new_part_is_recognised(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = locate_pictures(source)
    move(source, "0/00", "0/new")
    (source / "0/new.txt").write_text("a cat")

    report = rerun(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.samples) == (renamed_samples(("0/00", "0/new")), SAMPLES)
    assert locate_pictures(source) == before


def test_change_of_case_is_a_rename(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    write_sample(source, "5/a", 100)
    run(source)
    before = locate_pictures(source)
    move(source, "5/a", "5/A")

    report = rerun(source)

    assert report.folder is not None
    assert report.folder.renamed == renamed_samples(("5/a", "5/A"))
    assert locate_pictures(source) == before


def test_rename_over_existing_key_is_refused_unless_missing_are_dropped(tmp_path: Path) -> None:
    """After `mv a b` with both in shards, b would be in the dataset twice."""
    source = pictures(tmp_path / "raw")
    run(source)
    before = locate_pictures(source)
    move(source, "0/00", "5/29")

    with pytest.raises(DatasetError) as caught:
        rerun(source)
    assert caught.value.code == "WDS249"
    assert locate_pictures(source) == before

    rerun(source, missing="drop")
    assert keys_in_shards(source) == keys_in_folder(source)
    assert {picture: before[picture] for picture in locate_pictures(source)} == locate_pictures(source)


def test_dotted_key_and_its_shard_spelling_are_distinguished(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    write_sample(source, "5/a.b", 100)
    run(source, key_until="last-dot")
    before = locate_pictures(source)
    move(source, "5/a.b", "5/a_b")
    report = rerun(source)
    assert report.folder is not None
    assert (report.folder.renamed, report.folder.samples) == (renamed_samples(("5/a.b", "5/a_b")), SAMPLES + 1)
    assert locate_pictures(source) == before

    move(source, "5/a_b", "5/a.b")
    rerun(source)
    remove(source, "5/a.b")
    write_sample(source, "5/a_b", 200)
    with pytest.raises(DatasetError) as caught:
        rerun(source)
    assert caught.value.code == "WDS249"
    assert locate_pictures(source) == before


def test_dry_run_reports_renames_and_writes_nothing(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    keys = keys_in_shards(source)
    move(source, "0/00", "0/new")
    move(source, "1/01", "1/new")
    remove(source, "1/07")
    preview = rerun(source, dry_run=True)
    assert keys_in_shards(source) == keys
    report = rerun(source)

    assert preview.folder is not None
    assert report.folder is not None
    for name in ("renamed", "pending", "vanished", "written", "samples"):
        assert getattr(preview.folder, name) == getattr(report.folder, name)


SCRIPT = """
import sys
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
prepare(sys.argv[1], sys.argv[2], PrepareRequest(shard_samples=5, take_unsure=True))
"""


def kill_and_rerun(folder: Path, moment: Moment, rule: str, *, is_indexed: bool) -> bool:
    """Kills `prepare` at the moment, reruns it and checks the dataset. Returns whether the process was killed."""
    source = pictures(folder / "raw")
    run(source)
    split_by_rule(str(folder / "out"), RULES[rule])
    before = locate_pictures(source)
    (source / "0").rename(source / "zero")
    swap_names(source, "1/01", "2/26")
    was_killed = run_and_kill([sys.executable, "-c", SCRIPT, source, folder / "out"], moment, folder / "count")
    if is_indexed:
        index(str(folder / "out"))
    rerun(source)
    assert locate_pictures(source) == before
    assert keys_in_shards(source) == keys_in_folder(source)
    return was_killed


@pytest.mark.parametrize("is_indexed", [False, True])
def test_rerun_after_kill_between_shards_gives_same_dataset(tmp_path: Path, is_indexed: bool) -> None:
    assert kill_and_rerun(tmp_path, Moment("replace", 3, parent_only=True), "sample", is_indexed=is_indexed)


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["replace", "fsync"])
@pytest.mark.parametrize("rule", ["sample", "group"])
def test_rerun_after_kill_at_any_moment_gives_same_dataset(tmp_path: Path, seam: str, rule: str) -> None:
    number, was_killed = 0, True
    while was_killed:
        number += 1
        moment = Moment(seam, number, parent_only=True)
        was_killed = kill_and_rerun(tmp_path / f"{number}", moment, rule, is_indexed=number % 2 == 1)
    assert number > 3


def test_former_keys_are_cleared_once_catalog_is_updated(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    move(source, "0/00", "0/new")
    rerun(source)

    with Ledger.open_for_reading(str(tmp_path / "out/.wdsctl/ledger.sqlite")) as ledger:
        assert ledger.former_keys() == {}


def test_samples_with_only_new_mtime_are_not_renames(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    write_sample(source, "5/29", 0)
    (source / "5/29.cls").write_text("0")
    run(source)
    for file in source.rglob("*.*"):
        os.utime(file, (1, 1))

    report = rerun(source)

    assert report.folder is not None
    assert (report.folder.renamed, report.folder.written) == ((), 6)
