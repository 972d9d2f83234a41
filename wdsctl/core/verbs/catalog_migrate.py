"""`catalog migrate`: a catalog that an older wdsctl made, brought to the present schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.catalog.health import schema_version
from wdsctl.core.catalog.identity import VERSION
from wdsctl.core.lock import check_held, locked
from wdsctl.core.place import locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.urls import shown
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.presence import check_made


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogMigrateReport:
    root: str
    catalog: str
    was: int  # schema versions
    now: int
    generation: int  # the same as before
    up_to_date: bool
    dry_run: bool


def catalog_migrate(
    root: str,
    *,
    catalog: str | None = None,
    dry_run: bool = False,
    wait: float = 0.0,
    progress: Progress = SILENT,
) -> CatalogMigrateReport:
    """Publish a copy of the catalog in the present schema. Whatever happens, what is there stays until that is done.

    Everything that writes does it by the way; nothing that reads needs it. Raises CatalogError WDS301 to WDS304.
    """
    place = locate(root, catalog, writing=not dry_run)
    check_made(place)
    was = schema_version(place.catalog)
    if was < VERSION and not dry_run:
        with (
            locked(place.lock, wait=wait, note=progress.note),
            journal(place, "catalog migrate", [shown(root)], progress),
            drafting(place.catalog, ready=partial(check_held, place.lock)),
        ):
            pass
    with Catalog(place.catalog) as published:
        generation = published.generation
    return CatalogMigrateReport(
        root=place.shown,
        catalog=place.catalog,
        was=was,
        now=VERSION,
        generation=generation,
        up_to_date=was == VERSION,
        dry_run=dry_run,
    )
