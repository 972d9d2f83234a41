"""Copy the columns of the sources to a dataset of the destination.

A column has one number per sample, so that its values stay valid in other shards, in another order, and for fewer
samples. Copying the values from the mapped columns of the sources takes about 2 us per sample and column; running the
function again may take hours. `convert` drops a column, with a warning (WDS346), if the parts that its function reads
change, or if not all sources have the column by the same function. It does not copy media facts: `index` computes them
again, with the settings of the sources (docs/decisions/0036-convert-carries-columns-and-computes-media-facts.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.catalog.values import MediaSettings, ShardRow
from wdsctl.core.columns.column_file import (
    ColumnFacts,
    ColumnFile,
    ColumnShard,
    column_path,
    digest_shards,
    find_column,
    list_columns,
    write_column,
)
from wdsctl.core.columns.spec import ColumnSpec, parse_column_spec
from wdsctl.core.convert.parts import is_selected_part, is_separated_part, renamed_part_name, transcoded_name
from wdsctl.core.convert.plan_file import SampleOrigins
from wdsctl.core.convert.request import ConvertRequest, Stream
from wdsctl.core.convert.sources import OpenSources
from wdsctl.core.dataset.location import DatasetLocation, shell_command
from wdsctl.core.dataset.lock import check_lock_held
from wdsctl.core.errors import Finding, WdsctlError
from wdsctl.core.importers.polylithic import PolylithicSource
from wdsctl.core.importers.protocol import Source
from wdsctl.core.importers.shards import ShardsSource
from wdsctl.core.index.columns import column_shard_digest, update_columns
from wdsctl.core.index.report import read_column_or_finding
from wdsctl.core.index.request import ColumnRequest
from wdsctl.core.media.selection import AUTO
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import Progress

_NO_MEDIA_FACTS = "the column needs media facts, which the destination does not have"
_MEDIA_FACTS = "media facts"


class ColumnDropped(Exception):  # noqa: N818 - an outcome, not a failure
    """Why a column is not copied. `spec` computes the column for the destination; None if no function can."""

    def __init__(self, reason: str, spec: ColumnSpec | None = None) -> None:
        super().__init__(reason)
        self.spec = spec


@dataclass(frozen=True, slots=True)
class CarriedColumn:
    """A column to copy. `spec`: its function in the destination. `columns`: the column of each source, in order."""

    name: str
    spec: ColumnSpec
    columns: tuple[ColumnFile, ...]


class DroppedItem(NamedTuple):
    """What a dataset of the destination lacks (`the column n`), and why. `command` computes it; may be empty."""

    what: str
    reason: str
    command: str


@dataclass(frozen=True, slots=True)
class CarryPlan:
    """What the datasets of the destination get from the sources, by stream.

    `media`: the sources' settings for media facts; None if they have no facts, or different settings
    (`media_conflict`). In a polylithic layout, only the primary has columns.
    """

    columns: Mapping[Stream, tuple[CarriedColumn, ...]]
    dropped: Mapping[Stream, tuple[tuple[str, ColumnDropped], ...]]  # (name, reason)
    media: MediaSettings | None
    media_conflict: bool

    def column_names(self, stream: Stream) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns.get(stream, ()))

    def dropped_items(
        self, root: str, stream: Stream, also_dropped: Iterable[tuple[str, ColumnDropped]] = ()
    ) -> list[DroppedItem]:
        """The columns and media facts that the dataset at `root` does not get."""
        items = []
        for name, why in (*self.dropped.get(stream, ()), *also_dropped):
            command = ""
            if why.spec is not None:
                flags = media_flags(self.media) if why.spec.kind == "media" and self.media is not None else []
                command = shell_command("index", root, *flags, "--column", f"{name}={why.spec.text}")
            items.append(DroppedItem(f"the column {name}", str(why), command))
        if self.media_conflict:
            reason = "the sources have facts of different media"
            items.append(DroppedItem(_MEDIA_FACTS, reason, shell_command("index", root, "--media")))
        return items


def plan_carry(opened: OpenSources, request: ConvertRequest, streams: Iterable[Stream]) -> CarryPlan:
    """Decide what to copy. Cost: reads the headers of the columns, and runs one query per catalog."""
    known = sorted(set(streams))
    found = (
        dict.fromkeys(settings for source in opened.sources for settings in _media_settings(source)) if known else {}
    )
    media = next(iter(found)) if len(found) == 1 else None
    columns: dict[Stream, tuple[CarriedColumn, ...]] = {}
    dropped: dict[Stream, tuple[tuple[str, ColumnDropped], ...]] = {}
    for stream in known:
        if stream != "media":
            columns[stream], dropped[stream] = _plan_columns(opened, request, stream, has_media=media is not None)
    return CarryPlan(columns, dropped, media, len(found) > 1)


def media_flags(settings: MediaSettings) -> list[str]:
    """The options of `index` that compute media facts with these settings."""
    selection = [] if settings.selection == AUTO else [settings.selection]
    return ["--media", *selection, *(["--media-index"] if settings.keyframes else [])]


def dropped_findings(items: Iterable[DroppedItem]) -> list[Finding]:
    """A warning WDS346 for each item and reason, with the number of datasets and the command for the first of them."""
    counts: dict[tuple[str, str], int] = {}
    commands: dict[tuple[str, str], str] = {}
    for what, reason, command in items:
        counts[what, reason] = counts.get((what, reason), 0) + 1
        commands.setdefault((what, reason), command)
    return [
        Finding(
            code="WDS346",
            severity="warning",
            message=f"not copied: {what}: {reason}" + (f"; {command} computes it" if command else ""),
            count=counts[what, reason],
        )
        for (what, reason), command in commands.items()
    ]


def _media_settings(source: Source) -> Iterator[MediaSettings]:
    """Yield the settings of a source's media facts, if it has any. A JSONL primary has no media."""
    locations = []
    if isinstance(source, ShardsSource):
        locations = [source.location]
    elif isinstance(source, PolylithicSource):
        stores = [source.store.location] if source.store is not None else []
        locations = stores if source.is_jsonl else [source.primary.location, *stores]
    for location in locations:
        with OpenDataset(location) as dataset:
            settings = dataset.catalog.media_settings()
        if settings is not None:
            yield settings


def _plan_columns(
    opened: OpenSources, request: ConvertRequest, stream: Stream, *, has_media: bool
) -> tuple[tuple[CarriedColumn, ...], tuple[tuple[str, ColumnDropped], ...]]:
    datasets = [_columns_dataset(source) for source in opened.sources]
    names = {name for dataset in datasets if dataset is not None for name in list_columns(dataset.location)}
    is_jsonl = any(isinstance(source, PolylithicSource) and source.is_jsonl for source in opened.sources)
    carried, dropped = [], []
    for name in sorted(names):
        try:
            columns = [
                _source_column(name, dataset, report.path)
                for dataset, report in zip(datasets, opened.reports, strict=True)
            ]
            _check_same_function(columns)
        except ColumnDropped as why:
            spec = _computable_spec(name, datasets, request, stream, is_jsonl=is_jsonl)
            dropped.append((name, ColumnDropped(str(why), spec)))
            continue
        try:
            spec = _spec_in_destination(columns[0].facts, request, stream, is_jsonl=is_jsonl)
            if spec.kind == "media" and not has_media:
                raise ColumnDropped(_NO_MEDIA_FACTS, spec)
            carried.append(CarriedColumn(name, spec, tuple(columns)))
        except ColumnDropped as why:
            dropped.append((name, why))
    return tuple(carried), tuple(dropped)


def _columns_dataset(source: Source) -> ShardsSource | None:
    """The dataset with the columns of a source: for a polylithic source, its primary; None for other formats."""
    if isinstance(source, PolylithicSource):
        return source.primary
    return source if isinstance(source, ShardsSource) else None


def _source_column(name: str, dataset: ShardsSource | None, path: str) -> ColumnFile:
    if dataset is None or name not in list_columns(dataset.location):
        raise ColumnDropped(f"the source {path} does not have the column")
    offsets = dataset.offsets
    try:
        return find_column(dataset.location, name, offsets.generation, shards=offsets.shards)
    except WdsctlError as error:
        raise ColumnDropped(f"in {path}, {error.message}") from error


def _check_same_function(columns: Sequence[ColumnFile]) -> None:
    """Raises ColumnDropped if the sources computed the column with different functions, or versions of one."""
    functions = list(dict.fromkeys(column.facts.function for column in columns))
    if len(functions) > 1:
        raise ColumnDropped(f"the sources computed it with different functions: {', '.join(functions)}")
    if len({column.facts.source for column in columns}) > 1:
        raise ColumnDropped(f"the sources computed it with different versions of {functions[0]}")


def _computable_spec(
    name: str, datasets: Iterable[ShardsSource | None], request: ConvertRequest, stream: Stream, *, is_jsonl: bool
) -> ColumnSpec | None:
    """The function that computes a dropped column in the destination; None if there is none."""
    for dataset in datasets:
        generations = list_columns(dataset.location).get(name, []) if dataset is not None else []
        if dataset is None or not generations:
            continue
        column = read_column_or_finding(column_path(dataset.location, name, generations[-1]))
        if isinstance(column, ColumnFile):
            try:
                return _spec_in_destination(column.facts, request, stream, is_jsonl=is_jsonl)
            except ColumnDropped as why:
                return why.spec
    return None


def _spec_in_destination(facts: ColumnFacts, request: ConvertRequest, stream: Stream, *, is_jsonl: bool) -> ColumnSpec:
    spec = parse_column_spec(facts.function)
    if is_jsonl and spec.is_built_in:
        raise ColumnDropped("the column needs lines of the primary, not parts")
    return destination_spec(spec, facts.parts, request, stream)


def destination_spec(
    spec: ColumnSpec, parts: tuple[str, ...] | None, request: ConvertRequest, stream: Stream
) -> ColumnSpec:
    """The function of a column in the destination: the same function, with the new name of its part.

    `parts`: the parts that a Python function declares to read; None if it declares none, and may read any. `stream`:
    the dataset of a polylithic layout that gets the column. Raises ColumnDropped if the source's values are not valid
    in the destination.

    If media move to the media dataset, values of a Python function stay valid. Values of a built-in function do not:
    when the dataset grows, `index` would run the function on the primary, which lacks the part.
    """
    if not spec.is_built_in:
        _check_parts_unchanged(spec, parts, request)
        return spec
    new_names = []
    for old_name in spec.parts:
        new_name = renamed_part_name(request.parts, old_name)
        if new_name is None:
            raise ColumnDropped(f"the destination has no part {old_name}")
        if stream == "primary" and is_separated_part(new_name, request.media):
            raise ColumnDropped(f"the part {old_name} is in the media dataset")
        new_names.append(new_name)
    if stream == "primary" and request.primary == "jsonl":
        raise ColumnDropped("the primary stores parts in its lines")
    names = dict.fromkeys(transcoded_name(name, request.image, request.audio) for name in new_names)
    new_spec = parse_column_spec(":".join((spec.kind, ",".join(names), *([".".join(spec.path)] if spec.path else []))))
    if spec.reads_shards and any(_is_transcoded(name, request) for name in new_names):
        raise ColumnDropped(f"the part {spec.part_or_module} is transcoded", new_spec)
    return new_spec


def _is_transcoded(part: str, request: ConvertRequest) -> bool:
    return any(options is not None and is_selected_part(part, options) for options in (request.image, request.audio))


def _check_parts_unchanged(spec: ColumnSpec, parts: tuple[str, ...] | None, request: ConvertRequest) -> None:
    if request.keeps_parts:
        return
    if parts is None:
        reason = (
            f"{spec.text} may read any part, and some parts change (declare the parts that it reads: "
            f"`{spec.path[-1]}.parts`)"
        )
        raise ColumnDropped(reason, spec)
    new_names = {new for old, new in request.parts.rename if old != new}
    for part in parts:
        if renamed_part_name(request.parts, part) != part or part in new_names or _is_transcoded(part, request):
            raise ColumnDropped(f"{spec.text} reads the part {part}, which changes", spec)


def carry_columns(
    dataset: OpenDataset,
    generation: int,
    carried: Iterable[CarriedColumn],
    origins_of_shard: Callable[[str], SampleOrigins],
    *,
    has_media: bool,
    progress: Progress,
) -> tuple[tuple[str, ...], list[tuple[str, ColumnDropped]]]:
    """Write the columns of one dataset of the destination; returns (names of its columns, dropped columns).

    `origins_of_shard`: path of a shard -> origins of its samples. `has_media`: whether the dataset has media facts.
    Computes columns that do not read shards (`size:`, `media:`) from the catalog. The caller holds the lock.
    Memory: the values of the largest shard.
    """
    location, catalog = dataset.location, dataset.catalog
    offsets = Offsets(location.offsets_path(generation))
    rows, parts = {row.id: row for row in catalog.shards()}, {part.name for part in catalog.parts()}
    names, dropped, computed = [], [], dict[str, str]()
    for column in carried:
        spec = column.spec
        missing = [part for part in spec.parts if part not in parts]
        if missing:
            dropped.append((column.name, ColumnDropped(f"no sample has a part {missing[0]}")))
            continue
        if spec.kind == "media" and not has_media:
            dropped.append((column.name, ColumnDropped(_NO_MEDIA_FACTS, spec)))
            continue
        if spec.reads_shards:
            _write_carried_column(location, offsets, rows, column, origins_of_shard)
        else:
            computed[column.name] = spec.text
        names.append(column.name)
    if names:  # also removes incomplete columns of a killed run
        update_columns(
            dataset,
            generation,
            ColumnRequest(functions=computed),
            workers=1,
            from_scratch=False,
            dry_run=False,
            progress=progress,
        )
    return tuple(names), dropped


def _write_carried_column(
    location: DatasetLocation,
    offsets: Offsets,
    rows: Mapping[int, ShardRow],
    carried: CarriedColumn,
    origins_of_shard: Callable[[str], SampleOrigins],
) -> None:
    first = carried.columns[0].facts
    facts = ColumnFacts(
        name=carried.name,
        function=carried.spec.text,
        source=first.source,
        parts=first.parts,
        generation=offsets.generation,
        shards=digest_shards(offsets.shards),
        zero=any(column.facts.zero for column in carried.columns),
    )

    def column_shards() -> Iterator[ColumnShard]:
        for shard in offsets.shards:
            digest = column_shard_digest(carried.spec, first.source, rows[shard.id])
            values, failed = gather_values(carried.columns, origins_of_shard(shard.path))
            yield ColumnShard(shard.id, digest, failed, values)
        check_lock_held(location.lock)

    write_column(column_path(location, carried.name, offsets.generation), facts, column_shards())


def gather_values(columns: Sequence[ColumnFile], origins: SampleOrigins) -> tuple[Int64Array, int]:
    """(values of the samples with these origins, how many of them may be 0 because the function failed).

    A column stores only the number of failures per shard. In a shard with failures, every 0 counts as one.
    """
    values, failed = np.zeros(len(origins), np.int64), 0
    for number, column in enumerate(columns):
        is_from_source = origins["source"] == number
        indexes = origins["place"][is_from_source]
        values[is_from_source] = found = column.values[indexes]
        if column.facts.failed:
            shards = np.searchsorted(np.cumsum(column.table[:, 1]), indexes, side="right")
            failed += int(np.count_nonzero((found == 0) & (column.table[shards, 2] > 0)))
    return values, failed
