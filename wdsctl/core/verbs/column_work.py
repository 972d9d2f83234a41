"""Works out the values of columns, shard by shard on processes, and writes their files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from wdsctl.core.catalog.quick import media_numbers
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.column_sizes import sizes_of
from wdsctl.core.column_spec import MEDIA_NUMBERS, Spec
from wdsctl.core.column_units import (
    ColumnTask,
    ColumnUnit,
    ShardValues,
    failed_path,
    load_values,
    run_column_unit,
    values_of,
)
from wdsctl.core.columns import ColumnFacts, ShardPiece, column_path, digest_of, write_column
from wdsctl.core.errors import StorageError
from wdsctl.core.files import remove_tree
from wdsctl.core.findings import Finding
from wdsctl.core.lock import check_held
from wdsctl.core.offsets import Offsets
from wdsctl.core.parallel import map_units
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.shard_index import Ints
from wdsctl.core.verbs.column_job import Job, units_folder
from wdsctl.core.verbs.column_report import ColumnReport, report_of


def work_out(
    place: Place, offsets: Offsets, shards: Sequence[ShardRow], jobs: Sequence[Job], workers: int, progress: Progress
) -> tuple[dict[str, int], list[Finding]]:
    """Read what must be read. Returns by column how many samples have no value, and what was found."""
    todo = [job for job in jobs if job.spec.reads and job.current is None]
    units = []
    for i, row in enumerate(shards):
        tasks = tuple(
            ColumnTask(job.name, job.spec, job.result(place, i), zero=job.zero)
            for job in todo
            if row.samples and not job.has(i) and not os.path.exists(job.result(place, i))
        )
        if tasks:
            units.append(ColumnUnit(place.root, place.offsets(offsets.generation), i, tasks))
    failed: dict[str, int] = {}
    findings: list[Finding] = []
    if not units:
        return failed, findings
    progress.phase("column", items=len(units), size_bytes=sum(shards[unit.shard].size for unit in units))
    by_name = {job.name: job for job in todo}
    preload = ("wdsctl.core.column_units",)
    with closing(map_units(run_column_unit, units, workers, preload=preload)) as results:
        for i, outcomes in results:
            for outcome in outcomes:
                by_name[outcome.name].shards_read += 1
                findings += outcome.findings
                if not outcome.is_saved:
                    failed[outcome.name] = failed.get(outcome.name, 0) + outcome.failed
            progress.advance(items=1, size_bytes=shards[units[i].shard].size)
    return failed, findings


def finish(
    place: Place, offsets: Offsets, shards: Sequence[ShardRow], job: Job, failed: int, progress: Progress
) -> ColumnReport:
    """Write the column's file, where every sample has a value."""
    if job.current is not None:
        return report_of(job.current, "current")
    facts = ColumnFacts(
        name=job.name,
        function=job.spec.text,
        source=job.source,
        parts=job.parts,
        generation=job.generation,
        shards=digest_of(offsets.shards),
        zero=job.zero,
    )
    if failed:
        none = report_of(facts, "incomplete")
        return replace(none, generation=None, failed=failed, shards_read=job.shards_read)
    progress.phase("finish")
    path = column_path(place, job.name, job.generation)
    made = write_column(path, facts, _pieces(place, offsets, shards, job))
    remove_tree(units_folder(place, job.name))
    return replace(report_of(made, "made"), shards_read=job.shards_read)


def _pieces(place: Place, offsets: Offsets, shards: Sequence[ShardRow], job: Job) -> Iterator[ShardPiece]:
    for i, row in enumerate(shards):
        made = _values(place, offsets, row, job, i)
        yield ShardPiece(row.id, job.marks[i], made.failed, made.values)
    check_held(place.lock)


def _values(place: Place, offsets: Offsets, row: ShardRow, job: Job, i: int) -> ShardValues:
    """The values of one shard: by arithmetic, from an earlier column, or as its unit left them."""
    rows = slice(int(offsets.shard_row[i]), int(offsets.shard_row[i + 1]))
    if job.spec.kind == "media":
        return ShardValues(_media_values(place, row, job.spec), 0, ())
    if not job.spec.reads or not row.samples:
        return ShardValues(sizes_of(offsets, rows, job.spec.first), 0, ())
    if job.has(i):
        column, first, at = job.held[job.marks[i]]
        return ShardValues(column.values[first : first + row.samples], int(column.table[at, 2]), ())
    result = job.result(place, i)
    made = load_values(result if os.path.exists(result) else failed_path(result))
    if made is not None and len(made.values) == row.samples:
        return made
    task = ColumnTask(job.name, job.spec, result, zero=job.zero)
    [made] = values_of(ColumnUnit(place.root, place.offsets(offsets.generation), i, (task,)))
    if len(made.values) != row.samples:
        first_of_all = made.findings[0]
        raise StorageError(
            f"the values of a shard were damaged, and cannot be had again: {first_of_all.message}",
            where=row.path,
            hint="run the same command again: finished work is kept",
        )
    return made


def _media_values(place: Place, row: ShardRow, spec: Spec) -> Ints:
    """A number of the media of one part of a shard, from the catalog; 0 for samples without it."""
    values = np.zeros(row.samples, np.int64)
    found = media_numbers(place.catalog, row.id, spec.first, MEDIA_NUMBERS[spec.rest[0]])
    if found:
        rows, numbers = np.array(found, np.int64).T
        values[rows] = np.maximum(numbers, 0)
    return values
