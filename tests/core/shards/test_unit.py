from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_scan, a_shard, samples
from wdsctl.core.jobs import LocalProcesses, run_units
from wdsctl.core.shards.jsonl_keys import JsonlKeyRule
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.scan_unit import (
    SCAN_BATCH,
    ScanOptions,
    ScanUnit,
    are_quick_scans,
    run_scan_unit,
    scan_file,
    scan_results,
    threads_per_file,
)


def test_scan_result_path_depends_on_path_size_and_mtime(tmp_path: Path) -> None:
    shards = [
        ShardFile("a.tar", 1, 2),
        ShardFile("b.tar", 1, 2),
        ShardFile("a.tar", 2, 2),
        ShardFile("a.tar", 1, 3),
    ]
    results = scan_results(str(tmp_path))
    paths = {results.path(ScanUnit("/data", shard)) for shard in shards}

    assert len(paths) == 4
    assert results.path(ScanUnit("/elsewhere", shards[0])) in paths


@pytest.mark.parametrize("with_layout_hash", [False, True])
def test_batched_scans_are_saved_together_without_unreadable_shards(tmp_path: Path, with_layout_hash: bool) -> None:
    data = a_shard(samples(0, 3))
    units = []
    for i in range(11):
        (tmp_path / f"{i}.tar").write_bytes(data)
        shard = ShardFile(f"{i}.tar", len(data), 0)
        units.append(ScanUnit(str(tmp_path), shard, with_layout_hash=with_layout_hash))
    units.append(ScanUnit(str(tmp_path), ShardFile("none.tar", len(data), 0)))
    results = scan_results(str(tmp_path / "work"))
    for expected_scans in (12, 1):
        progress = RecordingProgress()
        found = run_units(
            run_scan_unit, units, LocalProcesses(1), results=results, batch=SCAN_BATCH, phase="scan", progress=progress
        )
        assert {(each.unit.shard.path, each.result().samples) for each in found} == {
            *((f"{i}.tar", 3) for i in range(11)),
            ("none.tar", 0),
        }
        assert progress.items == expected_scans
        assert len(os.listdir(results.folder)) == 4


def test_saved_scan_with_parts_beyond_shard_end_is_ignored(tmp_path: Path) -> None:
    data = a_shard(samples(0, 3))
    unit = ScanUnit(str(tmp_path), ShardFile("a.tar", len(data), 0))
    results = scan_results(str(tmp_path / "work"))
    results.save([unit], [replace(a_scan(data), part_offsets=a_scan(data).part_offsets + len(data))])
    assert results.load(unit) is None
    results.save([unit], [a_scan(data)])
    assert results.load(unit) is not None


def test_scan_of_unreadable_shard_has_finding(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_shard(samples(0, 3))[:1000])
    missing = scan_file(str(tmp_path), ShardFile("none.tar", 10, 0))
    shrunk = scan_file(str(tmp_path), ShardFile("a.tar", 20_000, 0))

    for scan, code in ((missing, "WDS404"), (shrunk, "WDS403")):
        assert (scan.status, scan.samples, [found.code for found in scan.findings]) == ("unreadable", 0, [code])


@pytest.mark.parametrize(
    ("workers", "runs", "threads"), [(1, 1, 1), (4, 0, 4), (4, 1, 4), (64, 1, 4), (64, 16, 4), (7, 2, 3), (2, 9, 1)]
)
def test_threads_per_file_uses_idle_workers_up_to_four(workers: int, runs: int, threads: int) -> None:
    assert threads_per_file(workers, runs) == threads


@pytest.mark.parametrize(
    ("shard", "options", "root", "is_quick"),
    [
        (ShardFile("a.jsonl", 1 << 28, 0), ScanOptions(), "/data", True),
        (ShardFile("a.jsonl", 1 << 29, 0), ScanOptions(), "/data", False),
        (ShardFile("a.tar", 100, 0), ScanOptions(), "/data", False),
        (ShardFile("a.jsonl", 100, 0), ScanOptions(JsonlKeyRule("id")), "/data", False),
        (ShardFile("a.jsonl", 100, 0), ScanOptions(with_sha256=True), "/data", False),
        (ShardFile("a.jsonl", 100, 0), ScanOptions(), "s3://data", False),
    ],
)
def test_are_quick_scans_accepts_only_small_local_jsonl_without_key_field(
    shard: ShardFile, options: ScanOptions, root: str, is_quick: bool
) -> None:
    assert are_quick_scans(root, [shard], options) == is_quick
    assert not are_quick_scans(root, [shard] * 3 + [ShardFile("b.jsonl", 1 << 29, 0)], options)
