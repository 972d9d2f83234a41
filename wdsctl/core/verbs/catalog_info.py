"""`catalog info`: what a catalog is, and what it takes up."""

from __future__ import annotations

from dataclasses import dataclass

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.health import TableSize, schema_version, tables
from wdsctl.core.catalog.identity import APPLICATION_ID, VERSION, missing
from wdsctl.core.catalog.quick_facts import facts
from wdsctl.core.place import locate
from wdsctl.core.verbs.catalog_files import CatalogFile, catalog_files
from wdsctl.core.verbs.presence import check_made


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogInfoReport:
    root: str
    catalog: str
    application_id: str  # hexadecimal
    schema_version: int  # of the file
    present_version: int  # that this wdsctl writes
    written_by: str
    uuid: str
    generation: int
    generations: tuple[int, ...]  # of which there are offsets: states that were saved on them can go on
    shards: int
    samples: int
    exclude: tuple[str, ...]
    selection: str  # empty: all shards
    sample_rows: bool
    hashed: int  # shards whose SHA-256 is known
    tables: tuple[TableSize, ...]
    files: tuple[CatalogFile, ...]
    size_bytes: int  # of all files


def catalog_info(root: str, *, catalog: str | None = None) -> CatalogInfoReport:
    """What the catalog of a dataset is. Raises CatalogError WDS301, WDS302, WDS303. Reads the whole catalog."""
    place = locate(root, catalog)
    check_made(place)
    version = schema_version(place.catalog)
    told = facts(place.catalog)
    with Catalog(place.catalog) as published:
        rows, generation = published.shards(), published.generation
        exclude, selection = published.exclude(), published.selection()
        has_rows = published.has_sample_rows
    files = catalog_files(place)
    if not files:
        raise missing(place.catalog)
    return CatalogInfoReport(
        root=place.shown,
        catalog=place.catalog,
        application_id=f"0x{APPLICATION_ID:08x}",
        schema_version=version,
        present_version=VERSION,
        written_by=told.get("written_by", ""),
        uuid=told.get("uuid", ""),
        generation=generation,
        generations=tuple(sorted(f.generation for f in files if f.kind == "offsets" and f.generation is not None)),
        shards=len(rows),
        samples=sum(row.samples for row in rows),
        exclude=exclude,
        selection="" if selection.is_all else selection.said(),
        sample_rows=has_rows,
        hashed=sum(row.sha256 is not None for row in rows),
        tables=tuple(tables(place.catalog)),
        files=tuple(files),
        size_bytes=sum(file.size_bytes for file in files),
    )
