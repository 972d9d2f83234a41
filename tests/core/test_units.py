from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_shard, samples
from wdsctl.core.saved_scan import load_scan
from wdsctl.core.units import (
    BATCH,
    BATCH_BYTES,
    ScanUnit,
    ShardFile,
    batched,
    helpers,
    run_scan,
    scan_file,
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


def test_a_unit_is_done_when_its_result_is_there(tmp_path: Path) -> None:
    data = a_shard(samples(0, 3))
    (tmp_path / "a.tar").write_bytes(data)
    unit = scan_unit(str(tmp_path), ShardFile("a.tar", len(data), 0), str(tmp_path / "work"))

    assert not unit.is_done
    assert run_scan(unit) == unit.result
    assert scan_unit(unit.root, unit.shard, str(tmp_path / "work")).is_done
    loaded = load_scan(unit.result)
    assert loaded is not None
    assert loaded.samples == 3


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
    assert len(batched(units, 1)) == len(units)
    assert len(batched(units[:7], 2)) == 7
    assert batched([], 2) == []


@pytest.mark.parametrize(
    ("workers", "runs", "threads"), [(1, 1, 1), (8, 0, 8), (8, 1, 8), (64, 1, 8), (64, 16, 4), (7, 2, 3), (2, 9, 1)]
)
def test_workers_without_a_run_of_their_own_help_up_to_eight_a_file(workers: int, runs: int, threads: int) -> None:
    assert helpers(workers, runs) == threads
