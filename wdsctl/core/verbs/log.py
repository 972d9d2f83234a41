"""`log`: which commands ran on a dataset, when, how they ended, and what they made of what."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_file import is_sound
from wdsctl.core.catalog.ledger_runs import count_runs, last_runs
from wdsctl.core.command_line import command_at
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place, locate
from wdsctl.core.process_mark import is_running

#: Without an end: `running`; `killed` where its process is gone; `unfinished` where that cannot be told from here.
Ended = Literal["ok", "partial", "failed", "interrupted", "running", "killed", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the catalog had."""

    generation: int
    shards: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`seconds` is None where no end is noted; `before` and `after` where there was no catalog, or an older wdsctl did
    not note it. `findings`: how many of each code."""

    id: int
    command: str
    argv: tuple[str, ...]
    started_at: str
    finished_at: str | None
    seconds: float | None
    status: Ended
    version: str
    host: str
    pid: int | None
    before: State | None
    after: State | None
    findings: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The last runs, the latest first; `total`: how many are noted."""

    root: str
    total: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run with all that it found."""

    root: str
    run: Run
    findings: tuple[Finding, ...]


def log(root: str, *, limit: int = 20, catalog: str | None = None) -> LogReport:
    """The last `limit` runs, 0 for all. A dataset on which nothing ran has none.

    Raises CatalogError WDS302 to WDS304.
    """
    place = locate(root, catalog)
    with closing(_opened(place)) as ledger:
        runs = tuple(map(_run, last_runs(ledger, limit)))
        return LogReport(root=place.shown, total=count_runs(ledger), runs=runs)


def log_of_run(root: str, number: int, *, catalog: str | None = None) -> RunReport:
    """One run by its number. Raises InputError where there is none, CatalogError as `log` does."""
    place = locate(root, catalog)
    with closing(_opened(place)) as ledger:
        found = last_runs(ledger, only=number)
        if not found:
            raise InputError(
                f"there is no run {number}",
                where=place.shown,
                hint=f"{command_at(place, 'log', '--limit', '0')} lists those that there are",
            )
        return RunReport(root=place.shown, run=_run(found[0]), findings=tuple(ledger.findings(number)))


def _opened(place: Place) -> Ledger:
    """One that is damaged looks empty to whoever only peeks into it, and is not."""
    if not is_sound(place.ledger):
        raise CatalogError(
            "the ledger cannot be read, and runs are noted in it",
            where=place.ledger,
            hint="bring back a copy of it; the next command that writes sets it aside, and begins a new one",
            code="WDS302",
        )
    return Ledger.peek(place.ledger)


def _run(row: Mapping[str, Any]) -> Run:
    details = row["details"]
    process = details.get("process") or {}
    findings = details.get("findings") or {}
    return Run(
        id=row["id"],
        command=row["command"],
        argv=tuple(map(str, row["argv"])),
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        seconds=_seconds(row["started_at"], row["finished_at"]),
        status=row["status"] or _unended(process),
        version=row["version"],
        host=str(process.get("host", "")),
        pid=process.get("pid"),
        before=_state(details.get("before")),
        after=_state(details.get("after")),
        findings={str(code): int(count) for code, count in findings.items()},
    )


def _unended(process: Mapping[str, Any]) -> Ended:
    lives = is_running(process)
    return "unfinished" if lives is None else "running" if lives else "killed"


def _state(told: Mapping[str, int] | None) -> State | None:
    return None if told is None else State(**told)


def _seconds(begin: str, end: str | None) -> float | None:
    """Clocks may be set back: no run took less than nothing."""
    if end is None:
        return None
    try:
        return max(0.0, (_moment(end) - _moment(begin)).total_seconds())
    except ValueError:
        return None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
