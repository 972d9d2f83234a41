"""Array jobs: `plan_job` and `merge_job` run a command up to the units that tasks run, `read_job` shows the state.

A job is a folder that all machines see. The command runs in the process that plans and in the one that merges; where
units are left to run, it writes them to the folder as a *stage* and stops. Tasks run the units of the stage and leave
results in the folder. The next merge runs the command again, which finds the results and continues to its end, or to
the next stage. Results are named after what they depend on, so that another number of tasks keeps what is done.
"""

from __future__ import annotations

import os
import shlex
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from operator import eq
from typing import Any, Literal

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import InputError, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.executors.job_folder import (
    JOB_FILE,
    MAX_TASKS,
    Job,
    JobState,
    PlannedStage,
    check_command,
    check_owner,
    read_job,
    read_mark,
    read_own_job,
    read_stage,
    record_job,
)
from wdsctl.core.executors.unit_results import UnitFunction, find_unit_function
from wdsctl.core.files import (
    BytesLike,
    encode_checked,
    link_or_copy_into,
    write_pieces,
)
from wdsctl.core.job_results import ResultFile, ResultT, UnitNames, UnitT
from wdsctl.core.jobs import FoundResult, LocalProcesses, Stage, StageStopped, unit_label, using_executor
from wdsctl.core.json_text import encode_with_rows
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.records import LazySequence
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE, check_name
from wdsctl.core.text import path_for_message, pluralize

_SHOWN_UNITS = 3

TaskState = Literal["waiting", "started", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """One task of the current stage. `where`, `since`: of its last start; empty and 0 if it has not run."""

    task: int
    state: TaskState
    units: int
    done: int
    where: str = ""
    since: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The state of a job.

    `exit_code`: of the command, 0 until it has finished. `stage`: counts from 1. `phase`: what the units of the stage
    do, such as `scan`.
    """

    folder: str
    command_line: str
    state: JobState
    tasks: int
    exit_code: int = 0
    stage: int = 0
    phase: str = ""
    units: int = 0
    done: int = 0
    size_bytes: int = 0
    task_states: tuple[TaskStatus, ...] = field(default=())


#: Runs a command line of wdsctl in this process, and returns its exit code.
RunCommand = Callable[[Sequence[str]], int]


def plan_job(
    folder: str,
    arguments: Sequence[str],
    run_command: RunCommand,
    *,
    tasks: int | None = None,
    trust_code: bool = False,
    progress: Progress = SILENT_PROGRESS,
) -> JobReport | int:
    """Plan a new job, or plan the rest of an unfinished one, if there are no `arguments`.

    Returns the state of the job, or the exit code of the command if nothing is left for tasks. `trust_code`: run what a
    folder says that this user has not planned, and record no new job. Raises UsageError for a command that has no
    units, and what `read_own_job` raises.
    """
    folder = os.path.abspath(folder)
    if tasks and tasks > MAX_TASKS:
        raise UsageError(f"a job has at most {MAX_TASKS:,} tasks, not {tasks:,}", hint="pass a smaller `--tasks`")
    _note_group(folder, progress, trust_code=trust_code)
    exists = os.path.exists(os.path.join(folder, JOB_FILE))
    if arguments:
        check_command(arguments)
        planned = read_own_job(folder, trust_code=trust_code) if exists else None
        if planned:
            _check_same_folder(planned, arguments)
        if planned and planned.arguments != tuple(arguments):
            raise UsageError(
                "the folder contains a job for another command",
                where=folder,
                hint="pass a new folder; or omit the command to continue the job of this folder",
            )
    elif not exists:
        raise UsageError(
            "missing command: the folder has no job to continue",
            where=folder,
            hint=f"add the command after `--`: {shell_command('job', 'plan', folder, '--', 'index', 'ROOT')}",
        )
    with hold_lock(os.path.join(folder, "lock"), note=progress.note):
        if exists:
            job = read_own_job(folder, trust_code=trust_code)
            job = replace(job, tasks=tasks or job.tasks, state="planned", exit_code=0)
        else:
            job = Job(folder, tuple(arguments), os.getcwd(), tasks or 1, token=os.urandom(16).hex())
            if not trust_code:
                record_job(job)
        job = replace(job, allowed_paths=os.environ.get(ALLOW_PATH_VARIABLE, ""))
        return _advance(job, None, run_command)


def _note_group(folder: str, progress: Progress, *, trust_code: bool) -> None:
    """Note that the users of a group can change the command. Raises what `check_owner` raises."""
    if check_owner(folder, trust_code=trust_code):
        progress.note(f"the users of a group can write to {path_for_message(folder)}, and change the command in it")


def _check_same_folder(job: Job, arguments: Sequence[str]) -> None:
    """Raise UsageError if relative paths of the command mean other files here than those of the job."""
    here = os.getcwd()
    relative = [each for each in arguments[1:] if not os.path.isabs(each) and os.path.lexists(each)]
    if relative and here != job.working_folder:
        raise UsageError(
            f"the job was planned in another folder, where {relative[0]!r} is another path",
            where=job.working_folder,
            hint="omit the command to continue the job of this folder; or plan a new job in a new folder",
        )


def merge_job(
    folder: str, run_command: RunCommand, *, trust_code: bool = False, progress: Progress = SILENT_PROGRESS
) -> JobReport | int:
    """Run the command of a job with the results of its tasks, up to its end or to the next stage.

    Returns what `plan_job` returns. Raises InputError WDS451 if tasks have not finished, WDS452 if the inputs of the
    command have changed since the plan, CatalogError WDS304 during another merge, and what `read_own_job` raises.
    """
    job = read_own_job(folder, trust_code=trust_code)
    _note_group(job.folder, progress, trust_code=trust_code)
    with hold_lock(job.lock, note=progress.note):
        job = read_own_job(folder, trust_code=trust_code)
        if job.state == "finished":
            return report_job(folder)
        return _advance(job, _read_complete_stage(job), run_command)


def _advance(job: Job, stage: PlannedStage | None, run_command: RunCommand) -> JobReport | int:
    """Run the command until it ends or stops before a stage. `stage`: whose units have results."""
    source = _JobResults(job, stage)
    del stage  # frees the table of units as soon as the command has asked for them
    try:
        with _working_folder(job.working_folder), using_executor(source.make_executor):
            code = run_command(job.arguments)
    except StageStopped:
        if source.error is not None:
            raise source.error from None
        return report_job(job.folder)
    if code in (0, 1, 5):
        replace(source.job, state="finished", exit_code=code).save()
    return code


@contextmanager
def _working_folder(path: str) -> Iterator[None]:
    """Relative paths in the command line are those of the folder in which the job was planned."""
    before = os.getcwd()
    try:
        with translate_os_errors(path, "read"):
            check_name(path)
            os.chdir(path)
        yield
    finally:
        os.chdir(before)


class _JobResults:
    """Finds the results of units in a job folder; writes units without results as the next stage."""

    def __init__(self, job: Job, stage: PlannedStage | None) -> None:
        self.job = job
        self.error: WdsctlError | None = None
        self._stage = stage  # None once the command has asked for its units

    def make_executor(self, workers: int, preload: Sequence[str]) -> JobExecutor:
        return JobExecutor(self, LocalProcesses(workers, preload))

    def find(self, stage: Stage[Any, Any]) -> Sequence[FoundResult[Any]] | None:
        function = find_unit_function(stage.fn, keeps_results=stage.results is not None)
        if function is None:
            return None
        kept, repeated = self.job.kept(function), self.job.repeated(function)
        names = UnitNames(map(kept.name, stage.units))
        files = kept.find_names(names, are_batched=stage.batch.units > 1)
        others = repeated.find_names(names, are_batched=False)
        missing = array("q", (i for i in range(len(names)) if i not in files and i not in others))
        self._check_inputs(stage, function, names, missing)
        if missing:
            self._write_stage(stage, function, names, missing)
            raise StageStopped
        imported: dict[str, ResultFile] = {}

        def make(i: int) -> FoundResult[Any]:
            unit = stage.units[i]
            if i not in files:
                return FoundResult(is_saved=False, load=partial(repeated.load_or_run, unit, stage.fn, others[i]))
            file, results = files[i], kept
            if stage.results is not None:
                results = stage.results
                file = _import_file(file, results.folder, imported)
            load = partial(results.load_or_run, unit, stage.fn, file)
            return FoundResult(is_saved=stage.results is not None, load=load)

        return LazySequence(len(names), make)

    def _check_inputs(
        self, stage: Stage[Any, Any], function: UnitFunction, names: Sequence[str], missing: Sequence[int]
    ) -> None:
        """Compare the units with the plan when the command asks for those of the current stage."""
        planned = self._stage
        if planned is None or planned.function.function != function.function:
            return
        if (
            not missing
            and len(names) == len(planned.units)
            and all(map(eq, names, (unit.name for unit in planned.units)))
        ):
            self._stage = None
            return
        planned_labels = {unit.name: unit.label for unit in planned.units}
        present = set(names)
        if not missing and present.isdisjoint(planned_labels):
            return  # an earlier stage with the same function
        self._stage = None
        if stage.results is not None:
            present.update(map(stage.results.name, stage.done))
        gone = [label for name, label in planned_labels.items() if name not in present]
        new = [unit_label(stage.units[i]) for i in missing]
        if gone or new:
            examples = ", ".join(sorted({*gone, *new} - {""})[:_SHOWN_UNITS])
            self.error = InputError(
                f"the inputs have changed since the plan: {pluralize(len(new), 'unit')} new or changed, "
                f"{len(gone):,} no longer needed{f' ({examples})' if examples else ''}",
                where=self.job.folder,
                hint=f"plan again, which keeps finished units: {shell_command('job', 'plan', self.job.folder)}",
                code="WDS452",
            )
            raise StageStopped

    def _write_stage(
        self, stage: Stage[Any, Any], function: UnitFunction, names: Sequence[str], missing: Sequence[int]
    ) -> None:
        number = self.job.stage + 1
        encoded_bytes = array("q")

        def encode_units() -> Iterator[BytesLike]:
            for i in missing:
                encoded = encode_checked(*function.encode_unit(stage.units[i]))
                encoded_bytes.append(sum(map(len, encoded)))
                yield from encoded

        def table() -> Iterator[list[Any]]:
            for i, length in zip(missing, encoded_bytes, strict=True):
                yield [names[i], unit_label(stage.units[i]), stage.sizes[i].size_bytes, length]

        arguments = encode_checked(*function.encode_arguments())
        path = os.path.join(self.job.folder, f"stage-{number}")
        write_pieces(f"{path}.units", chain(arguments, encode_units()))
        facts = {
            "phase": stage.phase,
            "function": function.function,
            "keeps_results": function.keeps_results,
            "batch": list(stage.batch),
            "argument_bytes": sum(map(len, arguments)),
        }
        write_pieces(f"{path}.json", encode_with_rows(facts, "units", table()))
        self.job = replace(self.job, stage=number)
        self.job.save()


@dataclass(frozen=True, slots=True)
class JobExecutor:
    """An executor that takes results from a job folder, and runs what tasks cannot run in `local` processes."""

    source: _JobResults
    local: LocalProcesses

    @property
    def workers(self) -> int:
        return self.local.workers

    @property
    def shares_files(self) -> bool:
        return False

    def run(self, fn: Callable[[UnitT], ResultT], units: Iterable[UnitT]) -> Generator[tuple[int, ResultT], None, None]:
        yield from self.local.run(fn, units)

    def find_results(self, stage: Stage[UnitT, ResultT]) -> Sequence[FoundResult[ResultT]] | None:
        """Return the results that tasks have left; raises StageStopped if units are left to run."""
        return self.source.find(stage)


def _import_file(file: ResultFile, folder: str, imported: dict[str, ResultFile]) -> ResultFile:
    """Link or copy a result file into the command's own folder of results, once."""
    if file.path not in imported:
        imported[file.path] = ResultFile(link_or_copy_into(file.path, folder))
    return imported[file.path]


def _read_complete_stage(job: Job) -> PlannedStage:
    """Read the current stage. Raises InputError WDS451 if units have no results."""
    stage = read_stage(job)
    done = stage.find_done(job)
    if len(done) == len(stage.units):
        return stage
    missing = [i for i in range(len(stage.units)) if i not in done]
    tasks = [task for task, share in enumerate(stage.shares(job.tasks)) if not done.issuperset(share)]
    examples = ", ".join([stage.units[i].label for i in missing if stage.units[i].label][:_SHOWN_UNITS])
    more = f" and {len(missing) - _SHOWN_UNITS:,} more" if len(missing) > _SHOWN_UNITS and examples else ""
    named = ", ".join(map(str, tasks[:10])) + (", ..." if len(tasks) > 10 else "")
    raise InputError(
        f"{len(missing):,} of {pluralize(len(stage.units), 'unit')} have no result"
        f"{f': {examples}{more}' if examples else ''}",
        where=job.folder,
        hint=f"run {'task' if len(tasks) == 1 else 'tasks'} {named}: "
        f"{shell_command('job', 'run', job.folder, '--task', str(tasks[0]))}",
        code="WDS451",
    )


def report_job(folder: str) -> JobReport:
    """Report the state of a job and its tasks."""
    job = read_job(folder)
    report = JobReport(
        folder=job.folder,
        command_line=shlex.join(job.arguments),
        state=job.state,
        tasks=job.tasks,
        exit_code=job.exit_code,
    )
    if job.state == "finished" or not job.stage:
        return report
    stage = read_stage(job)
    done = stage.find_done(job)
    states = []
    for task, share in enumerate(stage.shares(job.tasks)):
        mark = read_mark(job, task)
        finished = len(done.intersection(share))
        state: TaskState = "done" if finished == len(share) else "started" if mark else "waiting"
        states.append(
            TaskStatus(
                task=task,
                state=state,
                units=len(share),
                done=finished,
                where=str(mark.get("host", "")),
                since=float(mark.get("started", 0.0)),
                error=str(mark.get("error", "")),
            )
        )
    return replace(
        report,
        stage=stage.number,
        phase=stage.phase,
        units=len(stage.units),
        done=len(done),
        size_bytes=sum(unit.size_bytes for unit in stage.units),
        task_states=tuple(states),
    )
