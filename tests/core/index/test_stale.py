from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.build import linked_shards, rewritten, samples, some_shards
from tests.remote import FaultyFileSystem, uploaded
from wdsctl.core.catalog.totals import CatalogSummary, read_catalog_summary
from wdsctl.core.compare.checksum import checksum
from wdsctl.core.convert.sources import check_index_is_current
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.errors import DatasetError, Finding
from wdsctl.core.index.freshness import check_freshness
from wdsctl.core.index.index import index
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.validate.request import ValidationLevel
from wdsctl.core.validate.validate import ValidateRequest, validate

URL = "faulty://store/shards"


def looked(root: str, spread: int) -> tuple[int, list[Finding]]:
    place, summary = read(root, spread)
    return check_freshness(place, summary)


def read(root: str, spread: int) -> tuple[DatasetLocation, CatalogSummary]:
    place = locate(root)
    return place, read_catalog_summary(place.catalog, first=0, spread=spread)


def told(findings: list[Finding]) -> list[tuple[str, str, int]]:
    return [(found.code, found.shard, found.count) for found in findings]


@pytest.fixture
def changed(tmp_path: Path) -> str:
    """Twelve shards, of which 003 and 004 have changed, 006 and 007 are gone, and 012 is new."""
    root = some_shards(tmp_path, 12)
    index(root)
    for number in (3, 4):
        rewritten(tmp_path / f"shard-{number:03}.tar", samples(50, 1))
    for number in (6, 7):
        (tmp_path / f"shard-{number:03}.tar").unlink()
    return some_shards(tmp_path, 1, first=12)


def test_of_few_shards_all_are_looked_at(changed: str) -> None:
    number, findings = looked(changed, 12)

    assert number == 12
    assert [found.shard[6:9] for found in findings] == ["012", "003", "004", "006", "007"]


def test_of_many_shards_some_are_looked_at_and_new_ones_are_not_found(changed: str) -> None:
    number, findings = looked(changed, 4)

    assert number == 4
    assert [(found.shard[6:9], found.message) for found in findings] == [
        ("003", "has changed since it was indexed"),
        ("006", "is in the catalog, but its file is missing"),
    ]


@pytest.mark.parametrize(("spread", "first"), [(8, "shard-001.tar"), (4, ""), (2, "")])
def test_all_shards_that_were_kept_as_missing_are_counted(tmp_path: Path, spread: int, first: str) -> None:
    root = some_shards(tmp_path, 8)
    index(root)
    for number in (1, 5):
        (tmp_path / f"shard-{number:03}.tar").unlink()
    index(root, missing="keep")

    assert told(looked(root, spread)[1]) == [("WDS306", first, 2)]


def test_a_shard_that_is_there_again_is_told(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 8)
    index(root)
    for number in (0, 1):
        (tmp_path / f"shard-{number:03}.tar").rename(tmp_path / f"{number}.away")
    index(root, missing="keep")
    (tmp_path / "0.away").rename(tmp_path / "shard-000.tar")

    assert told(looked(root, 4)[1]) == [("WDS305", "shard-000.tar", 1), ("WDS306", "", 1)]


def test_no_more_files_are_asked_for_of_many_shards_than_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[int] = Counter()
    stat, access, scandir = os.stat, os.access, os.scandir
    for shards in (20, 60):
        root = some_shards(tmp_path / str(shards), shards)
        index(root)
        place, summary = read(root, 10)

        with monkeypatch.context() as patch:
            for name, call in (("stat", stat), ("access", access), ("scandir", scandir)):
                patch.setattr(os, name, lambda *words, call=call, at=shards: (asked.update([at]), call(*words))[1])
            assert check_freshness(place, summary) == (10, [])

    assert asked == {20: 20, 60: 20}


@pytest.mark.usefixtures("faulty_store")
def test_in_a_store_sizes_are_asked_for_and_nothing_is_listed(tmp_path: Path) -> None:
    local = some_shards(tmp_path / "local", 40)
    uploaded(local, URL)
    index(URL)
    rewritten(tmp_path / "local" / "shard-000.tar", b"shorter")
    (tmp_path / "local" / "shard-020.tar").unlink()
    FaultyFileSystem.reset()
    uploaded(local, URL)
    number, findings = looked(URL, 20)

    assert number == 2
    assert [(found.shard, found.message) for found in findings] == [
        ("shard-000.tar", "has changed since it was indexed"),
        ("shard-020.tar", "is in the catalog, but its file is missing"),
    ]
    assert [path.rsplit("/", 1)[1] for path in FaultyFileSystem.asked] == ["shard-000.tar", "shard-020.tar"]


def copied(root: str) -> None:
    """New times, as after `cp -r`, an rsync without -t, or a checkout."""
    for name in os.listdir(root):
        if not name.startswith("."):
            os.utime(f"{root}/{name}", ns=(1, 1))


def test_shards_of_other_times_that_hold_what_they_held_are_one_note(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    copied(root)

    for findings in (looked(root, 3)[1], validate(root).findings, validate(root, again_on_all()).findings):
        (found,) = [each for each in findings if each.code == "WDS305"]
        assert (found.severity, found.count, found.shard) == ("note", 3, "")
    dry = index(root, dry_run=True)
    assert (dry.changed, dry.unchanged) == (0, 3)
    check_index_is_current(locate(root), [], SILENT_PROGRESS)
    assert not os.path.exists(locate(root).work_folder)
    assert index(root).changed == 0
    assert looked(root, 3)[1] == [] == list(validate(root).findings)


def again_on_all() -> ValidateRequest:
    return ValidateRequest(levels=("structure", "headers", "content"), again=True)


def test_a_shard_of_another_time_and_the_same_size_that_holds_other_samples_has_changed(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    rewritten(f"{root}/shard-001.tar", samples(70, 5))

    assert told(looked(root, 2)[1]) == [("WDS305", "shard-001.tar", 1)]
    errors = [found for found in validate(root).findings if found.severity == "error"]
    assert [(found.code, found.shard) for found in errors] == [("WDS305", "shard-001.tar")]
    assert index(root, dry_run=True).changed == 1
    with pytest.raises(DatasetError, match="1 changed shard"):
        check_index_is_current(locate(root), [], SILENT_PROGRESS)


@pytest.mark.parametrize("level", ["structure", "hashes"])
def test_after_a_copy_bytes_that_differ_are_found_by_their_hash(tmp_path: Path, level: ValidationLevel) -> None:
    root = some_shards(tmp_path, 2)
    index(root, hashed=True)
    data = bytearray((tmp_path / "shard-001.tar").read_bytes())
    data[512] ^= 1  # of the first part
    rewritten(f"{root}/shard-001.tar", bytes(data))

    found = validate(root, ValidateRequest(levels=("structure", level) if level != "structure" else (level,))).findings
    errors = [(each.code, each.shard) for each in found if each.severity == "error"]
    assert errors == ([("WDS151", "shard-001.tar")] if level == "hashes" else [])


def test_lines_of_another_time_are_compared_by_where_they_lie(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 22}\n')
    index(str(path))
    os.utime(path, ns=(1, 1))
    assert [(each.severity, each.count) for each in validate(str(path)).findings] == [("note", 1)]
    path.write_text('{"a": 11}\n{"a": 2}\n')
    assert ("WDS305", "error") in {(each.code, each.severity) for each in validate(str(path)).findings}


def test_a_shard_behind_a_link_that_is_no_longer_allowed_is_told_once_and_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = linked_shards(tmp_path)
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", str(tmp_path / "blobs"))
    index(root)
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", "")
    both = [("WDS409", "0.tar", 1), ("WDS409", "1.tar", 1)]

    assert told(looked(root, 2)[1]) == both
    assert told(list(validate(root).findings)) == both
    assert told([summed.error for summed in checksum(root) if summed.error]) == both
