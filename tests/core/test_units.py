from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.build import a_shard, samples
from wdsctl.core.line_keys import LineKeys
from wdsctl.core.saved_scan import load_scans, saved_scans
from wdsctl.core.units import (
    BATCH,
    BATCH_BYTES,
    ScanUnit,
    ShardFile,
    are_quick,
    batched,
    helpers,
    run_scans,
    scan_file,
    scan_here,
    scan_unit,
)


def test_units_are_named_after_path_size_and_time(tmp_path: Path) -> None:
    shards = [
        ShardFile("a.tar", 1, 2),
        ShardFile("b.tar", 1, 2),
        ShardFile("a.tar", 2, 2),
        ShardFile("a.tar", 1, 3),
    ]
    results = {scan_unit("/data", shard, str(tmp_path)).result for shard in shards}

    assert len(results) == 4
    assert scan_unit("/elsewhere", shards[0], str(tmp_path)).result in results


@pytest.mark.parametrize("scan", [run_scans, scan_here])
def test_shards_that_are_scanned_together_leave_one_file_under_the_names_of_all(
    tmp_path: Path, scan: Callable[[Sequence[ScanUnit]], object]
) -> None:
    work, data = str(tmp_path / "work"), a_shard(samples(0, 3))
    for name in ("a.tar", "b.tar"):
        (tmp_path / name).write_bytes(data)
    units = [scan_unit(str(tmp_path), ShardFile(name, len(data), 0), work) for name in ("a.tar", "b.tar", "none.tar")]
    scan(units)

    assert saved_scans(work) == {unit.name: units[0].result for unit in units}
    loaded = load_scans(units[0].result)
    assert [loaded[unit.name].samples for unit in units] == [3, 3, 0]


def test_a_shard_that_cannot_be_read_is_a_result_too(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(a_shard(samples(0, 3))[:1000])
    gone = scan_file(str(tmp_path), ShardFile("none.tar", 10, 0))
    shrunk = scan_file(str(tmp_path), ShardFile("a.tar", 20_000, 0))

    for scan, code in ((gone, "WDS404"), (shrunk, "WDS403")):
        assert (scan.status, scan.samples, [found.code for found in scan.findings]) == ("unreadable", 0, [code])


def test_many_small_shards_are_scanned_by_the_dozen_and_large_ones_alone() -> None:
    sizes = [10] * 1000 + [BATCH_BYTES] * 3 + [10] * 5
    units = [ScanUnit("/data", ShardFile(f"{i}.tar", size, 0), "") for i, size in enumerate(sizes)]
    runs = batched(units, 2)

    assert [first for first, _ in runs] == [0, *(end for _, end in runs[:-1])]
    assert runs[-1][1] == len(units)
    assert max(end - first for first, end in runs) == BATCH
    assert all((i, i + 1) in runs or (i, i + 2) in runs for i in (1000, 1001))
    assert batched(units, 1) == runs
    assert len(batched(units[:7], 2)) == 7
    assert batched([], 2) == []


@pytest.mark.parametrize(
    ("workers", "runs", "threads"), [(1, 1, 1), (4, 0, 4), (4, 1, 4), (64, 1, 4), (64, 16, 4), (7, 2, 3), (2, 9, 1)]
)
def test_workers_without_a_run_of_their_own_help_up_to_four_a_file(workers: int, runs: int, threads: int) -> None:
    assert helpers(workers, runs) == threads


@pytest.mark.parametrize(
    ("unit", "is_quick"),
    [
        (ScanUnit("/data", ShardFile("a.jsonl", 1 << 28, 0), "r"), True),
        (ScanUnit("/data", ShardFile("a.jsonl", 1 << 29, 0), "r"), False),
        (ScanUnit("/data", ShardFile("a.tar", 100, 0), "r"), False),
        (ScanUnit("/data", ShardFile("a.jsonl", 100, 0), "r", LineKeys("id")), False),
        (ScanUnit("/data", ShardFile("a.jsonl", 100, 0), "r", hashed=True), False),
        (ScanUnit("s3://data", ShardFile("a.jsonl", 100, 0), "r"), False),
    ],
)
def test_lines_that_are_found_at_once_need_no_other_workers(unit: ScanUnit, is_quick: bool) -> None:
    assert are_quick([unit]) == is_quick
    assert not are_quick([unit] * 3 + [ScanUnit("/data", ShardFile("b.jsonl", 1 << 29, 0), "r")])
