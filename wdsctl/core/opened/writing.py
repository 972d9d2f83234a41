"""Writes to an open dataset, and records commands in its ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from wdsctl.core.catalog.ledger import Ledger, RunStatus
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.lock import lock_dataset, process_identity
from wdsctl.core.errors import CatalogError, Finding, PermissionDenied, StorageError, WdsctlError, count_by_code
from wdsctl.core.invocation import Invocation, current_invocation
from wdsctl.core.jobs import StageStopped
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import Progress
from wdsctl.core.urls import is_url
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
def writing(
    dataset: OpenDataset, command: str, arguments: Sequence[str], progress: Progress, *, wait: float = 0.0
) -> Iterator[RunRecord]:
    """`lock_dataset` for the block, which begins with the newest catalog, and `recording`."""
    with (
        lock_dataset(dataset.location, wait=wait, note=progress.note),
        recording(dataset, command, arguments, progress) as record,
    ):
        yield record


def hold_remote_marker(
    location: DatasetLocation, wait: float, note: Callable[[str], None]
) -> AbstractContextManager[Callable[[], None]]:
    """Keep other machines from writing to a dataset in a store; for one on a disk, do nothing.

    Yields a function that raises if another machine writes now.
    """
    if not is_url(location.root):
        return nullcontext(lambda: None)
    from wdsctl.core.dataset.writer_marker import hold_writer_marker

    return hold_writer_marker(location.root, wait=wait, note=note)


@contextmanager
def recording(dataset: OpenDataset, command: str, arguments: Sequence[str], progress: Progress) -> Iterator[RunRecord]:
    """Record the run in the ledger. If that fails, note it for the user, and let the run continue.

    The record has the command line as typed, or `command` and `arguments` for a call from Python. Further runs of the
    same invocation continue the record. In a dataset that the user cannot write, nothing is recorded and nothing noted.
    """
    dataset.keep_folder_open()
    dataset.refresh()  # another writer may have published since the catalog was opened, before the lock
    if not os.access(dataset.location.meta, os.W_OK):
        yield RunRecord(None)
        return
    try:
        ledger = Ledger.open(dataset.location.ledger_path)
    except _LEDGER_ERRORS as error:
        progress.note(_not_recorded_message(error))
        yield RunRecord(None, error)
        return
    with closing(ledger):
        for note in ledger.notes:
            progress.note(note)
        yield from _record_in_ledger(ledger, dataset, current_invocation(command, arguments), progress)


def _record_in_ledger(
    ledger: Ledger, dataset: OpenDataset, invocation: Invocation, progress: Progress
) -> Iterator[RunRecord]:
    began: dict[str, Any] = {"process": process_identity(), "before": dataset.state()}
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
    dataset.recorder = ledger
    status: RunStatus = "failed"
    try:
        yield entry
        found = [*earlier, *entry.findings]
        status = "partial" if any(finding.severity == "error" for finding in found) else "ok"
    except (KeyboardInterrupt, StageStopped):
        status = "interrupted"
        raise
    finally:
        dataset.recorder = None
        known = set(earlier)
        new = [finding for finding in entry.findings if finding not in known]
        counts = dict(count_by_code([*earlier, *new]))
        dataset.refresh()
        details = {**begun["details"], "after": dataset.state(), "findings": counts}
        try:  # an error here must not replace the result of the run, nor its own error
            if status in ("ok", "partial"):
                ledger.add_findings(run, new)
            ledger.finish_run(run, status, details)
        except _LEDGER_ERRORS as error:
            progress.note(_not_recorded_message(error))


def _not_recorded_message(error: WdsctlError) -> str:
    return f"this run is not recorded in the ledger: {error.message} ({error.where})"
