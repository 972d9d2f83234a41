"""`catalog check`: whether the catalog, the offsets and the columns are sound and agree. Shards are not read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.health import (
    Problem,
    count_problems,
    orphan_problems,
    page_problems,
    schema_version,
    view_problems,
)
from wdsctl.core.catalog.identity import VERSION
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.columns import find_column, kept_columns
from wdsctl.core.command_line import command_at
from wdsctl.core.errors import CatalogError, WdsctlError
from wdsctl.core.findings import Finding
from wdsctl.core.offsets import Offsets
from wdsctl.core.offsets_bounds import ShardEntry
from wdsctl.core.place import Place, locate
from wdsctl.core.printable import one_line
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.verbs.fold import offsets_files
from wdsctl.core.verbs.presence import check_made


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    name: str
    problems: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCheckReport:
    root: str
    catalog: str
    checks: tuple[Checked, ...]
    findings: tuple[Finding, ...]


def catalog_check(root: str, *, catalog: str | None = None, progress: Progress = SILENT) -> CatalogCheckReport:
    """Check it all; what is wrong is a finding. Raises CatalogError where the file cannot be opened at all.

    Reads the whole catalog, and of offsets and columns the headers and ends. Memory: a few tens of MB.
    """
    place = locate(root, catalog)
    check_made(place)
    path = place.catalog
    version = schema_version(path)
    checks: tuple[tuple[str, Callable[[], Iterable[Problem]]], ...] = (
        ("pages and indexes", lambda: page_problems(path)),
        ("facts and counts of shards", lambda: _facts(path)),
        ("views", lambda: view_problems(path, dict(schema.VIEWS) if version == VERSION else {})),
        ("counts agree with rows", lambda: count_problems(path)),
        ("no row without its shard", lambda: orphan_problems(path)),
        ("offsets agree with the catalog", lambda: _offsets(place)),
        ("offsets of earlier generations", lambda: _earlier(place)),
        ("columns", lambda: _columns(place)),
    )
    done, findings = [], _older(version, place)
    progress.phase("look", items=len(checks))
    for name, run in checks:
        problems = _found(run)
        findings += [_finding(name, problem) for problem in problems]
        done.append(Checked(name=name, problems=len(problems)))
        progress.advance(items=1)
    return CatalogCheckReport(root=place.shown, catalog=path, checks=tuple(done), findings=tuple(findings))


def _found(run: Callable[[], Iterable[Problem]]) -> list[Problem]:
    """A damaged page may end a check that reads it: that is what it found."""
    try:
        return list(run())
    except CatalogError as error:
        return [Problem(error.message)]


def _finding(check: str, problem: Problem) -> Finding:
    words = f"{check}: {problem.message}"
    if problem.is_unfinished:
        return Finding(code="WDS305", severity="warning", message=words, shard=problem.shard)
    return Finding(code="WDS302", severity="error", message=words, shard=problem.shard)


def _older(version: int, place: Place) -> list[Finding]:
    if version == VERSION:
        return []
    words = f"of schema version {version}, the present one is {VERSION}: {command_at(place, 'catalog', 'migrate')}"
    return [Finding(code="WDS303", severity="note", message=words)]


def _facts(path: str) -> list[Problem]:
    with Catalog(path) as published:
        rows, generation, last = published.shards(), published.generation, published.last_shard_id
        published.exclude()
        published.selection()
        published.media_settings()
    paths = [row.path for row in rows]
    twice = len(paths) - len(set(paths))
    problems = [Problem(f"{twice:,} paths of shards come twice")] if twice else []
    if rows and max(row.id for row in rows) > last:
        problems.append(Problem("a shard has a number that was not given out"))
    if generation < 0:
        problems.append(Problem("a generation below zero"))
    return problems


def _offsets(place: Place) -> list[Problem]:
    with Catalog(place.catalog) as published:
        rows, generation, is_folder = published.shards(), published.generation, published.is_media_folder
    if is_folder:
        return []
    offsets = Offsets(place.offsets(generation))
    offsets.check()
    if offsets.generation != generation:
        return [Problem(f"the file is of generation {offsets.generation}, the catalog of {generation}")]
    there = {shard.id: shard for shard in offsets.shards}
    problems = [Problem("is not in the offsets file", row.path) for row in rows if row.id not in there]
    extra = set(there) - {row.id for row in rows}
    problems += [Problem("is in the offsets file alone", there[number].path) for number in sorted(extra)]
    different = (_differs(place, row, there[row.id]) for row in rows if row.id in there)
    return problems + [problem for problem in different if problem is not None]


def _differs(place: Place, row: ShardRow, entry: ShardEntry) -> Problem | None:
    """New names go into offsets files before they are in the catalog (`renames.carry_over`)."""
    if (entry.size, entry.samples, entry.layout_hash) != (row.size, row.samples, row.layout_hash):
        return Problem("is another one in the offsets file", row.path)
    if entry.path == row.path:
        return None
    words = f"a run that was killed had begun to call it {one_line(entry.path)}: {command_at(place, 'index')} goes on"
    return Problem(words, row.path, is_unfinished=True)


def _earlier(place: Place) -> list[Problem]:
    problems = []
    for path in offsets_files(place):
        try:
            Offsets(path).check()
        except (CatalogError, OSError) as error:
            problems.append(Problem(f"{os.path.basename(path)}: {error}".splitlines()[0]))
    return problems


def _columns(place: Place) -> list[Problem]:
    with Catalog(place.catalog) as published:
        generation = published.generation
    problems = []
    for name, generations in kept_columns(place).items():
        if generation not in generations:
            continue
        try:
            find_column(place, name, generation, shards=Offsets(place.offsets(generation)).shards)
        except WdsctlError as error:
            problems.append(Problem(f"{name}: {error.message}"))
    return problems
