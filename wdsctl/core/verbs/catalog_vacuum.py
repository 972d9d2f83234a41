"""`catalog vacuum`: what a catalog's folder holds and nobody needs goes; what stays is told, with the reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.catalog.identity import check
from wdsctl.core.errors import PermissionDenied, UsageError
from wdsctl.core.files import remove_file
from wdsctl.core.lock import check_held, locked
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.urls import shown
from wdsctl.core.verbs.catalog_files import CatalogFile, catalog_files
from wdsctl.core.verbs.fold import KEPT_GENERATIONS
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.presence import check_made

_OF_A_GENERATION = ("offsets", "names", "keyframes", "column")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    generation: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogVacuumReport:
    root: str
    catalog: str
    rows: Mapping[str, int]  # dropped, by table; a dry run does not know them
    files: tuple[CatalogFile, ...]  # removed
    kept: tuple[Kept, ...]
    asked_for: tuple[CatalogFile, ...]  # damaged files, which go with --yes alone
    before_bytes: int  # of the catalog
    after_bytes: int
    freed_bytes: int  # by files and catalog together
    dry_run: bool


def catalog_vacuum(
    root: str,
    *,
    catalog: str | None = None,
    generations: int = KEPT_GENERATIONS,
    damaged: bool = False,
    dry_run: bool = False,
    wait: float = 0.0,
    progress: Progress = SILENT,
) -> CatalogVacuumReport:
    """Drop rows and files that no generation in use needs, and pack the catalog.

    The last `generations` stay: states that were saved on them go on. `damaged`: files that were set aside go, too.
    Raises UsageError, CatalogError WDS301 to WDS304, PermissionDenied. Needs as much space again as the catalog.
    """
    if generations < 1:
        raise UsageError("at least the present generation stays", hint="`--generations 1` keeps it alone")
    place = locate(root, catalog, writing=not dry_run)
    check_made(place)
    check(place.catalog)
    if dry_run:
        return _vacuumed(place, generations, damaged, progress, dry_run=True)
    if not os.access(place.meta, os.W_OK):
        raise PermissionDenied("the catalog cannot be written", where=place.meta, hint="ask its owner")
    with (
        locked(place.lock, wait=wait, note=progress.note),
        journal(place, "catalog vacuum", [shown(root)], progress),
    ):
        return _vacuumed(place, generations, damaged, progress, dry_run=False)


def _vacuumed(
    place: Place, generations: int, damaged: bool, progress: Progress, *, dry_run: bool
) -> CatalogVacuumReport:
    with Catalog(place.catalog) as published:
        present, is_folder = published.generation, published.is_media_folder
    files = catalog_files(place)
    there = sorted({file.generation for file in files if file.kind == "offsets" and file.generation is not None})
    in_use = [number for number in there if number <= present][-generations:]
    useless = [file for file in files if _is_useless(file, {*in_use, present})]
    useless += [file for file in files if damaged and file.kind == "damaged"]
    before = os.path.getsize(place.catalog)
    rows: dict[str, int] = {}
    if not dry_run:
        progress.phase("pack")
        with drafting(place.catalog, ready=partial(check_held, place.lock)) as draft:
            rows = {} if is_folder else draft.waste.drop({*in_use, present})
            draft.is_to_be_packed = True
        _remove(place, useless)
    after = os.path.getsize(place.catalog)
    return CatalogVacuumReport(
        root=place.shown,
        catalog=place.catalog,
        rows=rows,
        files=tuple(useless),
        kept=tuple(Kept(generation=number, why=_why(number, present)) for number in in_use),
        asked_for=tuple(file for file in files if file.kind == "damaged" and not damaged),
        before_bytes=before,
        after_bytes=after,
        freed_bytes=before - after + sum(file.size_bytes for file in useless),
        dry_run=dry_run,
    )


def _why(generation: int, present: int) -> str:
    return "the present one" if generation == present else "states that were saved on it can go on"


def _is_useless(file: CatalogFile, in_use: set[int]) -> bool:
    return file.kind == "begun" or (file.kind in _OF_A_GENERATION and file.generation not in in_use)


def _remove(place: Place, files: list[CatalogFile]) -> None:
    for file in files:
        remove_file(os.path.join(place.meta, file.name))
