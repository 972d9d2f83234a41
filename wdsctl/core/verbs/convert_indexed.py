"""The catalog that a source of shards is read by: it has to be what the shards are."""

from __future__ import annotations

import os

from wdsctl.core.command_line import command_at
from wdsctl.core.counted import counted
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.findings import Finding
from wdsctl.core.lock import locked
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import Progress
from wdsctl.core.verbs.index import IndexRequest, index_at
from wdsctl.core.verbs.index_listing import check_inside


def indexed(
    root: str,
    catalog: str | None,
    private: str,
    workers: int,
    wait: float,
    findings: list[Finding],
    progress: Progress,
) -> Place:
    """The place of a catalog that is up to date: the dataset's own, or one made for this conversion alone."""
    place = locate(root, catalog)
    if not os.path.exists(place.catalog):
        mine = Place(place.root, private, place.only)
        with locked(mine.lock, wait=wait, note=progress.note):
            report = index_at(mine, IndexRequest(workers=workers, missing="drop"), progress)
        findings += report.findings
        if not report.samples and not any(each.code == "WDS113" for each in report.findings):
            raise InputError("there are no samples in it", where=place.shown, hint="check the path", code="WDS003")
        return mine
    check_is_as_indexed(place, findings, progress)
    return place


def check_is_as_indexed(place: Place, findings: list[Finding], progress: Progress) -> None:
    """Raises DatasetError WDS344 where shards are not what the catalog says: they are read by it."""
    seen = index_at(place, IndexRequest(dry_run=True, missing="keep"), progress)
    findings += [found for found in seen.findings if found.severity == "error"]
    for gone in (each for each in seen.findings if each.code == "WDS306"):
        check_inside(place, [gone.shard])
        more = " and more" if gone.count > 1 else ""
        raise DatasetError(
            f"{counted(gone.count, 'shard')} of the source vanished: {gone.shard}{more}",
            where=place.shown,
            hint=f"bring back what is gone, or forget it: {command_at(place, 'index', '--missing', 'drop')}",
            code="WDS344",
        )
    if seen.added + seen.changed + seen.removed:
        counts = {"new": seen.added, "changed": seen.changed, "gone": seen.removed}
        said = ", ".join(counted(number, f"{what} shard") for what, number in counts.items() if number)
        raise DatasetError(
            f"the source is not what its catalog says: {said}",
            where=place.shown,
            hint=f"{command_at(place, 'index')}, then convert again",
            code="WDS344",
        )
