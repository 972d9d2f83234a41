from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import yaml

from wdsctl.core.executors.job_folder import Job
from wdsctl.core.executors.templates import SchedulerName, write_template

JOB = Job("/data/my job", ("index", "x"), "/data", 12)


@pytest.mark.parametrize("scheduler", get_args(SchedulerName))
def test_template_runs_every_task_of_job(scheduler: SchedulerName) -> None:
    text = write_template(JOB, scheduler)
    assert "my job" in text
    assert max(map(len, text.splitlines())) <= 120
    counts = {"slurm": "--array=0-11", "lsf": "[1-12]", "kubernetes": "completions: 12", "hf": "seq 0 11"}
    assert counts[scheduler] in text
    assert "wdsctl job merge '/data/my job'" in text


@pytest.mark.parametrize("scheduler", ["slurm", "lsf", "hf"])
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_template_is_valid_bash(scheduler: SchedulerName) -> None:
    subprocess.run(["bash", "-n"], input=write_template(JOB, scheduler).encode(), check=True)


def test_kubernetes_job_is_indexed() -> None:
    spec = yaml.safe_load(write_template(JOB, "kubernetes"))["spec"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", 12)
    assert spec["template"]["spec"]["containers"][0]["command"][:4] == ["wdsctl", "job", "run", "/data/my job"]


@pytest.mark.parametrize(("scheduler", "submit"), [("slurm", "sbatch"), ("lsf", "bsub")])
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_script_runs_rounds_until_merge_fails(tmp_path: Path, scheduler: SchedulerName, submit: str) -> None:
    """The first merge plans a second stage, whose tasks fail. The script does not submit them for ever."""
    log = tmp_path / "log"
    commands = {
        submit: 'echo submit >> "$LOG"; test "$(grep -c submit "$LOG")" = 1',
        "wdsctl": 'echo "job $2" >> "$LOG"; case $2 in status) exit 1;; esac; test "$(grep -c merge "$LOG")" = 1',
    }
    for name, code in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{code}\n")
        (tmp_path / name).chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log)}
    script = write_template(JOB, scheduler)
    assert subprocess.run(["bash", "-s"], input=script.encode(), env=variables, check=False).returncode == 1
    assert log.read_text().splitlines() == ["job status", "submit", "job merge"] * 2
