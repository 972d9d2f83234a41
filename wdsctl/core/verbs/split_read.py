"""Reads the values that groups and strata go by, shard by shard on processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.columns import Column, find_column
from wdsctl.core.errors import DatasetError
from wdsctl.core.files import make_folder
from wdsctl.core.parallel import map_units
from wdsctl.core.split_spec import parse_spec
from wdsctl.core.split_values import (
    ShardValues,
    ValueUnit,
    hash_of,
    load_values,
    result_path,
    run_value_unit,
    values_of,
)
from wdsctl.core.verbs.split_ground import Ground


def values_by_shard(
    ground: Ground, spec: str, rows: Sequence[ShardRow], *, is_told: bool
) -> Iterator[tuple[ShardRow, ShardValues]]:
    """The values of these shards, in whatever order they come. `is_told`: with their texts.

    What an earlier run or pass left is not read again. Raises InputError and CatalogError where it is of a column that
    is not there.
    """
    parsed = parse_spec(spec)
    if parsed.kind == "column":
        column = find_column(ground.place, parsed.part, ground.generation, shards=ground.offsets.shards)
        yield from ((row, _of_column(ground, column, row, is_told=is_told)) for row in rows)
        return
    folder = ground.work()
    if folder:
        make_folder(folder)
    todo: list[tuple[ShardRow, ValueUnit]] = []
    for row in rows:
        facts = (row.path, row.size, row.layout_hash)
        result = result_path(folder, facts, spec, is_told=is_told) if folder else ""
        found = load_values(result) if result else None
        if found is not None and len(found.hashes) == row.samples:
            yield row, found
        else:
            path = ground.place.offsets(ground.generation)
            todo.append((row, ValueUnit(ground.place.root, path, ground.at[row.id], spec, is_told, result)))
    yield from _read(ground, todo)


def _read(ground: Ground, todo: Sequence[tuple[ShardRow, ValueUnit]]) -> Iterator[tuple[ShardRow, ShardValues]]:
    if not todo:
        return
    ground.progress.phase("read values", items=len(todo), size_bytes=sum(row.size for row, _ in todo))
    units = [unit for _, unit in todo]
    preload = ("wdsctl.core.split_values",)
    with closing(map_units(run_value_unit, units, ground.workers, preload=preload)) as results:
        for i, made in results:
            row, unit = todo[i]
            ground.progress.advance(items=1, size_bytes=row.size)
            yield row, made or load_values(unit.result) or values_of(unit)


def _of_column(ground: Ground, column: Column, row: ShardRow, *, is_told: bool) -> ShardValues:
    at = ground.at[row.id]
    if int(column.table[at, 2]):
        raise DatasetError(
            f"the column {column.facts.name} has no value for {int(column.table[at, 2]):,} samples of a shard",
            where=row.path,
            hint="make the column again where its function fails, or divide by something else",
        )
    first = ground.first_row(row)
    numbers, which = np.unique(column.values[first : first + row.samples], return_inverse=True)
    texts = [str(number) for number in numbers.tolist()]
    hashes = np.array([hash_of(text) for text in texts], np.uint64)
    told = dict(zip(hashes.tolist(), texts, strict=True)) if is_told else {}
    return ShardValues(hashes[which], 0, (), told)
