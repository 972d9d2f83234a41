"""Makes the catalog of a dataset that Energon has prepared, when a training first uses it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from wdsctl.core.catalog.quick_facts import has_splits
from wdsctl.core.command_line import command_at
from wdsctl.core.findings import Finding
from wdsctl.core.formats.energon_meta import energon_meta
from wdsctl.core.lock import locked
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import Progress, Silent
from wdsctl.core.root_spec import RootSpec
from wdsctl.core.verbs.energon import take_over
from wdsctl.core.verbs.index import IndexRequest, check_new, index_at
from wdsctl.core.verbs.journal import journal

Say = Callable[[str], None]


class _Notes(Silent):
    """Hands on what the user should read, and nothing else."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def note(self, message: str) -> None:
        self._say(message)


def index_on_first_use(root: str, catalog: str | None, say: Say, *, divides: bool = True) -> Place | None:
    """Index a dataset that Energon has prepared and that has no catalog or no splits yet: where its catalog is now.

    One that has them by now is left alone: another process may have made them since the caller looked. None for
    datasets that Energon has not prepared, which have to do without. `divides`: whether the splits are wanted, too.
    Whoever comes while another process does it waits for their end, however long that takes: a dead one is taken over
    from. Killed, it is continued by the next: finished shards are kept. `say` gets a line that names the command that
    does it ahead of time, and a line a kind of what was found.
    Raises what `index` raises and `take_over`.
    Cost: that of `index` in one process.
    """
    place = locate(root, catalog)
    if _is_ready(place, divides=divides):
        return place
    with energon_meta(place.root, place.only) as meta:
        if not meta.is_prepared():
            return None
    place = locate(root, catalog, writing=True)
    check_new(place, (), RootSpec(place.root))
    progress = _Notes(say)
    with locked(place.lock, wait=math.inf, note=say):
        if not _is_ready(place, divides=divides):
            with journal(place, "index", [place.shown], progress) as entry:
                entry.findings += _index(place, progress, divides=divides)
    return place


def _is_ready(place: Place, *, divides: bool) -> bool:
    """Whether there is a catalog, and what comes after it: dataset.yaml, and then the splits."""
    if not os.path.exists(place.catalog):
        return False
    return has_splits(place.catalog) if divides else os.path.exists(place.dataset_yaml)


def _index(place: Place, progress: Progress, *, divides: bool) -> list[Finding]:
    progress.note(
        f"{place.shown} was prepared by Energon, and is indexed now, at its first use, into {place.meta}; "
        f"{command_at(place, 'index')} does it ahead of time, with more processes"
    )
    report = index_at(place, IndexRequest(), progress)
    taken = take_over(place, report, 1, progress, divides=divides)
    findings = [*report.findings, *(taken.findings if taken is not None else ())]
    for finding in findings:
        if finding.severity != "note":
            progress.note(f"{finding.code}: {finding.message}{f' ({finding.shard})' if finding.shard else ''}")
    return findings
