from __future__ import annotations

import os
from pathlib import Path

from tests.build import a_dataset, rewrite_shard, samples, some_shards, split_by_ratios
from tests.core.split_sets import a_split_dataset, splits_of
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import QuarantineEntry, add_to_quarantine, delete_quarantine_entries
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.index.shards import index_shards
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.staging import stage_catalog
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.split.reapply import ReapplyResult, reapply_splits
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.excludes import Excludes


def quarantine(root: str, *rows: tuple[str, int | None, str]) -> ReapplyResult:
    place = locate(root)
    with Catalog.open(place.catalog_path) as catalog:
        layouts = {row.path: row.layout_hash for row in catalog.shards()}
    with Ledger.open(place.ledger_path) as ledger:
        add_to_quarantine(
            ledger,
            [
                QuarantineEntry(shard=shard, layout_hash=layouts[shard], position=at, key=key, code="WDS121", run_id=1)
                for shard, at, key in rows
            ],
        )
    return reapply(root)


def reapply(root: str) -> ReapplyResult:
    place = locate(root)
    with OpenDataset(place) as dataset, hold_lock(place.lock):
        return reapply_splits(dataset, 1, SILENT_PROGRESS)


def test_quarantined_samples_are_in_no_split_until_released(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    before = splits_of(root)
    report = quarantine(
        root, ("shard-000.tar", 2, "000002"), ("shard-001.tar", None, ""), ("shard-003.tar", None, "000016")
    )
    quarantined = {"shard-000.tar/000002", "shard-003.tar/000016", *(f"shard-001.tar/{i:06d}" for i in range(5, 10))}

    assert (report.is_changed, report.excluded, report.findings) == (True, 7, ())
    assert before.keys() - splits_of(root).keys() == quarantined
    assert reapply(root) == ReapplyResult(is_changed=False, excluded=7)
    assert index(root).up_to_date
    with Ledger.open(locate(root).ledger_path) as ledger:
        delete_quarantine_entries(ledger)
    assert reapply(root).is_changed
    assert splits_of(root) == before
    quarantine(root, ("shard-001.tar", None, ""))
    split_by_ratios(root, {"train": 2, "val": 1}, allow_split_changes=True)
    assert len(splits_of(root)) == 25


def test_quarantine_ends_when_shard_is_rewritten(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    quarantine(root, ("shard-000.tar", None, ""), ("shard-001.tar", 0, "000005"))
    rewrite_shard(tmp_path / "shard-000.tar", samples(0, 7))
    index(root)

    assert sum(sample.startswith("shard-000.tar") for sample in splits_of(root)) == 7
    assert "shard-001.tar/000005" not in splits_of(root)


def test_new_catalog_is_up_to_date_after_quarantined_shard_was_rewritten(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    quarantine(root, ("shard-000.tar", None, ""))
    rewrite_shard(tmp_path / "shard-000.tar", samples(0, 7))
    os.unlink(locate(root).catalog_path)
    index(root)

    assert reapply(root) == ReapplyResult(is_changed=False, excluded=0)
    assert index(root).up_to_date


def test_excludes_survive_rebuild_and_dropped_shard(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    split_dataset(root, SplitRequest(excludes=Excludes(keys=("000001", "000006"))))
    index(root, rebuild=True)
    assert len(splits_of(root)) == 28
    (tmp_path / "shard-000.tar").unlink()
    index(root, missing="drop")
    assert len(splits_of(root)) == 24


def test_missing_key_list_is_reported_by_next_index(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("000001\n")
    root = a_split_dataset(tmp_path / "data")
    split_dataset(root, SplitRequest(excludes=Excludes(key_files=(str(tmp_path / "keys"),))))
    [key_file] = (Path(locate(root).meta) / "splits").iterdir()
    key_file.unlink()
    a_dataset(tmp_path / "data", {"shard-006.tar": samples(30, 5)})
    [finding] = index(root).findings

    assert "the list of keys does not exist" in finding.message
    assert "shard-000.tar/000001" not in splits_of(root)
    assert len(splits_of(root)) == 34


def test_interrupted_index_leaves_new_shards_in_no_split(tmp_path: Path) -> None:
    root = a_split_dataset(tmp_path)
    split_dataset(root, SplitRequest(excludes=Excludes(keys=("000031",)), allow_empty=True))
    before = splits_of(root)
    some_shards(tmp_path, 2, first=6)
    place = locate(root)
    with OpenDataset(place) as dataset, hold_lock(place.lock), stage_catalog(dataset) as stage:
        index_shards(stage, IndexRequest(), SILENT_PROGRESS)  # what an interrupted `index` may have published
    assert splits_of(root) == before

    index(root)
    after = splits_of(root)
    assert {key: after[key] for key in before} == before
    assert sorted(key[-6:] for key in after.keys() - before.keys()) == [f"{i:06d}" for i in range(30, 40) if i != 31]
