"""Carries the columns of the sources over to what was made of them: a gather over mapped numbers, nothing is read.

A column of every source that was made by the same function, in the same version, becomes one of the destination, if
its numbers still hold (`wdsctl/core/convert/carried.py`). Those that are made without reading are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.column_spec import Spec, parse_spec
from wdsctl.core.columns import (
    Column,
    ColumnFacts,
    ShardPiece,
    column_path,
    digest_of,
    find_column,
    kept_columns,
    write_column,
)
from wdsctl.core.convert.carried import NotCarried, carried_spec
from wdsctl.core.convert.importers.polylithic import PolylithicSource
from wdsctl.core.convert.importers.shards import ShardsSource
from wdsctl.core.convert.plan_file import Origins
from wdsctl.core.convert.recipe import Recipe, Stream
from wdsctl.core.convert.source import Source
from wdsctl.core.errors import WdsctlError
from wdsctl.core.lock import check_held
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.shard_index import Ints
from wdsctl.core.verbs.column import settle_columns
from wdsctl.core.verbs.column_job import mark_of
from wdsctl.core.verbs.column_report import readable
from wdsctl.core.verbs.column_request import ColumnRequest
from wdsctl.core.verbs.convert_sources import Opened

_NO_MEDIA = "what is known of media, which it is made of, does not"


@dataclass(frozen=True, slots=True)
class Carried:
    """A column that goes along. `columns`: that of each source; `spec`: what makes it in the destination."""

    name: str
    spec: Spec
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """A column that does not go along. `spec`: what makes it anew in the destination, if anything does."""

    name: str
    why: str
    spec: Spec | None


def columns_after(
    opened: Opened, recipe: Recipe, stream: Stream, *, has_media: bool
) -> tuple[list[Carried], list[Left]]:
    """What becomes of every column of the sources, by name. Cost: their headers.

    `has_media`: facts of media go along.
    """
    datasets = [_dataset(source) for source in opened.sources]
    names = {name for dataset in datasets if dataset is not None for name in kept_columns(dataset.place)}
    is_lines = any(isinstance(source, PolylithicSource) and source.is_lines for source in opened.sources)
    carried, left = [], []
    for name in sorted(names):
        try:
            found = [_column(name, dataset, told.path) for dataset, told in zip(datasets, opened.told, strict=True)]
            _check_alike(found)
        except NotCarried as error:
            left.append(Left(name, str(error), _anew(name, datasets, recipe, stream, is_lines=is_lines)))
            continue
        try:
            spec = _spec_after(found[0].facts, recipe, stream, is_lines=is_lines)
            if spec.kind == "media" and not has_media:
                raise NotCarried(_NO_MEDIA, spec)
            carried.append(Carried(name, spec, tuple(found)))
        except NotCarried as error:
            left.append(Left(name, str(error), error.spec))
    return carried, left


def _spec_after(facts: ColumnFacts, recipe: Recipe, stream: Stream, *, is_lines: bool) -> Spec:
    spec = parse_spec(facts.function)
    if is_lines and spec.is_built_in:
        raise NotCarried("it is of the lines of the primary, not of the parts of the samples")
    return carried_spec(spec, facts.parts, recipe, stream)


def _anew(
    name: str, datasets: Iterable[ShardsSource | None], recipe: Recipe, stream: Stream, *, is_lines: bool
) -> Spec | None:
    """What makes a column anew that one of the sources has in its own way, or alone."""
    for dataset in datasets:
        kept = kept_columns(dataset.place).get(name, []) if dataset is not None else []
        column = readable(column_path(dataset.place, name, kept[-1])) if dataset is not None and kept else None
        if isinstance(column, Column):
            try:
                return _spec_after(column.facts, recipe, stream, is_lines=is_lines)
            except NotCarried as error:
                return error.spec
    return None


def _dataset(source: Source) -> ShardsSource | None:
    """What has the columns of a source: of a polylithic one, its primary."""
    if isinstance(source, PolylithicSource):
        return source.primary
    return source if isinstance(source, ShardsSource) else None


def _column(name: str, dataset: ShardsSource | None, path: str) -> Column:
    if dataset is None or name not in kept_columns(dataset.place):
        raise NotCarried(f"{path} does not have it")
    offsets = dataset.offsets
    try:
        return find_column(dataset.place, name, offsets.generation, shards=offsets.shards)
    except WdsctlError as error:
        raise NotCarried(f"of {path}: {error.message}") from error


def _check_alike(columns: Sequence[Column]) -> None:
    """Raises NotCarried where sources have numbers that mean different things."""
    functions = list(dict.fromkeys(column.facts.function for column in columns))
    if len(functions) > 1:
        raise NotCarried(f"the sources made it by different functions: {', '.join(functions)}")
    if len({column.facts.source for column in columns}) > 1:
        raise NotCarried(f"the sources made it by different versions of {functions[0]}")


def carry_columns(
    place: Place,
    generation: int,
    wanted: Iterable[Carried],
    came: Callable[[str], Origins],
    *,
    has_media: bool,
    progress: Progress,
) -> tuple[list[str], list[Left]]:
    """Write the columns of one dataset of the destination: (their names, what has nothing to be made of).

    `came`: of a shard, by its path, where its samples came from. `has_media`: facts of media did.
    The caller holds the lock. Cost: some 2 us a sample and column. Memory: the largest shard's numbers.
    """
    offsets = Offsets(place.offsets(generation))
    with Catalog(place.catalog) as catalog:
        rows, parts = {row.id: row for row in catalog.shards()}, {part.name for part in catalog.parts()}
    names, left, cheap = [], [], dict[str, str]()
    for each in wanted:
        if each.spec.is_built_in and each.spec.first not in parts:
            left.append(Left(each.name, f"no sample has a part {each.spec.first}", None))
            continue
        if each.spec.kind == "media" and not has_media:
            left.append(Left(each.name, _NO_MEDIA, each.spec))
            continue
        if each.spec.reads:
            _write(place, offsets, rows, each, came)
        else:
            cheap[each.name] = each.spec.text
        names.append(each.name)
    if names:  # also removes what a killed run had begun to write
        settle_columns(
            place, generation, ColumnRequest(wanted=cheap), workers=1, anew=False, dry_run=False, progress=progress
        )
    return names, left


def _write(
    place: Place, offsets: Offsets, rows: Mapping[int, ShardRow], carried: Carried, came: Callable[[str], Origins]
) -> None:
    first = carried.columns[0].facts
    facts = ColumnFacts(
        name=carried.name,
        function=carried.spec.text,
        source=first.source,
        parts=first.parts,
        generation=offsets.generation,
        shards=digest_of(offsets.shards),
        zero=any(column.facts.zero for column in carried.columns),
    )

    def pieces() -> Iterator[ShardPiece]:
        for shard in offsets.shards:
            mark = mark_of(carried.spec, first.source, rows[shard.id])
            values, failed = gathered(carried.columns, came(shard.path))
            yield ShardPiece(shard.id, mark, failed, values)
        check_held(place.lock)

    write_column(column_path(place, carried.name, offsets.generation), facts, pieces())


def gathered(columns: Sequence[Column], came: Origins) -> tuple[Ints, int]:
    """The values of samples that came from there, and how many of these may be 0 for want of a value.

    A column counts those of a shard and does not say which of its zeros they are: all of these zeros count here.
    """
    values, failed = np.zeros(len(came), np.int64), 0
    for number, column in enumerate(columns):
        mine = came["source"] == number
        places = came["place"][mine]
        values[mine] = found = column.values[places]
        if column.facts.failed:
            shards = np.searchsorted(np.cumsum(column.table[:, 1]), places, side="right")
            failed += int(np.count_nonzero((found == 0) & (column.table[shards, 2] > 0)))
    return values, failed
