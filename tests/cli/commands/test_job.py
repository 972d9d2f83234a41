from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.cli.conftest import Wdsctl


@pytest.fixture
def root(tmp_path: Path) -> str:
    return some_shards(tmp_path / "data", 4)


def test_job_runs_from_plan_to_merge(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    job = str(tmp_path / "job")
    planned = wdsctl("job", "plan", job, "--tasks", "2", "--", "index", root, "--hash")
    assert planned.code == 0
    assert "stage 1 (scan): 0 of 4 units done" in planned.stdout
    assert wdsctl("job", "status", job).code == 1
    early = wdsctl("job", "merge", job)
    assert (early.code, "run tasks 0, 1" in early.stderr) == (3, True)
    assert wdsctl("job", "run", job, "--task", "0").code == 0
    assert "ran 2 units" in wdsctl("job", "run", job, "--task", "1").stdout
    assert "run `wdsctl job merge" not in wdsctl("job", "status", job).stdout
    merged = wdsctl("job", "merge", job)
    assert merged.code == 0
    assert "4 shards" in merged.stdout
    assert wdsctl("job", "status", job).code == 0


def test_job_commands_print_json_documents(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    job = str(tmp_path / "job")
    planned = json.loads(wdsctl("job", "plan", job, "--json", "--tasks", "3", "--", "index", root).stdout)
    assert (planned["command"], planned["stage"], planned["units"], planned["tasks"]) == ("job plan", 1, 4, 3)
    ran = json.loads(wdsctl("job", "run", job, "--task", "2", "--json").stdout)
    assert (ran["command"], ran["ran"]) == ("job run", 1)
    status = json.loads(wdsctl("job", "status", job, "--json").stdout)
    assert [each["state"] for each in status["task_states"]] == ["waiting", "waiting", "done"]
    script = json.loads(wdsctl("job", "template", job, "--json").stdout)
    assert script["scheduler"] == "slurm"


def test_job_passes_yes_on_to_its_command(wdsctl: Wdsctl, tmp_path: Path) -> None:
    root, job = some_shards(tmp_path / "many", 2, 40), str(tmp_path / "job")
    wdsctl("index", root)
    wdsctl("split", root, "1,1", "--by", "key")
    command = ("--", "split", root, "1,9", "--by", "key", "--seed", "3")
    refused = wdsctl("job", "plan", job, *command)
    assert (refused.code, "WDS238" in refused.stderr) == (2, True), refused.stderr
    assert wdsctl("job", "plan", job, "--yes", *command).code == 0


def test_job_run_reads_task_number_from_environment(
    wdsctl: Wdsctl, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = str(tmp_path / "job")
    wdsctl("job", "plan", job, "--tasks", "2", "--", "index", root)
    assert wdsctl("job", "run", job).code == 2
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    assert "task 1 of 2" in wdsctl("job", "run", job).stdout
    monkeypatch.setenv("WDSCTL_TASK", "0")
    assert "task 0 of 2" in wdsctl("job", "run", job).stdout


def test_job_resolves_relative_paths_in_folder_of_plan(
    wdsctl: Wdsctl, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wdsctl("job", "plan", "job", "--", "index", "data")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    wdsctl("job", "run", "../job", "--task", "0")
    assert wdsctl("job", "merge", "../job").code == 0
    assert (Path(root) / ".wdsctl" / "catalog.sqlite").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("job", "plan", "JOB"), "missing command"),
        (("job", "plan", "JOB", "--", "inspect", "x"), "`inspect` cannot be split into tasks"),
        (("job", "plan", "JOB", "--", "index", "x", "--nonsense"), "no such option: --nonsense"),
        (("job", "plan", "JOB", "--tasks", "0", "--", "index", "x"), "the minimum is 1"),
        (("job", "run", "JOB", "--task", "0"), "the folder has no job"),
        (("job", "merge", "JOB"), "the folder has no job"),
    ],
)
def test_job_reports_invalid_commands(wdsctl: Wdsctl, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result = wdsctl(*(str(tmp_path / "job") if word == "JOB" else word for word in words))
    assert result.code in (2, 3)
    assert message in result.stderr


def test_job_refuses_command_on_ray(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    result = wdsctl("job", "plan", tmp_path / "job", "--", "index", root, "--executor", "ray")

    assert result.code == 2
    assert "a job runs its command as tasks, and --executor ray would run all of it now" in result.stderr
    assert not (Path(root) / ".wdsctl" / "catalog.sqlite").exists()


def test_job_leaves_out_ray_if_it_is_configured(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[index]\nexecutor = "ray"\n')
    words = ("--", "index", root, "--config", tmp_path / "c.toml")

    assert wdsctl("job", "plan", tmp_path / "job", "--tasks", 2, *words).code == 0
    assert "0 of" in wdsctl("job", "status", tmp_path / "job").stdout


def test_job_merge_of_finished_job_exits_as_its_command(wdsctl: Wdsctl, root: str, tmp_path: Path) -> None:
    wdsctl("index", root)
    (Path(root) / "shard-001.tar").write_bytes(b"no tar")
    job = str(tmp_path / "job")
    wdsctl("job", "plan", job, "--", "validate", root)
    wdsctl("job", "run", job, "--task", "0")
    assert wdsctl("job", "merge", job).code == 1
    again = wdsctl("job", "merge", job)
    assert (again.code, "finished; the command exited with 1" in again.stdout) == (1, True)
    document = wdsctl("job", "merge", job, "--json").document
    assert (document["state"], document["exit_code"]) == ("finished", 1)
    assert wdsctl("job", "status", job).code == 0
