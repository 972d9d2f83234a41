"""Every run that writes or checks leaves a line in the ledger: what, when, how it ended, what it found."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from wdsctl.core.catalog.ledger import Ledger, Status
from wdsctl.core.findings import Finding, tally
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.version import VERSION


@dataclass(slots=True)
class Entry:
    """A run under way. What is added to `findings` goes into the ledger when it ends well."""

    ledger: Ledger | None
    findings: list[Finding] = field(default_factory=list)


@contextmanager
def journal(place: Place, command: str, arguments: Sequence[str], progress: Progress) -> Iterator[Entry]:
    """Note the run in the ledger. Where nothing can be written (a reader of somebody's dataset), nothing is noted."""
    if not os.access(place.meta, os.W_OK):
        yield Entry(None)
        return
    with Ledger.open(place.ledger) as ledger:
        for note in ledger.notes:
            progress.note(note)
        run = ledger.begin_run(command, arguments, version=VERSION)
        entry = Entry(ledger)
        status: Status = "failed"
        try:
            yield entry
            status = "partial" if any(finding.severity == "error" for finding in entry.findings) else "ok"
            ledger.add_findings(run, entry.findings)
        except KeyboardInterrupt:
            status = "interrupted"
            raise
        finally:
            ledger.finish_run(run, status, {"findings": dict(tally(entry.findings))})
