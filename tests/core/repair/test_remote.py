"""Fixed copies in a store: the same as on a disk, and the originals stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.core.repair.test_repair import LINES, broken, copies
from tests.remote import stored, uploaded
from wdsctl.core.dataset.writer_marker import hold_writer_marker
from wdsctl.core.errors import CatalogError, UsageError
from wdsctl.core.repair.repair import RepairRequest, repair
from wdsctl.core.storage.objects import ObjectStore


@pytest.fixture
def store(dest: str) -> ObjectStore:
    return ObjectStore(dest)


@pytest.mark.parametrize("all_shards", [False, True])
def test_a_store_gets_the_copies_of_a_disk(tmp_path: Path, store: ObjectStore, all_shards: bool) -> None:
    root = broken(tmp_path)
    local = repair(root, RepairRequest(dest=str(tmp_path / "local"), all_shards=all_shards))
    uploaded(root, f"{store.root}/broken")
    before = stored(f"{store.root}/broken")
    request = RepairRequest(dest=f"{store.root}/fixed", all_shards=all_shards)

    report = repair(f"{store.root}/broken", request, workers=2)
    again = repair(f"{store.root}/broken", request)

    assert stored(f"{store.root}/fixed") == copies(local)
    assert (report.fixed, report.beyond_repair, report.repaired) == (local.fixed, local.beyond_repair, local.repaired)
    assert again.repaired == report.repaired
    assert stored(f"{store.root}/broken") == before


def test_lines_are_fixed_in_a_store(tmp_path: Path, store: ObjectStore) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines/a.jsonl").write_bytes(LINES)
    local = repair(str(tmp_path / "lines"), RepairRequest(dest=str(tmp_path / "local"), encoding="latin-1"))

    repair(str(tmp_path / "lines"), RepairRequest(dest=f"{store.root}/fixed", encoding="latin-1"))

    assert stored(f"{store.root}/fixed") == copies(local)


def test_a_copy_that_is_gone_is_written_again(tmp_path: Path, store: ObjectStore) -> None:
    request = RepairRequest(dest=f"{store.root}/fixed")
    repair(broken(tmp_path), request)
    before = stored(f"{store.root}/fixed")
    store.delete([f"{store.root}/fixed/cut.tar"])

    repair(broken(tmp_path), request)

    assert stored(f"{store.root}/fixed") == before


def test_a_destination_that_is_not_empty_is_refused(tmp_path: Path, store: ObjectStore) -> None:
    store.put(f"{store.root}/fixed/a.tar", b"")
    with pytest.raises(UsageError, match="not empty"):
        repair(broken(tmp_path), RepairRequest(dest=f"{store.root}/fixed"))


def test_a_second_writer_is_refused(tmp_path: Path, store: ObjectStore) -> None:
    dest = f"{store.root}/fixed"
    with hold_writer_marker(dest), pytest.raises(CatalogError, match=f"process {os.getpid()}"):
        repair(broken(tmp_path), RepairRequest(dest=dest))


def test_a_store_is_not_repaired_in_place_nor_into_itself(tmp_path: Path, store: ObjectStore) -> None:
    uploaded(broken(tmp_path), f"{store.root}/broken")
    for request in (RepairRequest(in_place=True), RepairRequest(dest=f"{store.root}/broken/fixed")):
        with pytest.raises(UsageError):
            repair(f"{store.root}/broken", request)
