"""`wdsctl log`: the history of commands. `wdsctl/core/opened/writing.py` records them in the ledger."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.dataset.lock import is_process_running
from wdsctl.core.errors import CatalogError, Finding, InputError
from wdsctl.core.opened.opening import open_dataset

#: A run without a recorded end is `running`, `killed` if its process is gone, or `unfinished` if this is unknown here.
RunOutcome = Literal["ok", "partial", "failed", "interrupted", "running", "killed", "unfinished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogState:
    """The size of a catalog before or after a run."""

    generation: int
    shards: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRun:
    """One run of a command. `seconds` is None if no end is recorded, `before` and `after` if there was no catalog.

    `findings`: how many of each code.
    """

    id: int
    command: str
    argv: tuple[str, ...]
    started_at: str
    finished_at: str | None
    seconds: float | None
    status: RunOutcome
    version: str
    host: str
    pid: int | None
    before: CatalogState | None
    after: CatalogState | None
    findings: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The last runs, the latest first. `total`: how many are recorded."""

    root: str
    total: int
    runs: tuple[LoggedRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run with all its findings."""

    root: str
    run: LoggedRun
    findings: tuple[Finding, ...]


def read_log(root: str, *, limit: int = 20, catalog: str | None = None) -> LogReport:
    """The last `limit` runs, 0 for all.

    Raises CatalogError WDS302 to WDS304.
    """
    location = open_dataset(root, catalog).location
    with closing(_opened(location)) as ledger:
        runs = tuple(_logged_run(row) for row in reversed(ledger.runs(min(limit, sys.maxsize))))
        return LogReport(root=location.display_path, total=ledger.count_runs(), runs=runs)


def read_run(root: str, number: int, *, catalog: str | None = None) -> RunReport:
    """One run by its number. Raises InputError if there is none, CatalogError as `read_log`."""
    location = open_dataset(root, catalog).location
    with closing(_opened(location)) as ledger:
        found = ledger.runs(run_id=number) if number <= sys.maxsize else []
        if not found:
            raise InputError(
                f"the history has no run {number}",
                where=location.display_path,
                hint=f"run {shell_command_at(location, 'log', '--limit', '0')} to list all runs",
            )
        return RunReport(root=location.display_path, run=_logged_run(found[0]), findings=tuple(ledger.findings(number)))


def _opened(location: DatasetLocation) -> Ledger:
    """Open the ledger. Raises CatalogError if it is damaged; `Ledger.open_for_reading` would return an empty ledger."""
    ledger = Ledger.open_for_reading(location.ledger_path)
    if ledger.is_damaged:
        raise CatalogError(
            "cannot read the run history",
            where=location.ledger_path,
            hint="restore a copy of ledger.sqlite; otherwise the next command that writes starts a new one and "
            "keeps the damaged file",
            code="WDS302",
        )
    return ledger


def _logged_run(row: Mapping[str, Any]) -> LoggedRun:
    details = row["details"]
    process, findings = (_object(details, name) for name in ("process", "findings"))
    return LoggedRun(
        id=row["id"],
        command=row["command"],
        argv=tuple(map(str, row["argv"])) if isinstance(row["argv"], list) else (),
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        seconds=_seconds(row["started_at"], row["finished_at"]),
        status=row["status"] or _outcome_without_end(process),
        version=row["version"],
        host=str(process.get("host", "")),
        pid=process["pid"] if isinstance(process.get("pid"), int) else None,
        before=_state(_object(details, "before")),
        after=_state(_object(details, "after")),
        findings={str(code): count for code, count in findings.items() if isinstance(count, int)},
    )


def _outcome_without_end(process: Mapping[str, Any]) -> RunOutcome:
    lives = is_process_running(process)
    return "unfinished" if lives is None else "running" if lives else "killed"


def _object(details: Any, name: str) -> dict[str, Any]:
    """An object in the details of a run; empty if it is missing or something else, as in a ledger of somebody else."""
    found = details.get(name) if isinstance(details, dict) else None
    return found if isinstance(found, dict) else {}


def _state(stored: Mapping[str, Any]) -> CatalogState | None:
    sizes = {name: stored.get(name) for name in ("generation", "shards", "samples")}
    return CatalogState(**sizes) if all(isinstance(size, int) for size in sizes.values()) else None  # type: ignore[arg-type]


def _seconds(begin: str, end: str | None) -> float | None:
    """Seconds between two times; at least 0, as a clock may have been set back."""
    if end is None:
        return None
    try:
        return max(0.0, (_moment(end) - _moment(begin)).total_seconds())
    except ValueError:
        return None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
