from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.build import linked_shards, rewrite_shard, samples, some_shards
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.totals import CatalogSummary
from wdsctl.core.compare.checksum import checksum
from wdsctl.core.convert.sources import check_index_is_current
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.errors import DatasetError, Finding
from wdsctl.core.index.freshness import check_freshness
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.validate.request import ValidationLevel
from wdsctl.core.validate.validate import ValidateRequest, validate

URL = "faulty://store/shards"


def check(root: str, spread: int) -> tuple[int, list[Finding]]:
    place, summary = read_summary(root, spread)
    return check_freshness(place, summary)


def read_summary(root: str, spread: int) -> tuple[DatasetLocation, CatalogSummary]:
    place = locate(root)
    with Catalog.open(place.catalog_path) as catalog:
        return place, catalog.summary(first=0, spread=spread)


def summarize(findings: list[Finding]) -> list[tuple[str, str, int]]:
    return [(found.code, found.shard, found.count) for found in findings]


@pytest.fixture
def changed_dataset(tmp_path: Path) -> str:
    """Twelve indexed shards, of which 003 and 004 have changed and 006 and 007 are gone, and a new shard 012."""
    root = some_shards(tmp_path, 12)
    index(root)
    for number in (3, 4):
        rewrite_shard(tmp_path / f"shard-{number:03}.tar", samples(50, 1))
    for number in (6, 7):
        (tmp_path / f"shard-{number:03}.tar").unlink()
    return some_shards(tmp_path, 1, first=12)


def test_check_freshness_checks_all_of_few_shards(changed_dataset: str) -> None:
    number, findings = check(changed_dataset, 12)

    assert number == 12
    assert [found.shard[6:9] for found in findings] == ["012", "003", "004", "006", "007"]


def test_check_freshness_checks_some_of_many_shards_without_listing(changed_dataset: str) -> None:
    number, findings = check(changed_dataset, 4)

    assert number == 4
    assert [(found.shard[6:9], found.message) for found in findings] == [
        ("003", "has changed since it was indexed"),
        ("006", "is in the catalog, but its file is missing"),
    ]


@pytest.mark.parametrize(("spread", "first"), [(8, "shard-001.tar"), (4, ""), (2, "")])
def test_check_freshness_counts_all_shards_kept_as_missing(tmp_path: Path, spread: int, first: str) -> None:
    root = some_shards(tmp_path, 8)
    index(root)
    for number in (1, 5):
        (tmp_path / f"shard-{number:03}.tar").unlink()
    index(root, missing="keep")

    assert summarize(check(root, spread)[1]) == [("WDS306", first, 2)]


def test_check_freshness_reports_reappeared_shard(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 8)
    index(root)
    for number in (0, 1):
        (tmp_path / f"shard-{number:03}.tar").rename(tmp_path / f"{number}.away")
    index(root, missing="keep")
    (tmp_path / "0.away").rename(tmp_path / "shard-000.tar")

    assert summarize(check(root, 4)[1]) == [("WDS305", "shard-000.tar", 1), ("WDS306", "", 1)]


def test_check_freshness_file_accesses_are_independent_of_shard_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[int] = Counter()
    stat, access, scandir = os.stat, os.access, os.scandir
    for shards in (20, 60):
        root = some_shards(tmp_path / str(shards), shards)
        index(root)
        place, summary = read_summary(root, 10)

        with monkeypatch.context() as patch:
            for name, call in (("stat", stat), ("access", access), ("scandir", scandir)):
                patch.setattr(os, name, lambda *words, call=call, at=shards: (calls.update([at]), call(*words))[1])
            assert check_freshness(place, summary) == (10, [])

    assert calls == {20: 20, 60: 20}


@pytest.mark.usefixtures("faulty_store")
def test_check_freshness_of_remote_dataset_requests_sizes_without_listing(tmp_path: Path) -> None:
    local = some_shards(tmp_path / "local", 40)
    upload_shards(local, URL)
    index(URL)
    rewrite_shard(tmp_path / "local" / "shard-000.tar", b"shorter")
    (tmp_path / "local" / "shard-020.tar").unlink()
    FaultyFileSystem.reset()
    upload_shards(local, URL)
    number, findings = check(URL, 20)

    assert number == 2
    assert [(found.shard, found.message) for found in findings] == [
        ("shard-000.tar", "has changed since it was indexed"),
        ("shard-020.tar", "is in the catalog, but its file is missing"),
    ]
    assert [path.rsplit("/", 1)[1] for path in FaultyFileSystem.metadata_requests] == ["shard-000.tar", "shard-020.tar"]


@pytest.mark.usefixtures("faulty_store")
def test_check_freshness_does_not_call_unreadable_shard_changed(tmp_path: Path) -> None:
    upload_shards(some_shards(tmp_path, 2), URL)
    FaultyFileSystem.fault.append(refuse_shards)
    index(URL)

    assert {found.message for found in check(URL, 2)[1]} == {"could not be read in the last run of index"}
    assert [shard.status for shard in inspect(URL).shard_list] == ["unreadable", "unreadable"]


def refuse_shards(path: str, start: int, end: int, data: bytes) -> bytes:
    if path.endswith(".tar"):
        raise PermissionError("denied")
    return data


def reset_times(root: str) -> None:
    """Sets new times, as after `cp -r`, an rsync without -t, or a checkout."""
    for name in os.listdir(root):
        if not name.startswith("."):
            os.utime(f"{root}/{name}", ns=(1, 1))


def test_shards_with_new_times_and_same_content_are_one_note(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    reset_times(root)

    for findings in (check(root, 3)[1], validate(root).findings, validate(root, revalidate_all()).findings):
        (found,) = [each for each in findings if each.code == "WDS305"]
        assert (found.severity, found.count, found.shard) == ("note", 3, "")
    dry = index(root, dry_run=True)
    assert (dry.changed, dry.unchanged) == (0, 3)
    check_index_is_current(locate(root), [], SILENT_PROGRESS)
    assert not os.path.exists(locate(root).work_folder)
    assert index(root).changed == 0
    assert check(root, 3)[1] == [] == list(validate(root).findings)


def revalidate_all() -> ValidateRequest:
    return ValidateRequest(levels=("structure", "headers", "content"), again=True)


def test_shard_with_new_time_same_size_and_other_samples_is_changed(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    rewrite_shard(f"{root}/shard-001.tar", samples(70, 5))

    assert summarize(check(root, 2)[1]) == [("WDS305", "shard-001.tar", 1)]
    errors = [found for found in validate(root).findings if found.severity == "error"]
    assert [(found.code, found.shard) for found in errors] == [("WDS305", "shard-001.tar")]
    assert index(root, dry_run=True).changed == 1
    with pytest.raises(DatasetError, match="1 changed shard"):
        check_index_is_current(locate(root), [], SILENT_PROGRESS)


@pytest.mark.parametrize("level", ["structure", "hashes"])
def test_changed_bytes_in_touched_shard_are_found_only_by_hash(tmp_path: Path, level: ValidationLevel) -> None:
    root = some_shards(tmp_path, 2)
    index(root, hashed=True)
    data = bytearray((tmp_path / "shard-001.tar").read_bytes())
    data[512] ^= 1  # of the first part
    rewrite_shard(f"{root}/shard-001.tar", bytes(data))

    found = validate(root, ValidateRequest(levels=("structure", level) if level != "structure" else (level,))).findings
    errors = [(each.code, each.shard) for each in found if each.severity == "error"]
    assert errors == ([("WDS151", "shard-001.tar")] if level == "hashes" else [])


def test_touched_jsonl_is_compared_by_line_positions(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 22}\n')
    index(str(path))
    os.utime(path, ns=(1, 1))
    assert [(each.severity, each.count) for each in validate(str(path)).findings] == [("note", 1)]
    path.write_text('{"a": 11}\n{"a": 2}\n')
    assert ("WDS305", "error") in {(each.code, each.severity) for each in validate(str(path)).findings}


def test_shard_behind_disallowed_link_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = linked_shards(tmp_path)
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", str(tmp_path / "blobs"))
    index(root)
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", "")
    both = [("WDS409", "0.tar", 1), ("WDS409", "1.tar", 1)]

    assert summarize(check(root, 2)[1]) == both
    assert summarize(list(validate(root).findings)) == both
    assert summarize([summed.error for summed in checksum(root) if summed.error]) == both
