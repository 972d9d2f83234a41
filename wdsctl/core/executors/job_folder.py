"""The folder of an array job: its files, and reading them. `array_job` writes them, `array_task` runs what they say.

job.json             the command, the number of tasks, the number of the stage, a random token
stage-N.json         the function of the units; name, label and size of each unit
stage-N.units        the arguments of the function, then the units, each with a checksum
results/FUNCTION/    result files (`wdsctl/core/jobs.py`)
again/FUNCTION/      results that the next run of a task replaces, such as shards that could not be read
tasks/N-TASK.json    when and where a task ran
lock                 held by `plan_job` and `merge_job`

Whoever writes the folder decides what a command does with the rights of the user who runs it: which code of columns it
imports, which files it reads and writes. So the token is also kept in the user's own data folder. A folder without that
record, such as one from an archive, runs only with `trust_code`.
"""

from __future__ import annotations

import heapq
import json
import os
import stat
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, BinaryIO, Literal

import numpy as np

from wdsctl.core.directories import user_data_folder
from wdsctl.core.errors import CatalogError, InputError, StorageError, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.executors.unit_results import UNIT_FUNCTIONS, UnitFunction
from wdsctl.core.file_limits import MAX_TABLE_BYTES, check_whole_size, read_whole
from wdsctl.core.files import MALFORMED_ERRORS, decode_checked, open_own, write_text
from wdsctl.core.job_results import ResultFolder, UnitNames
from wdsctl.core.jobs import BatchLimits
from wdsctl.core.json_text import checked_count, read_json, read_with_rows
from wdsctl.core.records import Records
from wdsctl.core.urls import redact_secrets
from wdsctl.core.version import VERSION

JOB_FORMAT = 2  # raise it when the files of a job folder change
JOB_FILE = "job.json"
MAX_TASKS = 100_000

#: Commands whose work is in units, with the options under which it is not.
SPLITTABLE_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "prepare": (),
    "index": (),
    "split": (),
    "validate": (),
    "repair": ("--in-place",),
    "convert": (),
}

_UNIT_COST_BYTES = 1 << 16  # what a unit costs besides its bytes, when work is divided
JobState = Literal["planned", "finished"]


@dataclass(frozen=True, slots=True)
class Job:
    """The contents of `job.json`.

    `stage`: the number of the current stage, 0 before the first. `exit_code`: of the command, once it has finished.
    `token`: random, as recorded for the user who planned the job.
    """

    folder: str
    arguments: tuple[str, ...]
    working_folder: str
    tasks: int
    stage: int = 0
    state: JobState = "planned"
    allowed_paths: str = ""
    exit_code: int = 0
    token: str = ""

    @property
    def lock(self) -> str:
        return os.path.join(self.folder, "lock")

    def save(self) -> None:
        facts = {
            "format": JOB_FORMAT,
            "version": VERSION,
            "arguments": self.arguments,
            "working_folder": self.working_folder,
            "tasks": self.tasks,
            "stage": self.stage,
            "state": self.state,
            "allowed_paths": self.allowed_paths,
            "exit_code": self.exit_code,
            "token": self.token,
        }
        write_text(os.path.join(self.folder, JOB_FILE), json.dumps(facts, indent=1))

    def kept(self, function: UnitFunction) -> ResultFolder[Any, Any]:
        """Return the folder of results of units."""
        return function.results(self._results_folder("results", function))

    def repeated(self, function: UnitFunction) -> ResultFolder[Any, Any]:
        """Return the folder of results that the next run of a task replaces."""
        return function.typed_results(self._results_folder("again", function))

    def _results_folder(self, kind: str, function: UnitFunction) -> str:
        return os.path.join(self.folder, kind, function.function.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class JobUnit:
    """A unit of a stage. `name`: identifies everything its result depends on. `end`: its last byte in the file."""

    name: str
    label: str
    size_bytes: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """The units that a command has left to run. Arguments of the function are the first bytes of the file of units."""

    number: int
    phase: str
    function: UnitFunction
    batch: BatchLimits
    units: Sequence[JobUnit]
    argument_bytes: int

    def find_done(self, job: Job) -> set[int]:
        """Return the indices of the units with results."""
        names = UnitNames(unit.name for unit in self.units)
        done = set(job.kept(self.function).find_names(names, are_batched=self.batch.units > 1))
        return done | set(job.repeated(self.function).find_names(names, are_batched=False))

    def shares(self, tasks: int) -> Sequence[Sequence[int]]:
        """Divide the units over tasks by their bytes: the largest first, each to the task with the least work."""
        heap = [(0, task) for task in range(tasks)]
        shares = [array("q") for _ in range(tasks)]
        sizes = np.fromiter((unit.size_bytes for unit in self.units), np.int64, len(self.units))
        order = np.argsort(-sizes, kind="stable")
        for i, size_bytes in zip(order.data, sizes[order].data, strict=True):
            total, task = heap[0]
            shares[task].append(i)
            heapq.heapreplace(heap, (total + size_bytes + _UNIT_COST_BYTES, task))
        return [array("q", np.sort(share).tobytes()) for share in shares]


def check_command(arguments: Sequence[str]) -> None:
    command = arguments[0]
    if command not in SPLITTABLE_COMMANDS:
        raise UsageError(
            f"`{command}` cannot be split into tasks",
            hint=f"pass one of {', '.join(SPLITTABLE_COMMANDS)} after `--`, and options of `job plan` before `--`",
            code="WDS454",
        )
    for option in SPLITTABLE_COMMANDS[command]:
        if option in arguments:
            raise UsageError(
                f"`{command} {option}` cannot be split into tasks: it changes its own input",
                hint="pass DEST instead, or run the command without a job",
                code="WDS454",
            )
    if any(redact_secrets(argument) != argument for argument in arguments):
        raise UsageError(
            "a URL or an option of the command contains a secret, and a job folder stores the command",
            hint="remove user, password and query from the URL, and set credentials in the environment of every task",
            code="WDS454",
        )
    if "-" in arguments:
        raise UsageError(
            "`job merge` cannot read a list of shards from stdin again",
            hint="write the list to a file, and pass @FILE",
            code="WDS454",
        )


def record_job(job: Job) -> None:
    """Record in the user's data folder that this user has planned the job. Raises StorageError WDS450."""
    try:
        write_text(_record_path(job.folder), job.token)
    except WdsctlError as error:
        raise StorageError(
            f"wdsctl cannot record that you planned the job: {error.message}",
            where=error.where,
            hint="set XDG_DATA_HOME to a folder that you can write; or pass --trust-code to all `job` commands",
            code="WDS450",
        ) from error


def check_owner(folder: str, *, trust_code: bool = False) -> bool:
    """Check who can change the job in a folder. Returns whether the users of a group can.

    Raises CatalogError WDS450 without `trust_code` if the folder belongs to another user than this one and root, or if
    all users can write to it.
    """
    group = False
    for path in (folder, os.path.join(folder, JOB_FILE)):
        with suppress(FileNotFoundError):
            found = os.stat(path)
            group = group or bool(found.st_mode & stat.S_IWGRP)
            if trust_code:
                continue
            if found.st_uid not in (os.geteuid(), 0):
                raise _untrusted_error("the job folder belongs to another user", path)
            if found.st_mode & stat.S_IWOTH:
                raise _untrusted_error("all users can write to the job folder", path)
    return group


def read_own_job(folder: str, *, trust_code: bool) -> Job:
    """Read the job in a folder, to run what it says.

    Raises what `read_job` and `check_owner` raise; and CatalogError WDS450 without `trust_code` unless `record_job` has
    recorded the job at this path.
    """
    folder = os.path.abspath(folder)
    check_owner(folder, trust_code=trust_code)
    job = read_job(folder)
    if not trust_code and not (job.token and _read_record(folder) == job.token):
        raise _untrusted_error("no record shows that you planned the job of this folder", folder)
    return job


def _record_path(folder: str) -> str:
    digest = blake2b(os.fsencode(os.path.realpath(folder)), digest_size=16).hexdigest()
    return os.path.join(user_data_folder(), "jobs", digest)


def _read_record(folder: str) -> str:
    path = _record_path(folder)
    with translate_os_errors(path, "read"):
        try:
            with open_own(path) as file:
                return read_whole(file, path).decode(errors="replace")
        except FileNotFoundError:
            return ""


def _untrusted_error(problem: str, path: str) -> CatalogError:
    return CatalogError(
        f"{problem}, and the folder says which command and which code runs",
        where=path,
        hint="look at the command (`wdsctl job status`); if you trust the folder and all who can write to it, "
        "pass --trust-code; otherwise, plan the command again in a folder of your own",
        code="WDS450",
    )


def read_job(folder: str) -> Job:
    """Read the job in a folder.

    Raises InputError if there is none; CatalogError WDS450 for that of another version, and for a damaged one.
    """
    folder = os.path.abspath(folder)
    path = os.path.join(folder, JOB_FILE)
    if not os.path.exists(path):
        raise InputError(
            "the folder has no job",
            where=folder,
            hint="plan a job first: `wdsctl job plan FOLDER --tasks 8 -- index ROOT`",
        )
    facts = _read_json(path)
    try:
        if facts["format"] != JOB_FORMAT or facts["version"] != VERSION:
            raise CatalogError(
                f"wdsctl {str(facts['version'])[:40]} planned the job, but this is wdsctl {VERSION}",
                where=folder,
                hint="use one version for plan, tasks and merge; or plan a new job in another folder",
                code="WDS450",
            )
        job = Job(
            folder,
            tuple(map(str, facts["arguments"])),
            str(facts["working_folder"]),
            checked_count(facts["tasks"], MAX_TASKS),
            checked_count(facts["stage"]),
            "finished" if facts["state"] == "finished" else "planned",
            str(facts["allowed_paths"]),
            checked_count(facts["exit_code"]),
            str(facts["token"]),
        )
        check_command(job.arguments)
    except MALFORMED_ERRORS as error:
        if isinstance(error, WdsctlError):
            raise
        raise _damaged_error(path) from error
    return job


def read_stage(job: Job) -> PlannedStage:
    """Read the table of the current stage. Raises CatalogError WDS450 if it is damaged."""
    path = os.path.join(job.folder, f"stage-{job.stage}.json")
    try:
        with _open_file(path) as file:
            facts, rows = read_with_rows(read_whole(file, path, MAX_TABLE_BYTES), "units")
        start = checked_count(facts["argument_bytes"])
        units = Records(JobUnit)
        for name, label, size_bytes, encoded_bytes in rows:
            end = start + checked_count(encoded_bytes)
            units.append(JobUnit(str(name), str(label), checked_count(size_bytes), start, end))
            start = end
        if facts["function"] not in UNIT_FUNCTIONS:
            raise ValueError(facts["function"])
        function = UnitFunction(str(facts["function"]), (), bool(facts["keeps_results"]))
        stage = PlannedStage(
            job.stage,
            str(facts["phase"]),
            function,
            BatchLimits(*map(checked_count, facts["batch"])),
            units,
            checked_count(facts["argument_bytes"]),
        )
        return replace(stage, function=read_arguments(job, stage))
    except MALFORMED_ERRORS as error:
        if isinstance(error, WdsctlError):
            raise
        raise _damaged_error(path) from error


def read_arguments(job: Job, stage: PlannedStage) -> UnitFunction:
    """Return the function of a stage with its arguments."""
    with _open_units(job, stage) as file:
        return stage.function.decode_arguments(*_check(_read(file, stage.argument_bytes)))


def read_units(job: Job, stage: PlannedStage, indices: Sequence[int]) -> list[Any]:
    """Read some units of a stage, in their order. Raises CatalogError WDS450 if they are damaged."""
    units = []
    with _open_units(job, stage) as file:
        for i in indices:
            file.seek(stage.units[i].start)
            try:
                data = _read(file, stage.units[i].end - stage.units[i].start)
                units.append(stage.function.decode_unit(*_check(data)))
            except MALFORMED_ERRORS as error:
                raise _damaged_error(_units_path(job, stage)) from error
    return units


def _units_path(job: Job, stage: PlannedStage) -> str:
    return os.path.join(job.folder, f"stage-{stage.number}.units")


def _open_units(job: Job, stage: PlannedStage) -> BinaryIO:
    return _open_file(_units_path(job, stage))


def _open_file(path: str) -> BinaryIO:
    with translate_os_errors(path, "read"):
        return open_own(path)


def _read(file: BinaryIO, size: int) -> bytes:
    check_whole_size(size, file.name, MAX_TABLE_BYTES)
    return file.read(size)


def _check(data: bytes) -> tuple[dict[str, Any], memoryview]:
    checked = decode_checked(data)
    if checked is None:
        raise ValueError("the checksum of a unit is wrong")
    return checked


def mark_path(job: Job, task: int) -> str:
    """Return the path of the file that says when and where a task of the current stage ran."""
    return os.path.join(job.folder, "tasks", f"{job.stage}-{task}.json")


def read_mark(job: Job, task: int) -> dict[str, Any]:
    with suppress(FileNotFoundError, *MALFORMED_ERRORS):
        path = mark_path(job, task)
        with open_own(path) as file:
            mark = read_json(read_whole(file, path))
        return mark if isinstance(mark, dict) else {}
    return {}


def _read_json(path: str) -> dict[str, Any]:
    try:
        with _open_file(path) as file:
            facts = read_json(read_whole(file, path))
    except MALFORMED_ERRORS as error:
        if isinstance(error, WdsctlError):
            raise
        raise _damaged_error(path) from error
    if not isinstance(facts, dict):
        raise _damaged_error(path)
    return facts


def _damaged_error(path: str) -> CatalogError:
    return CatalogError(
        "a file of the job is damaged",
        where=path,
        hint="plan the command again in a new folder",
        code="WDS450",
    )
