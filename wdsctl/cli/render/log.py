"""What was done to a dataset."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, duration, path, relative, safe
from wdsctl.cli.render.pieces import finding_lines, gravest_first, labelled, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.verbs.log import LogReport, Run, RunReport, State


def render_log(report: LogReport) -> Iterator[RenderableType]:
    if not report.runs:
        yield f"{path(report.root)}: no run is noted"
        return
    yield table(("#run", "=when", "#took", "how", "#generation", "#samples", "command"), map(_row, report.runs))
    if len(report.runs) < report.total:
        yield f"... and {count(report.total - len(report.runs))} before (-n 0 lists them all)"


def render_run(report: RunReport) -> Iterator[RenderableType]:
    run = report.run
    by = f"wdsctl {run.version}" + (f", process {run.pid} on {run.host}" if run.pid is not None else "")
    yield f"run {run.id} on {path(report.root)}: {run.status}"
    yield labelled(
        [
            ("command", _command(run)),
            ("began", _when(run.started_at)),
            *([("ended", f"{_when(run.finished_at)}, after {_took(run)}")] if run.finished_at else []),
            ("by", by),
            ("before", _state(run.before)),
            *([("after", _state(run.after))] if run.finished_at else []),
            ("found", ", ".join(f"{code}: {count(n)}" for code, n in run.findings.items()) or "nothing"),
        ]
    )
    yield from finding_lines(gravest_first(report.findings))


def _row(run: Run) -> tuple[str, ...]:
    after = run.after if run.finished_at else None
    generation = _change(*(None if state is None else state.generation for state in (run.before, after)))
    samples = "" if after is None else count(after.samples)
    return (str(run.id), _when(run.started_at), _took(run), run.status, generation, samples, _command(run))


def _took(run: Run) -> str:
    """Older versions noted whole seconds."""
    if run.seconds is None:
        return ""
    is_exact = "." in run.started_at
    if is_exact and run.seconds < 0.0995:
        return f"{run.seconds * 1000:.0f} ms"
    return duration(run.seconds) if is_exact else duration(run.seconds).replace(".0 ", " ")


def _change(before: int | None, after: int | None) -> str:
    """`3`, `3 -> 4`, `-> 1`: the generation, where one is known."""
    if before == after or after is None:
        return "" if before is None else str(before)
    return f"{'' if before is None else before} -> {after}".strip()


def _state(state: State | None) -> str:
    if state is None:
        return "no catalog, or not noted"
    return f"generation {state.generation}: {count(state.samples, 'sample')} in {count(state.shards, 'shard')}"


def _command(run: Run) -> str:
    return safe(relative(f"{run.command} {shlex.join(run.argv)}".strip()))


def _when(stored: str | None) -> str:
    """In the local time zone, to the second."""
    try:
        return datetime.fromisoformat(stored or "").astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return safe(stored or "")
