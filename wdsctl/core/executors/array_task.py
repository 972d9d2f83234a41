"""Run one task of an array job: its share of the units of the current stage, whose results stay in the job folder.

A task takes no lock and repeats nothing of the command: it reads the table of the stage and its own units. Two runs of
one task at the same time write the same results.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.executors.job_folder import Job, PlannedStage, mark_path, read_own_job, read_stage, read_units
from wdsctl.core.files import write_text
from wdsctl.core.jobs import LocalProcesses, UnitSize, run_units
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE

#: Variable of a scheduler -> the number of its first task.
TASK_VARIABLES: Mapping[str, int] = {
    "SLURM_ARRAY_TASK_ID": 0,
    "LSB_JOBINDEX": 1,
    "JOB_COMPLETION_INDEX": 0,
    "PBS_ARRAY_INDEX": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What a run of a task did. `found`: units that had results before. `repeatable`: as yet unreadable inputs."""

    folder: str
    task: int
    tasks: int
    stage: int
    phase: str
    units: int
    found: int
    ran: int
    repeatable: int
    seconds: float


def find_task(environment: Mapping[str, str]) -> int:
    """Return the number of this task, from 0, which the scheduler has put into the environment. Raises UsageError."""
    for name, first in TASK_VARIABLES.items():
        text = environment.get(name, "")
        if text.isdecimal() and int(text) >= first:
            return int(text) - first
    raise UsageError(
        "missing task number: no scheduler has set one",
        hint=f"pass `--task 0`, or set one of {', '.join(TASK_VARIABLES)}",
    )


def run_task(
    folder: str, task: int, *, workers: int = 1, trust_code: bool = False, progress: Progress = SILENT_PROGRESS
) -> TaskReport:
    """Run the units of one task that have no results. Raises what a unit raises; finished units stay.

    Raises UsageError if there is no such task, and what `read_own_job` raises.
    """
    started = time.monotonic()
    job = read_own_job(folder, trust_code=trust_code)
    if not 0 <= task < job.tasks:
        raise UsageError(
            f"task {task} is out of range: the job has {job.tasks:,} tasks, 0 to {job.tasks - 1:,}",
            where=job.folder,
            hint="pass a task number in this range; to change the number of tasks: "
            f"{shell_command('job', 'plan', job.folder, '--tasks', str(task + 1))}",
        )
    if job.state == "finished":
        return TaskReport(
            folder=job.folder, task=task, tasks=job.tasks, stage=0, phase="", units=0, found=0, ran=0, repeatable=0,
            seconds=time.monotonic() - started,
        )  # fmt: skip
    stage = read_stage(job)
    share = stage.shares(job.tasks)[task]
    if job.allowed_paths:
        os.environ[ALLOW_PATH_VARIABLE] = job.allowed_paths
    mark: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid(), "started": time.time()}
    write_text(mark_path(job, task), json.dumps(mark))
    try:
        ran, repeatable = _run_share(job, stage, share, workers, progress)
    except WdsctlError as error:
        write_text(mark_path(job, task), json.dumps({**mark, "error": f"{error.code}: {error.message}"}))
        raise
    write_text(mark_path(job, task), json.dumps({**mark, "ended": time.time()}))
    return TaskReport(
        folder=job.folder,
        task=task,
        tasks=job.tasks,
        stage=stage.number,
        phase=stage.phase,
        units=len(share),
        found=len(share) - ran,
        ran=ran,
        repeatable=repeatable,
        seconds=time.monotonic() - started,
    )


def _run_share(
    job: Job, stage: PlannedStage, share: Sequence[int], workers: int, progress: Progress
) -> tuple[int, int]:
    """Run the units of a share. Returns (number of units that ran, number of those whose results may change)."""
    function = stage.function
    kept, repeated = job.kept(function), job.repeated(function)
    are_batched = stage.batch.units > 1
    found = kept.find_names([stage.units[i].name for i in share], are_batched=are_batched)
    left = [i for number, i in enumerate(share) if number not in found]
    units = read_units(job, stage, left)
    sizes = {id(unit): stage.units[i].size_bytes for i, unit in zip(left, units, strict=True)}
    finished = run_units(
        function.bind(),
        units,
        LocalProcesses(workers, (function.module,)),
        results=kept,
        batch=stage.batch,
        phase=stage.phase,
        progress=progress,
        size=lambda unit: UnitSize(1, sizes[id(unit)]),
    )
    repeatable = 0
    with closing(finished):
        for each in finished:
            if not each.is_saved:
                repeatable += 1
                repeated.save([each.unit], [each.result()])
    return len(left), repeatable
