"""The history of commands: `record_run` stores those that write or check in the ledger, `wdsctl log` lists them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from wdsctl.core.catalog.ledger import Ledger, RunStatus
from wdsctl.core.catalog.open_catalog import catalog_state
from wdsctl.core.dataset.location import DatasetLocation, locate, shell_command_at
from wdsctl.core.dataset.lock import is_process_running, process_identity
from wdsctl.core.errors import (
    CatalogError,
    Finding,
    InputError,
    PermissionDenied,
    StorageError,
    WdsctlError,
    count_by_code,
)
from wdsctl.core.invocation import Invocation, current_invocation
from wdsctl.core.jobs import StageStopped
from wdsctl.core.progress import Progress
from wdsctl.core.version import VERSION

#: Errors of writing a ledger: it belongs to another user, is locked or from a newer version, or the disk is full.
_LEDGER_ERRORS = (PermissionDenied, CatalogError, StorageError)


@dataclass(slots=True)
class RunRecord:
    """A run in progress. `findings` are stored when the run succeeds. `ledger_error`: why the ledger is unavailable."""

    ledger: Ledger | None
    ledger_error: WdsctlError | None = None
    findings: list[Finding] = field(default_factory=list)
    run_id: int = 0  # its number in the ledger


@contextmanager
def record_run(
    location: DatasetLocation, command: str, arguments: Sequence[str], progress: Progress
) -> Iterator[RunRecord]:
    """Record the run in the ledger. If that fails, note it for the user, and let the run continue.

    The record has the command line as typed, or `command` and `arguments` for a call from Python. Further runs of the
    same invocation continue the record. In a dataset that the user cannot write, nothing is recorded and nothing noted.
    """
    if not os.access(location.meta, os.W_OK):
        yield RunRecord(None)
        return
    try:
        ledger = Ledger.open(location.ledger_path)
    except _LEDGER_ERRORS as error:
        progress.note(_not_recorded_message(error))
        yield RunRecord(None, error)
        return
    with closing(ledger):
        for note in ledger.notes:
            progress.note(note)
        yield from _record_in_ledger(ledger, location.catalog_path, current_invocation(command, arguments), progress)


def _record_in_ledger(ledger: Ledger, catalog: str, invocation: Invocation, progress: Progress) -> Iterator[RunRecord]:
    began: dict[str, Any] = {"process": process_identity(), "before": catalog_state(catalog)}
    try:
        run = ledger.begin_run(
            invocation.command, invocation.arguments, version=VERSION, details=began, token=invocation.token
        )
        (begun,), earlier = ledger.runs(run_id=run), ledger.findings(run)
    except _LEDGER_ERRORS as error:
        progress.note(_not_recorded_message(error))
        yield RunRecord(None, error)
        return
    entry = RunRecord(ledger, run_id=run)
    status: RunStatus = "failed"
    try:
        yield entry
        found = [*earlier, *entry.findings]
        status = "partial" if any(finding.severity == "error" for finding in found) else "ok"
    except (KeyboardInterrupt, StageStopped):
        status = "interrupted"
        raise
    finally:
        known = set(earlier)
        new = [finding for finding in entry.findings if finding not in known]
        counts = dict(count_by_code([*earlier, *new]))
        details = {**begun["details"], "after": catalog_state(catalog), "findings": counts}
        try:  # an error here must not replace the result of the run, nor its own error
            if status in ("ok", "partial"):
                ledger.add_findings(run, new)
            ledger.finish_run(run, status, details)
        except _LEDGER_ERRORS as error:
            progress.note(_not_recorded_message(error))


def _not_recorded_message(error: WdsctlError) -> str:
    return f"this run is not recorded in the ledger: {error.message} ({error.where})"


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
    location = locate(root, catalog)
    with closing(_opened(location)) as ledger:
        runs = tuple(_logged_run(row) for row in reversed(ledger.runs(limit)))
        return LogReport(root=location.display_path, total=ledger.count_runs(), runs=runs)


def read_run(root: str, number: int, *, catalog: str | None = None) -> RunReport:
    """One run by its number. Raises InputError if there is none, CatalogError as `read_log`."""
    location = locate(root, catalog)
    with closing(_opened(location)) as ledger:
        found = ledger.runs(run_id=number)
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
    process = details.get("process") or {}
    findings = details.get("findings") or {}
    return LoggedRun(
        id=row["id"],
        command=row["command"],
        argv=tuple(map(str, row["argv"])),
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        seconds=_seconds(row["started_at"], row["finished_at"]),
        status=row["status"] or _outcome_without_end(process),
        version=row["version"],
        host=str(process.get("host", "")),
        pid=process.get("pid"),
        before=_state(details.get("before")),
        after=_state(details.get("after")),
        findings={str(code): int(count) for code, count in findings.items()},
    )


def _outcome_without_end(process: Mapping[str, Any]) -> RunOutcome:
    lives = is_process_running(process)
    return "unfinished" if lives is None else "running" if lives else "killed"


def _state(stored: Mapping[str, int] | None) -> CatalogState | None:
    return None if stored is None else CatalogState(**stored)


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
