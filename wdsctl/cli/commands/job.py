"""`wdsctl job`: run a command as tasks of an array job, under any scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_duration, format_size
from wdsctl.cli.tables import labelled_lines, make_table
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.invocation import worker_count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.executors.array_job import JobReport
    from wdsctl.core.executors.array_task import TaskReport

HELP = "Run a command as tasks of an array job. Works with any scheduler and a shared folder."

EPILOG = """
\b
Examples:
  wdsctl job plan JOB --tasks 100 -- index /data/shards --media
  wdsctl job template JOB --scheduler slurm > run.sh
  wdsctl job run JOB --task 7
  wdsctl job status JOB
  wdsctl job merge JOB

\b
Commands that can be split: prepare, index, split, validate, repair, convert.
"""

PLAN_EPILOG = """
\b
Examples:
  wdsctl job plan JOB --tasks 100 -- index /data/shards
  wdsctl job plan JOB --tasks 8 -- prepare raw/ shards/ --split 8,1,1
  wdsctl job plan JOB --tasks 5       the rest of JOB, in 5 tasks

\b
All machines must see JOB, the data and DEST at the same paths. Put the
command after `--`.
"""

RUN_EPILOG = """
\b
Examples:
  wdsctl job run JOB --task 0
  wdsctl job run JOB           the task number from the scheduler

\b
Runs only units without results: run a task again after any failure.
Reads SLURM_ARRAY_TASK_ID, LSB_JOBINDEX, JOB_COMPLETION_INDEX or
PBS_ARRAY_INDEX.
"""

STATUS_EPILOG = """
\b
Examples:
  wdsctl job status JOB
  wdsctl job status JOB --json

\b
Exits with 0 if the job is finished, and with 1 if tasks or a merge remain.
"""

MERGE_EPILOG = """
\b
Examples:
  wdsctl job merge JOB

\b
Runs the command of the job with the results of the tasks, and exits as the
command does, also if the job is already finished. A command with several
stages, such as index --media, then needs another round of tasks.
"""

TEMPLATE_EPILOG = """
\b
Examples:
  wdsctl job template JOB --scheduler slurm > run.sh
  wdsctl job template JOB --scheduler kubernetes > job.yaml
"""

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Folder of the job, on storage that all machines share.")
]


TrustCodeOption = Annotated[
    bool, typer.Option("--trust-code", help="Run what JOB says, although no record shows that you planned it.")
]


def plan(
    job: JobArgument,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND", help="The command with its arguments. [default: plan the remaining work of JOB]"
        ),
    ] = None,
    *,
    tasks: Annotated[
        int | None,
        typer.Option("--tasks", metavar="N", min=1, help="Number of tasks. [default: 1, or as planned before]"),
    ] = None,
    trust_code: TrustCodeOption = False,
    common: options.CommonOptions,
) -> int:
    """Plan a command as tasks. Lists the inputs, and writes the units of work to JOB."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.executors.array_job import plan_job

    with show_progress(common.output) as progress:
        outcome = plan_job(job, command or (), _run_like(common), tasks=tasks, trust_code=trust_code, progress=progress)
    return _answer("job plan", outcome, common)


def run(
    job: JobArgument,
    *,
    task: Annotated[
        int | None, typer.Option("--task", metavar="I", min=0, help="Number of the task. [default: the scheduler's]")
    ] = None,
    workers: options.WorkersOption = None,
    trust_code: TrustCodeOption = False,
    common: options.CommonOptions,
) -> int:
    """Run one task. Keeps results in JOB."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.executors.array_task import find_task, run_task

    number = find_task(os.environ) if task is None else task
    with show_progress(common.output) as progress:
        report = run_task(job, number, workers=worker_count(workers), trust_code=trust_code, progress=progress)
    common.output.answer("job run", report, render_task, names=())
    return 0


def status(job: JobArgument, *, common: options.CommonOptions) -> int:
    """Show which tasks are done."""
    from wdsctl.core.executors.array_job import report_job

    report = report_job(job)
    common.output.answer("job status", report, render_job)
    return 0 if report.state == "finished" else 1


def merge(job: JobArgument, *, trust_code: TrustCodeOption = False, common: options.CommonOptions) -> int:
    """Finish the command with the results of all tasks, or plan its next stage."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.executors.array_job import merge_job

    with show_progress(common.output) as progress:
        outcome = merge_job(job, _run_like(common), trust_code=trust_code, progress=progress)
    return _answer("job merge", outcome, common)


def template(
    job: JobArgument,
    *,
    scheduler: Annotated[
        Literal["slurm", "lsf", "kubernetes", "hf"],
        typer.Option("--scheduler", metavar="slurm|lsf|kubernetes|hf", help="The scheduler."),
    ] = "slurm",
    trust_code: TrustCodeOption = False,
    common: options.CommonOptions,
) -> int:
    """Print a script that runs the tasks of JOB under a scheduler."""
    from wdsctl.core.executors.job_folder import read_own_job
    from wdsctl.core.executors.templates import JobTemplate, write_template

    text = write_template(read_own_job(job, trust_code=trust_code), scheduler)
    common.output.answer(
        "job template",
        JobTemplate(scheduler=scheduler, text=text),
        lambda each: each.text.rstrip("\n").split("\n"),
        is_explicit=True,
    )
    return 0


def _run_like(common: options.CommonOptions) -> Callable[[Sequence[str]], int]:
    """Runs the command of a job, which answers as the options of this command say."""
    from wdsctl.cli.main import run_inner

    given = {
        "--json": common.json,
        "--quiet": common.quiet,
        "--no-color": common.no_color,
        "--no-input": common.no_input,
        "--yes": common.yes,
    }
    flags = [name for name, is_set in given.items() if is_set]
    return lambda arguments: run_inner([*flags, *arguments])


def _answer(name: str, outcome: JobReport | int, common: options.CommonOptions) -> int:
    """Render the state of a job, and return the exit code of its command. The command that ended now has answered."""
    if isinstance(outcome, int):
        common.output.note("the job is finished")
        return outcome
    common.output.answer(name, outcome, render_job, names=[outcome.folder])
    return outcome.exit_code


def render_job(report: JobReport) -> Iterator[RenderableType]:
    if report.state == "finished":
        exit_code = f"; the command exited with {report.exit_code}" if report.exit_code else ""
        yield f"{display_path(report.folder)}: finished{exit_code}"
        yield labelled_lines([("command", escape_line(report.command_line))])
        return
    work = f"{format_count(report.done)} of {format_count(report.units, 'unit')}"
    yield f"{display_path(report.folder)}: stage {report.stage} ({report.phase}): {work} done"
    waiting = [each for each in report.task_states if each.state != "done"]
    number = str(waiting[0].task) if waiting else ""
    next_command = (
        shell_command("job", "run", report.folder, "--task", number)
        if waiting
        else shell_command("job", "merge", report.folder)
    )
    others = f" (and {format_count(len(waiting) - 1, 'other task')})" if len(waiting) > 1 else ""
    yield labelled_lines(
        [
            ("command", escape_line(report.command_line)),
            ("size", format_size(report.size_bytes)),
            ("tasks", f"{format_count(report.tasks - len(waiting))} of {format_count(report.tasks)} done"),
            ("next", f"{next_command}{others}"),
        ]
    )
    started = [each for each in waiting if each.where]
    if started:
        yield make_table(
            ("task", "state", "#done", "#units", "where", "error"),
            [
                (str(each.task), each.state, str(each.done), str(each.units), each.where, escape_line(each.error))
                for each in started
            ],
        )


def render_task(report: TaskReport) -> Iterator[RenderableType]:
    if not report.stage:
        yield f"{display_path(report.folder)}: the job is finished, and has no work for task {report.task}"
        return
    unread = f", {format_count(report.repeatable)} to try again" if report.repeatable else ""
    yield (
        f"task {report.task} of {format_count(report.tasks)}, stage {report.stage} ({report.phase}): "
        f"ran {format_count(report.ran, 'unit')} in {format_duration(report.seconds)}, "
        f"{format_count(report.found)} done before{unread}"
    )


group = options.make_group(
    ("plan", plan, PLAN_EPILOG),
    ("run", run, RUN_EPILOG),
    ("status", status, STATUS_EPILOG),
    ("merge", merge, MERGE_EPILOG),
    ("template", template, TEMPLATE_EPILOG),
)
