"""`repair` writes the same copies to a store as to a disk, and keeps the originals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.core.repair.test_repair import LINES, make_broken_dataset, read_copies
from tests.remote import read_objects, upload_shards
from wdsctl.core.dataset.writer_marker import hold_writer_marker
from wdsctl.core.errors import CatalogError, UsageError
from wdsctl.core.repair.repair import RepairRequest, repair
from wdsctl.core.storage.objects import ObjectStore


@pytest.fixture
def store(dest: str) -> ObjectStore:
    return ObjectStore(dest)


@pytest.mark.parametrize("all_shards", [False, True])
def test_repair_to_store_writes_same_copies_as_to_disk(tmp_path: Path, store: ObjectStore, all_shards: bool) -> None:
    root = make_broken_dataset(tmp_path)
    local = repair(root, RepairRequest(dest=str(tmp_path / "local"), all_shards=all_shards))
    upload_shards(root, f"{store.root}/broken")
    before = read_objects(f"{store.root}/broken")
    request = RepairRequest(dest=f"{store.root}/fixed", all_shards=all_shards)

    report = repair(f"{store.root}/broken", request, workers=2)
    again = repair(f"{store.root}/broken", request)

    assert read_objects(f"{store.root}/fixed") == read_copies(local)
    assert (report.fixed, report.beyond_repair, report.repaired) == (local.fixed, local.beyond_repair, local.repaired)
    assert again.repaired == report.repaired
    assert read_objects(f"{store.root}/broken") == before


def test_repair_of_lines_to_store_equals_local_repair(tmp_path: Path, store: ObjectStore) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines/a.jsonl").write_bytes(LINES)
    local = repair(str(tmp_path / "lines"), RepairRequest(dest=str(tmp_path / "local"), encoding="latin-1"))

    repair(str(tmp_path / "lines"), RepairRequest(dest=f"{store.root}/fixed", encoding="latin-1"))

    assert read_objects(f"{store.root}/fixed") == read_copies(local)


def test_deleted_copy_is_rewritten(tmp_path: Path, store: ObjectStore) -> None:
    request = RepairRequest(dest=f"{store.root}/fixed")
    repair(make_broken_dataset(tmp_path), request)
    before = read_objects(f"{store.root}/fixed")
    store.delete([f"{store.root}/fixed/cut.tar"])

    repair(make_broken_dataset(tmp_path), request)

    assert read_objects(f"{store.root}/fixed") == before


def test_repair_refuses_non_empty_destination(tmp_path: Path, store: ObjectStore) -> None:
    store.put(f"{store.root}/fixed/a.tar", b"")
    with pytest.raises(UsageError, match="not empty"):
        repair(make_broken_dataset(tmp_path), RepairRequest(dest=f"{store.root}/fixed"))


def test_second_writer_is_refused(tmp_path: Path, store: ObjectStore) -> None:
    dest = f"{store.root}/fixed"
    with hold_writer_marker(dest), pytest.raises(CatalogError, match=f"process {os.getpid()}"):
        repair(make_broken_dataset(tmp_path), RepairRequest(dest=dest))


def test_repair_refuses_store_in_place_or_into_itself(tmp_path: Path, store: ObjectStore) -> None:
    upload_shards(make_broken_dataset(tmp_path), f"{store.root}/broken")
    for request in (RepairRequest(in_place=True), RepairRequest(dest=f"{store.root}/broken/fixed")):
        with pytest.raises(UsageError):
            repair(f"{store.root}/broken", request)
