"""Every run that writes or checks leaves a line in the ledger: what, when, how it ended, what it found."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from wdsctl.core.called import called
from wdsctl.core.catalog.ledger import Ledger, Status
from wdsctl.core.catalog.present import present_state
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError, WdsctlError
from wdsctl.core.findings import Finding, tally
from wdsctl.core.place import Place
from wdsctl.core.process_mark import mark
from wdsctl.core.progress import Progress
from wdsctl.version import VERSION

#: What writing a ledger may end in: it is somebody else's, locked, from a newer wdsctl, or the disk is full.
_TROUBLE = (PermissionDenied, CatalogError, StorageError)


@dataclass(slots=True)
class Entry:
    """A run under way. What is added to `findings` goes into the ledger when it ends well.

    `refused` says why there is no ledger, where one should be.
    """

    ledger: Ledger | None
    refused: WdsctlError | None = None
    findings: list[Finding] = field(default_factory=list)
    run: int = 0  # its number in the ledger


@contextmanager
def journal(place: Place, command: str, arguments: Sequence[str], progress: Progress) -> Iterator[Entry]:
    """Note the run in the ledger. Where that cannot be, the user is told, and the run goes on.

    `command` and `arguments` are noted where the verb was called from Python; else what was typed is (`called`).
    Where nothing can be written (a reader of somebody's dataset), nothing is noted and nothing said.
    """
    if not os.access(place.meta, os.W_OK):
        yield Entry(None)
        return
    try:
        ledger = Ledger.open(place.ledger)
    except _TROUBLE as error:
        progress.note(_not_noted(error))
        yield Entry(None, error)
        return
    with closing(ledger):
        for note in ledger.notes:
            progress.note(note)
        yield from _noted(ledger, place.catalog, *called(command, arguments), progress)


def _noted(ledger: Ledger, catalog: str, command: str, arguments: Sequence[str], progress: Progress) -> Iterator[Entry]:
    began: dict[str, Any] = {"process": mark(), "before": present_state(catalog)}
    try:
        run = ledger.begin_run(command, arguments, version=VERSION, details=began)
    except _TROUBLE as error:
        progress.note(_not_noted(error))
        yield Entry(None, error)
        return
    entry = Entry(ledger, run=run)
    status: Status = "failed"
    try:
        yield entry
        status = "partial" if any(finding.severity == "error" for finding in entry.findings) else "ok"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        details = {**began, "after": present_state(catalog), "findings": dict(tally(entry.findings))}
        _end(ledger, run, status, entry.findings, details, progress)


def _end(
    ledger: Ledger,
    run: int,
    status: Status,
    findings: Sequence[Finding],
    details: dict[str, Any],
    progress: Progress,
) -> None:
    """What the run did is done: an error here must not take the place of its result, nor of its own error."""
    try:
        if status in ("ok", "partial"):
            ledger.add_findings(run, findings)
        ledger.finish_run(run, status, details)
    except _TROUBLE as error:
        progress.note(_not_noted(error))


def _not_noted(error: WdsctlError) -> str:
    return f"this run is not noted in the ledger: {error.message} ({error.where})"
