from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.errors import InputError
from wdsctl.core.executors.job_folder import Job, JobUnit, PlannedStage, read_job
from wdsctl.core.executors.unit_results import UnitFunction
from wdsctl.core.jobs import ONE_BY_ONE

SCAN = UnitFunction("wdsctl.core.shards.scan_unit:run_scan_unit", (), keeps_results=True)


def a_stage(*sizes: int) -> PlannedStage:
    units = tuple(JobUnit(f"{i:032x}", f"s{i}", size, 0, 0) for i, size in enumerate(sizes))
    return PlannedStage(1, "scan", SCAN, ONE_BY_ONE, units, 0)


@pytest.mark.parametrize("tasks", [1, 3, 7, 50])
def test_every_unit_is_in_one_share(tasks: int) -> None:
    shares = a_stage(*range(0, 4_000_000, 100_000)).shares(tasks)
    assert len(shares) == tasks
    assert sorted(i for share in shares for i in share) == list(range(40))


def test_shares_have_similar_sizes() -> None:
    sizes = [10_000_000, *[1_000_000] * 30]
    shares = a_stage(*sizes).shares(4)
    work = [sum(sizes[i] for i in share) for share in shares]
    assert max(work) - min(work) <= 1_000_000


def test_saved_job_is_read_back(tmp_path: Path) -> None:
    job = Job(str(tmp_path), ("index", "a b", "--hash"), "/somewhere", 5, 2, "planned", "/media")
    job.save()
    assert read_job(str(tmp_path)) == job


def test_folder_without_job_has_hint_how_to_plan_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the folder has no job"):
        read_job(str(tmp_path))
