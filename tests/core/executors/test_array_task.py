from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import linked_shards, some_shards
from wdsctl.cli.main import run_inner
from wdsctl.core.errors import CatalogError, StorageError, UsageError
from wdsctl.core.executors.array_job import JobReport, merge_job, plan_job, report_job
from wdsctl.core.executors.array_task import find_task, run_task
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE


@pytest.fixture
def job(tmp_path: Path) -> str:
    root = some_shards(tmp_path / "data", 6)
    folder = str(tmp_path / "job")
    assert isinstance(plan_job(folder, ["index", root], run_inner, tasks=3), JobReport)
    return folder


@pytest.mark.parametrize(
    ("environment", "task"),
    [
        ({"SLURM_ARRAY_TASK_ID": "7"}, 7),
        ({"LSB_JOBINDEX": "1"}, 0),
        ({"LSB_JOBINDEX": "0", "JOB_COMPLETION_INDEX": "2"}, 2),  # LSF sets 0 outside arrays
        ({"PBS_ARRAY_INDEX": "3"}, 3),
    ],
)
def test_find_task_reads_number_from_scheduler(environment: dict[str, str], task: int) -> None:
    assert find_task(environment) == task


@pytest.mark.parametrize("environment", [{}, {"SLURM_ARRAY_TASK_ID": "undefined"}, {"LSB_JOBINDEX": "0"}])
def test_missing_task_number_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="missing task number"):
        find_task(environment)


def test_tasks_divide_all_units(job: str) -> None:
    reports = [run_task(job, task, workers=2) for task in range(3)]
    assert [report.ran for report in reports] == [2, 2, 2]
    assert report_job(job).done == 6
    assert [each.state for each in report_job(job).task_states] == ["done"] * 3


def test_tasks_may_read_paths_that_were_allowed_for_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, folder = linked_shards(tmp_path), str(tmp_path / "job")
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, str(tmp_path / "blobs"))
    plan_job(folder, ["index", root], run_inner, tasks=1)
    monkeypatch.delenv(ALLOW_PATH_VARIABLE)  # the node of a task has an environment of its own
    assert run_task(folder, 0).repeatable == 0
    assert os.environ[ALLOW_PATH_VARIABLE] == str(tmp_path / "blobs")


@pytest.mark.parametrize("task", [-1, 3])
def test_task_out_of_range_is_refused(job: str, task: int) -> None:
    with pytest.raises(UsageError, match=f"task {task} is out of range: the job has 3 tasks, 0 to 2"):
        run_task(job, task)


def test_job_of_other_version_is_refused(job: str) -> None:
    path = Path(job) / "job.json"
    path.write_text(path.read_text().replace('"version": "', '"version": "9.'))
    for call in (lambda: run_task(job, 0), lambda: merge_job(job, run_inner), lambda: report_job(job)):
        with pytest.raises(CatalogError, match=r"wdsctl 9\.") as caught:
            call()
        assert caught.value.code == "WDS450"


@pytest.mark.parametrize("name", ["job.json", "stage-1.json", "stage-1.units"])
def test_damaged_job_file_is_refused(job: str, name: str) -> None:
    path = Path(job) / name
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CatalogError) as caught:
        run_task(job, 0)
    assert caught.value.code == "WDS450"


def test_unknown_unit_function_in_job_is_refused(job: str) -> None:
    path = Path(job) / "stage-1.json"
    path.write_text(path.read_text().replace("wdsctl.core.shards.scan_unit:run_scan_unit", "os:system"))
    with pytest.raises(CatalogError) as caught:
        run_task(job, 0)
    assert caught.value.code == "WDS450"


def test_damaged_result_is_recomputed(job: str, tmp_path: Path) -> None:
    for task in range(3):
        run_task(job, task)
    results = sorted((Path(job) / "results").rglob("*.result"))
    data = bytearray(results[0].read_bytes())
    data[-1] ^= 255
    results[0].write_bytes(data)
    assert merge_job(job, run_inner) == 0
    assert (tmp_path / "data" / ".wdsctl" / "catalog.sqlite").exists()


def test_full_disk_fails_one_task_and_keeps_other_results(job: str, tmp_path: Path) -> None:
    run_task(job, 0)
    folder = Path(job) / "results" / "run_scan_unit"
    mode = folder.stat().st_mode
    (Path(job) / "results" / "moved").mkdir()
    before = sorted(folder.iterdir())
    folder.rename(tmp_path / "aside")
    folder.write_bytes(b"")  # a file in place of the folder: nothing can be written there
    with pytest.raises((StorageError, UsageError)):
        run_task(job, 1)
    assert "WDS" in read_task_error(job)
    folder.unlink()
    (tmp_path / "aside").rename(folder)
    assert folder.stat().st_mode == mode
    assert sorted(folder.iterdir()) == before
    run_task(job, 1)
    run_task(job, 2)
    assert merge_job(job, run_inner) == 0


def read_task_error(job: str) -> str:
    return next(Path(job, "tasks").glob("1-1.json")).read_text()
