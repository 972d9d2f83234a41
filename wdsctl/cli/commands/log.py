"""`wdsctl log`: the history of a dataset."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_duration, relative_paths
from wdsctl.cli.tables import grouped_finding_lines, labelled_lines, make_table, sort_by_severity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.opened.history import CatalogState, LoggedRun, LogReport, RunReport


EPILOG = """
\b
Examples:
  wdsctl log shards/              the last 20 runs, the latest first
  wdsctl log shards/ -n 0         all runs
  wdsctl log shards/ 17           run 17, with its findings
  wdsctl diff shards/ --since 3   the changes since generation 3

\b
wdsctl records commands that write or check in .wdsctl/ledger.sqlite. A run
without an end was killed. Exits with 3 if no run is recorded.
"""


def command(
    root: options.RootArgument,
    run: Annotated[
        int | None, typer.Argument(metavar="[RUN]", min=1, help="Show only the run with this number.")
    ] = None,
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="Number of runs to list, 0 for all.")
    ] = 20,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Show the history of a dataset. Lists every run with its time, outcome and generation."""
    from wdsctl.cli.output import TsvTable, terminal_width
    from wdsctl.core.dataset.location import shell_command
    from wdsctl.core.dataset.polylithic import is_polylithic, read_polylithic_folder
    from wdsctl.core.opened.history import read_log, read_run

    if run is not None:
        common.output.answer("log", read_run(root, run, catalog=catalog), render_run)
        return 0
    report = read_log(root, limit=limit, catalog=catalog)
    is_narrow = sys.stdout.isatty() and terminal_width(sys.stdout) < TABLE_COLUMNS
    common.output.answer(
        "log",
        report,
        partial(render_log, is_narrow=is_narrow),
        names=(each.id for each in report.runs),
        table=TsvTable(_TSV_COLUMNS, report.runs),
    )
    if catalog is None and not common.json and is_polylithic(root):
        folder = read_polylithic_folder(root)
        common.output.note(
            f"histories of the samples and of the media: {shell_command('log', folder.primary)}, "
            f"{shell_command('log', folder.media)}"
        )
    if common.output.is_for_agent and len(report.runs) < report.total:
        common.output.note(_earlier_text(report))
    return 0 if report.runs else 3


_TSV_COLUMNS = ("id", "started_at", "seconds", "status", "version", "command", "argv", "findings")

#: A narrower terminal gets the command of each run on a line of its own.
TABLE_COLUMNS = 78


def render_log(report: LogReport, *, is_narrow: bool = False) -> Iterator[RenderableType]:
    if not report.runs:
        yield f"{display_path(report.root)}: no run is recorded"
        return
    if is_narrow:
        for run in report.runs:
            number, started, took, status, *_, command = _row(run)
            yield labelled_lines([(number, f"{started}  {status}, {took}".rstrip(", ")), ("", command)])
    else:
        columns = ("#run", "=started", "#took", "status", "#generation", "#samples", "command")
        yield make_table(columns, map(_row, report.runs))
    if len(report.runs) < report.total:
        yield _earlier_text(report)


def _earlier_text(report: LogReport) -> str:
    return f"... and {format_count(report.total - len(report.runs))} earlier (-n 0 lists all)"


def render_run(report: RunReport) -> Iterator[RenderableType]:
    run = report.run
    process = f"wdsctl {run.version}" + (f", process {run.pid} on {run.host}" if run.pid is not None else "")
    yield f"run {run.id} on {display_path(report.root)}: {run.status}"
    yield labelled_lines(
        [
            ("command", _command(run)),
            ("started", _local_time(run.started_at)),
            *([("ended", f"{_local_time(run.finished_at)}, after {_duration_text(run)}")] if run.finished_at else []),
            ("process", process),
            ("before", _state(run.before)),
            *([("after", _state(run.after))] if run.finished_at else []),
            ("findings", ", ".join(f"{code}: {format_count(n)}" for code, n in run.findings.items()) or "none"),
        ]
    )
    findings = sort_by_severity(report.findings)
    yield from grouped_finding_lines(findings, findings)


def _row(run: LoggedRun) -> tuple[str, ...]:
    after = run.after if run.finished_at else None
    generation = _change(*(None if state is None else state.generation for state in (run.before, after)))
    samples = "" if after is None else format_count(after.samples)
    return (
        str(run.id),
        _local_time(run.started_at),
        _duration_text(run),
        run.status,
        generation,
        samples,
        _command(run),
    )


def _duration_text(run: LoggedRun) -> str:
    if run.seconds is None:
        return ""
    return f"{run.seconds * 1000:.0f} ms" if run.seconds < 0.0995 else format_duration(run.seconds)


def _change(before: int | None, after: int | None) -> str:
    """`3`, `3 -> 4`, `-> 1`: the generations before and after, if known."""
    if before == after or after is None:
        return "" if before is None else str(before)
    return f"{'' if before is None else before} -> {after}".strip()


def _state(state: CatalogState | None) -> str:
    if state is None:
        return "not recorded, or no catalog"
    return (
        f"generation {state.generation}: {format_count(state.samples, 'sample')} in "
        f"{format_count(state.shards, 'shard')}"
    )


def _command(run: LoggedRun) -> str:
    return escape_line(relative_paths(f"{run.command} {shlex.join(run.argv)}".strip()))


def _local_time(stored: str | None) -> str:
    """A stored time in the local time zone, to the second."""
    try:
        return datetime.fromisoformat(stored or "").astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return escape_line(stored or "")
