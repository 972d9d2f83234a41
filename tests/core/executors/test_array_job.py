from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests import children
from tests.core.executors.commands import (
    COMMANDS,
    SHARDS,
    everything,
    fresh_input,
    run_as_job,
    run_each_task,
    run_locally,
)
from wdsctl.cli.main import main, run_inner
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError, InputError, StorageError, UsageError
from wdsctl.core.executors.array_job import JobReport, merge_job, plan_job, report_job
from wdsctl.core.executors.array_task import run_task


@pytest.mark.parametrize("name", COMMANDS)
def test_job_writes_same_files_as_local_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS[name]
    outcomes = []
    root = tmp_path / "root"
    for mode in ("local", "job"):
        fresh_input(command, root)
        monkeypatch.chdir(root)
        if mode == "local":
            outcomes.append((run_locally(command), everything(root)))
        else:
            outcomes.append((run_as_job(command, tmp_path / "folder", 3, run_each_task), everything(root)))
    assert outcomes[0][1].keys() == outcomes[1][1].keys()
    for file in outcomes[0][1]:
        assert outcomes[0][1][file] == outcomes[1][1][file], file
    assert outcomes[0][0] == outcomes[1][0] in (0, 1, 5), capsys.readouterr()


@pytest.mark.parametrize("name", ["prepare", "convert shards"])
def test_merge_refuses_shard_that_a_task_wrote_to_another_disk(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, folder = tmp_path / "root", tmp_path / "folder"
    fresh_input(COMMANDS[name], root)
    monkeypatch.chdir(root)
    if name != "prepare":
        main(["index", "data"])
    plan_job(str(folder), [*COMMANDS[name].arguments[-1], "--workers", "1"], run_inner, tasks=2)
    run_each_task(folder, 2, 1)
    lost = max((root / "out").glob("*.tar"))
    lost.unlink()

    with pytest.raises(StorageError) as caught:
        merge_job(str(folder), run_inner)
    assert (caught.value.code, Path(caught.value.where).name) == ("WDS453", lost.name)
    assert not (root / "out" / ".wdsctl" / "catalog.sqlite").exists()


def test_merge_repairs_shard_again_that_a_task_wrote_to_another_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, folder = tmp_path / "root", tmp_path / "folder"
    fresh_input(COMMANDS["repair"], root)
    monkeypatch.chdir(root)
    plan_job(str(folder), COMMANDS["repair"].arguments[-1], run_inner, tasks=2)
    run_each_task(folder, 2, 1)
    lost = max((root / "out").glob("*.tar"))
    data = lost.read_bytes()
    lost.unlink()

    assert merge_job(str(folder), run_inner) == 5
    assert lost.read_bytes() == data


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shards in the folder `data` of the current folder."""
    root = tmp_path / "root"
    fresh_input(COMMANDS["index"], root)
    monkeypatch.chdir(root)
    return root / "data"


def test_job_continues_after_kill_with_other_task_count_and_repeated_task(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_locally(COMMANDS["index"])
    expected = everything(data)
    fresh_input(COMMANDS["index"], data.parent)
    monkeypatch.chdir(data.parent)
    folder = tmp_path / "job"
    planned = plan_job(str(folder), ["index", "data"], run_inner, tasks=3)
    assert isinstance(planned, JobReport)
    assert (planned.stage, planned.phase, planned.units) == (1, "scan", SHARDS)
    run_task(str(folder), 0)
    assert killed_task(folder, 1) == -signal.SIGKILL
    finished_units = report_job(str(folder)).done
    assert 0 < finished_units < SHARDS
    with pytest.raises(InputError) as caught:
        merge_job(str(folder), run_inner)
    assert caught.value.code == "WDS451"
    assert "job run" in caught.value.hint
    continued = plan_job(str(folder), [], run_inner, tasks=5)
    assert isinstance(continued, JobReport)
    assert (continued.tasks, continued.units) == (5, SHARDS - finished_units)
    for task in (0, 1, 1, 2, 3, 4):
        run_task(str(folder), task)
    assert run_task(str(folder), 3).ran == 0
    assert merge_job(str(folder), run_inner) == 0
    assert everything(data) == expected
    finished = merge_job(str(folder), run_inner)
    assert isinstance(finished, JobReport)
    assert finished.state == "finished"
    assert run_task(str(folder), 0).units == 0


_KILLED_TASK = """
import os, signal, sys
from wdsctl.core.executors.array_task import run_task
from wdsctl.core.job_results import ResultFolder
whole = ResultFolder.save
def save(self, units, results):
    kept = whole(self, units, results)
    os.kill(os.getpid(), signal.SIGKILL)
    return kept
ResultFolder.save = save
run_task(sys.argv[1], int(sys.argv[2]), trust_code=True)
"""


def killed_task(folder: Path, task: int) -> int:
    """Runs a task, on any machine, that is killed after it has saved its first results."""
    command = [sys.executable, "-c", _KILLED_TASK, str(folder), str(task)]
    return children.run(command, check=False).returncode


def test_shards_changed_between_plan_and_merge_are_planned_again(data: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "job")
    plan_job(folder, ["index", "data"], run_inner, tasks=2)
    for task in (0, 1):
        run_task(folder, task)
    (data / "new.tar").write_bytes((data / "s-00.tar").read_bytes())
    (data / "s-01.tar").unlink()
    with pytest.raises(InputError) as caught:
        merge_job(folder, run_inner)
    assert caught.value.code == "WDS452"
    assert "1 unit new or changed" in caught.value.message
    assert "s-01.tar" in caught.value.message
    assert not (data / ".wdsctl" / "catalog.sqlite").exists()
    planned = plan_job(folder, [], run_inner)
    assert isinstance(planned, JobReport)
    assert planned.units == 1
    for task in (0, 1):
        run_task(folder, task)
    assert merge_job(folder, run_inner) == 0


def test_merge_refuses_plan_with_shard_that_is_gone(data: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "job")
    plan_job(folder, ["index", "data"], run_inner, tasks=1)
    run_task(folder, 0)
    (data / "s-01.tar").unlink()

    with pytest.raises(InputError, match=r"0 units new or changed, 1 no longer needed \(s-01.tar\)") as caught:
        merge_job(folder, run_inner)
    assert caught.value.code == "WDS452"


def test_unreadable_shard_in_task_is_reported_and_retried(data: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "job")
    plan_job(folder, ["index", "data"], run_inner, tasks=1)
    moved = data / "s-03.tar"
    content = moved.read_bytes()
    moved.unlink()
    assert run_task(folder, 0).repeatable == 1
    moved.write_bytes(content)
    os.utime(moved, (1_700_000_000, 1_700_000_000))
    report = run_task(folder, 0)
    assert (report.ran, report.repeatable) == (1, 0)
    assert merge_job(folder, run_inner) == 0


def test_concurrent_merges_are_refused(data: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "job")
    plan_job(folder, ["index", "data"], run_inner)
    run_task(folder, 0)
    with hold_lock(f"{folder}/lock"), pytest.raises(CatalogError) as caught:
        merge_job(folder, run_inner)
    assert caught.value.code == "WDS304"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["inspect", "data"], "WDS454"),
        (["repair", "data", "--in-place", "--yes"], "WDS454"),
        (["index", "-"], "WDS454"),
        (["job", "plan", "x"], "WDS454"),
        ([], "WDS001"),
    ],
)
def test_command_without_tasks_is_refused(arguments: list[str], code: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        plan_job(str(tmp_path / "job"), arguments, run_inner)
    assert caught.value.code == code
    assert not (tmp_path / "job").exists()


def test_job_folder_accepts_one_command(data: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "job")
    plan_job(folder, ["index", "data"], run_inner)
    with pytest.raises(UsageError, match="another command"):
        plan_job(folder, ["index", "data", "--hash"], run_inner)


def test_job_folder_refuses_same_command_in_another_folder(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "job")
    plan_job(folder, ["index", "data"], run_inner)
    (tmp_path / "other" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(UsageError, match="planned in another folder, where 'data'"):
        plan_job(folder, ["index", "data"], run_inner)
    assert not isinstance(plan_job(folder, (), run_inner, tasks=2), int)


def test_command_with_nothing_to_do_finishes_while_planning(data: Path, tmp_path: Path) -> None:
    run_locally(COMMANDS["index"])
    assert plan_job(str(tmp_path / "job"), ["index", "data"], run_inner, tasks=3) == 0
    assert report_job(str(tmp_path / "job")).state == "finished"


def test_error_of_command_is_raised_and_leaves_no_job(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        plan_job(str(tmp_path / "job"), ["index", "nowhere"], run_inner)
    assert not (tmp_path / "job" / "job.json").exists()
