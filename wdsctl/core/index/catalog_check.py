"""`catalog check` and `catalog info`: check that catalog, offsets and columns are sound and consistent; report sizes.

Neither command reads shards.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from wdsctl.core.catalog.open_catalog import (
    CATALOG_APPLICATION_ID,
    CATALOG_SCHEMA_VERSION,
    VIEWS,
    missing_catalog_error,
    schema_version,
    translate_catalog_errors,
)
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.totals import compute_totals, read_totals
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.columns.column_file import find_column, list_columns
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.errors import CatalogError, Finding, WdsctlError
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.index.merge import offsets_files
from wdsctl.core.index.vacuum import CatalogFile, catalog_files
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.text import escape_unprintable, pluralize

#: Rows that belong to a shard, by table: the shard's id from the row's own columns.
_SHARD_ID_EXPRESSIONS = {
    "sample": f"id >> {INDEX_BITS}",
    "shard_part": "shard",
    "split_shard": "shard",
    "excluded_shard": "shard",
    "media": f"sample >> {INDEX_BITS}",
    "media_shard": "shard",
    "media_count": "shard",
    "keyframes": f"sample >> {INDEX_BITS}",
}


@dataclass(frozen=True, slots=True)
class TableSize:
    name: str
    rows: int
    size_bytes: int | None  # with its indexes; None if SQLite was built without the table `dbstat`


class CatalogProblem(NamedTuple):
    """A problem that a check found, and its shard."""

    message: str
    shard: str = ""
    is_unfinished: bool = False  # left by a killed run; the next one repairs it


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCheck:
    name: str
    problems: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCheckReport:
    root: str
    catalog: str
    checks: tuple[CatalogCheck, ...]
    findings: tuple[Finding, ...]


def catalog_check(root: str, *, catalog: str | None = None, progress: Progress = SILENT_PROGRESS) -> CatalogCheckReport:
    """Run all checks and report problems as findings. Raises CatalogError if the catalog cannot be opened.

    Cost: reads the whole catalog, all offsets files, and the headers of current columns. Memory: a few tens of MB.
    """
    done: list[CatalogCheck] = []
    findings: list[Finding] = []
    progress.phase("look", items=len(_CHECKS))
    with open_indexed(root, catalog) as dataset:
        for name, check in _CHECKS.items():
            try:
                problems = list(check(dataset))
            except CatalogError as error:  # a damaged page, for example
                problems = [CatalogProblem(error.message)]
            findings += [_finding(name, problem) for problem in problems]
            done.append(CatalogCheck(name=name, problems=len(problems)))
            progress.advance(items=1)
    location = dataset.location
    return CatalogCheckReport(
        root=location.display_path, catalog=location.catalog_path, checks=tuple(done), findings=tuple(findings)
    )


def _finding(check: str, problem: CatalogProblem) -> Finding:
    message = f"{check}: {problem.message}"
    if problem.is_unfinished:
        return Finding(code="WDS305", severity="warning", message=message, shard=problem.shard)
    return Finding(code="WDS302", severity="error", message=message, shard=problem.shard)


def _check_facts(dataset: OpenDataset) -> list[CatalogProblem]:
    published = dataset.catalog
    rows, generation, last = published.shards(), published.generation, published.last_shard_id
    published.exclude_patterns()
    published.selection()
    published.media_settings()
    paths = [row.path for row in rows]
    twice = len(paths) - len(set(paths))
    problems = [CatalogProblem(f"{twice:,} shard paths are repeated")] if twice else []
    if rows and max(row.id for row in rows) > last:
        problems.append(CatalogProblem("a shard's number was never assigned"))
    if generation < 0:
        problems.append(CatalogProblem("the generation is negative"))
    return problems


def _check_offsets(dataset: OpenDataset) -> list[CatalogProblem]:
    if dataset.catalog.is_media_folder:
        return []
    rows, generation = dataset.catalog.shards(), dataset.catalog.generation
    offsets = dataset.offsets()
    offsets.check_all()
    if offsets.generation != generation:
        return [CatalogProblem(f"the file is of generation {offsets.generation}, the catalog of {generation}")]
    there = {shard.id: shard for shard in offsets.shards}
    problems = [CatalogProblem("is not in the offsets file", row.path) for row in rows if row.id not in there]
    extra = set(there) - {row.id for row in rows}
    problems += [CatalogProblem("is only in the offsets file", there[number].path) for number in sorted(extra)]
    different = (_offsets_difference(dataset.location, row, there[row.id]) for row in rows if row.id in there)
    return problems + [problem for problem in different if problem is not None]


def _offsets_difference(location: DatasetLocation, row: ShardRow, entry: ShardEntry) -> CatalogProblem | None:
    """Compare one shard in the catalog with its entry in the offsets file.

    If only the paths differ, a run was killed while it renamed shards: `apply_renames_to_files` writes new paths to
    offsets files before the catalog is published.
    """
    if (entry.size, entry.samples, entry.layout_hash) != (row.size, row.samples, row.layout_hash):
        return CatalogProblem("differs in the offsets file", row.path)
    if entry.path == row.path:
        return None
    message = (
        f"a killed run began to rename it to {escape_unprintable(entry.path)}: "
        f"{shell_command_at(location, 'index')} completes the renaming"
    )
    return CatalogProblem(message, row.path, is_unfinished=True)


def _check_earlier_offsets(dataset: OpenDataset) -> list[CatalogProblem]:
    problems = []
    for path in offsets_files(dataset.location):
        try:
            Offsets(path).check_all()
        except (CatalogError, OSError) as error:
            problems.append(CatalogProblem(f"{os.path.basename(path)}: {error}".splitlines()[0]))
    return problems


def _check_columns(dataset: OpenDataset) -> list[CatalogProblem]:
    generation = dataset.catalog.generation
    problems = []
    for name, generations in list_columns(dataset.location).items():
        if generation not in generations:
            continue
        try:
            find_column(dataset.location, name, generation, shards=dataset.offsets().shards)
        except WdsctlError as error:
            problems.append(CatalogProblem(f"{name}: {error.message}"))
    return problems


def _check_pages(dataset: OpenDataset) -> list[CatalogProblem]:
    """Damaged pages, and indexes that do not match their tables. Reads the whole file."""
    messages = [str(row[0]) for row in dataset.catalog.rows("PRAGMA integrity_check(20)")]
    return [CatalogProblem(" ".join(line.split())) for line in messages if line != "ok"]


def _check_views(dataset: OpenDataset) -> list[CatalogProblem]:
    """Views that are missing, or that SQLite cannot compile."""
    problems = []
    there = {name for (name,) in dataset.catalog.rows("SELECT name FROM sqlite_master WHERE type = 'view'")}
    for name in sorted(there | set(VIEWS)):
        if name not in there:
            problems.append(CatalogProblem(f"the view {name} is missing"))
            continue
        try:
            dataset.catalog.connection.execute(f'SELECT * FROM "{name}" LIMIT 0').close()
        except sqlite3.OperationalError as error:
            problems.append(CatalogProblem(f"the view {name} does not work: {error}"))
    return problems


def _check_counts(dataset: OpenDataset) -> list[CatalogProblem]:
    """Counts that differ from the number of rows. Cost: about half a second per million samples."""
    connection = dataset.catalog.connection
    with translate_catalog_errors(dataset.catalog.path):
        facts = dict(connection.execute("SELECT key, value FROM meta"))
        problems = [*_split_counts(connection)]
        # The totals of media are not checked.
        if replace(read_totals(connection, facts), media=None) != compute_totals(connection):
            problems.append(CatalogProblem("the stored totals differ from the sums over the shards"))
        if facts.get("sample_rows") != "0":
            rows = dict(connection.execute(f"SELECT id >> {INDEX_BITS}, count(*) FROM sample GROUP BY 1"))
            query = "SELECT id, path, samples FROM shard WHERE removed IS NULL"
            problems += [
                CatalogProblem(f"{pluralize(rows.get(number, 0), 'sample row')}, but the count is {samples:,}", name)
                for number, name, samples in connection.execute(query)
                if rows.get(number, 0) != samples
            ]
        query = (
            "SELECT path, shard.samples, max(shard_part.samples) FROM shard_part JOIN shard ON shard.id = shard "
            "GROUP BY shard.id HAVING max(shard_part.samples) > shard.samples"
        )
        problems += [
            CatalogProblem(f"a part is counted in {most:,} samples, but the shard has {samples:,}", name)
            for name, samples, most in connection.execute(query)
        ]
    return problems


def check_orphans(dataset: OpenDataset) -> list[CatalogProblem]:
    """Rows of shards that do not exist or were removed, and parts without a name."""
    if dataset.catalog.is_media_folder:
        return []  # the rows belong to files
    connection = dataset.catalog.connection
    with translate_catalog_errors(dataset.catalog.path):
        shards = {number for (number,) in connection.execute("SELECT id FROM shard WHERE removed IS NULL")}
        problems = []
        for table, shard in _SHARD_ID_EXPRESSIONS.items():
            orphans = sum(number not in shards for number in _shard_ids(connection, table, shard))
            if orphans:
                problems.append(
                    CatalogProblem(
                        f"{table} has rows of {pluralize(orphans, 'shard')} that the catalog no longer lists"
                    )
                )
        lost = connection.execute("SELECT count(*) FROM shard_part WHERE ext NOT IN (SELECT id FROM ext)").fetchone()[0]
    return [*problems, CatalogProblem(f"{pluralize(lost, 'count')} of parts have no part name")] if lost else problems


def _shard_ids(connection: sqlite3.Connection, table: str, shard: str) -> list[int]:
    """The ids of shards with rows in a table. For rows of samples, one index lookup per shard."""
    if ">>" not in shard:
        return [number for (number,) in connection.execute(f"SELECT DISTINCT {shard} FROM {table}")]
    column = shard.partition(" ")[0]
    query = f"SELECT {column} FROM {table} WHERE {column} >= ? ORDER BY {column} LIMIT 1"
    found: list[int] = []
    row = connection.execute(query, (-(1 << 62),)).fetchone()
    while row is not None:
        found.append(row[0] >> INDEX_BITS)
        after = (found[-1] + 1) << INDEX_BITS
        row = connection.execute(query, (after,)).fetchone() if after < 1 << 63 else None
    return found


def _split_counts(connection: sqlite3.Connection) -> Iterator[CatalogProblem]:
    """Bitmaps of splits that disagree with their count, or have bits beyond the samples of the shard."""
    query = (
        "SELECT split.name, shard.path, shard.samples, t.samples, t.bits FROM {} AS t "
        "JOIN shard ON shard.id = t.shard JOIN split ON split.id = t.split"
    )
    for split, shard, samples, count, bits in chain.from_iterable(
        connection.execute(query.format(name)) for name in ("split_shard", "former_split")
    ):
        number = samples if bits is None else int.from_bytes(bits, "little").bit_count()
        fits = bits is None or int.from_bytes(bits, "little").bit_length() <= samples
        if number != count or not fits:
            message = f"the split {split!r} states {count:,} samples, but contains {number:,} of {samples:,} samples"
            yield CatalogProblem(message, shard)


_CHECKS: dict[str, Callable[[OpenDataset], list[CatalogProblem]]] = {
    "pages and indexes": _check_pages,
    "facts and counts of shards": _check_facts,
    "views": _check_views,
    "counts agree with rows": _check_counts,
    "no row without its shard": check_orphans,
    "offsets agree with the catalog": _check_offsets,
    "offsets of earlier generations": _check_earlier_offsets,
    "columns": _check_columns,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogInfoReport:
    root: str
    catalog: str
    application_id: str  # hexadecimal
    schema_version: int  # of the file
    present_version: int  # the schema version that this wdsctl writes
    written_by: str
    uuid: str
    generation: int
    generations: tuple[int, ...]  # those with an offsets file: a state that was saved on one can be resumed
    shards: int
    samples: int
    exclude: tuple[str, ...]
    selection: str  # empty: all shards
    sample_rows: bool
    hashed: int  # shards with a SHA-256 in the catalog
    tables: tuple[TableSize, ...]
    files: tuple[CatalogFile, ...]
    size_bytes: int  # of all files


def catalog_info(root: str, *, catalog: str | None = None) -> CatalogInfoReport:
    """Describe the catalog of a dataset. Raises CatalogError WDS301, WDS302, WDS303. Reads the whole catalog."""
    with open_indexed(root, catalog) as dataset:
        location, published = dataset.location, dataset.catalog
        version = schema_version(location.catalog_path)
        rows, generation = published.shards(), published.generation
        exclude, selection = published.exclude_patterns(), published.selection()
        has_rows = published.has_sample_rows
        written_by, uuid = published.fact("written_by") or "", published.fact("uuid") or ""
        tables = read_table_sizes(published)
    files = catalog_files(location)
    if not files:
        raise missing_catalog_error(location.catalog_path, shell_command_at(location, "prepare"))
    return CatalogInfoReport(
        root=location.display_path,
        catalog=location.catalog_path,
        application_id=f"0x{CATALOG_APPLICATION_ID:08x}",
        schema_version=version,
        present_version=CATALOG_SCHEMA_VERSION,
        written_by=written_by,
        uuid=uuid,
        generation=generation,
        generations=tuple(sorted(f.generation for f in files if f.kind == "offsets" and f.generation is not None)),
        shards=len(rows),
        samples=sum(row.samples for row in rows),
        exclude=exclude,
        selection="" if selection.is_all else selection.describe(),
        sample_rows=has_rows,
        hashed=sum(row.sha256 is not None for row in rows),
        tables=tuple(tables),
        files=tuple(files),
        size_bytes=sum(file.size_bytes for file in files),
    )


def read_table_sizes(catalog: Catalog) -> list[TableSize]:
    """The rows and bytes of every table, the largest first. Cost: reads the whole file, about a second per GB."""
    names = [name for (name,) in catalog.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    with translate_catalog_errors(catalog.path):
        sizes = _sizes(catalog.connection)
    counts = {name: catalog.rows(f'SELECT count(*) FROM "{name}"')[0][0] for name in names}
    rows = [TableSize(name, counts[name], None if sizes is None else sizes.get(name, 0)) for name in names]
    return sorted(rows, key=lambda row: (-(row.size_bytes or 0), -row.rows, row.name))


def _sizes(connection: sqlite3.Connection) -> dict[str, int] | None:
    try:
        sizes = connection.execute(
            "SELECT coalesce(tbl_name, dbstat.name), sum(pgsize) FROM dbstat LEFT JOIN sqlite_master "
            "ON sqlite_master.name = dbstat.name WHERE aggregate = TRUE GROUP BY 1"
        )
        return {str(name): int(size) for name, size in sizes}
    except sqlite3.OperationalError:
        return None
