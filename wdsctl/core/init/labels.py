"""The classes of a dataset: the different values of one field, over all samples."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import DatasetError
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.media.kinds import EXTENSIONS_BY_KIND
from wdsctl.core.offsets.read import open_cached_offsets
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.field_path import FieldPath, parse_field_path
from wdsctl.core.samples.fields import extract_field
from wdsctl.core.samples.types import SAMPLE_TYPES
from wdsctl.core.shards.read_parts import IndexedShard, read_parts
from wdsctl.core.text import short_repr

#: More different values are no classes: a field that says something else of every sample.
MAX_CLASSES = 50_000

Label = int | str


class Classes(NamedTuple):
    """`values`: numbers in ascending order, then names. `unlabelled`: samples without the field."""

    values: tuple[Label, ...]
    unlabelled: int


@dataclass(frozen=True, slots=True)
class LabelUnit:
    """The labels of one shard: a unit of work. `shard`: an index into the shards of the offsets file."""

    root: str
    offsets_path: str
    shard: int
    field: str
    path: str
    is_integer: bool


@dataclass(frozen=True, slots=True)
class ShardLabels:
    values: frozenset[Label]
    unlabelled: int


def read_classes(
    location: DatasetLocation,
    generation: int,
    config: DatasetConfig,
    field: str,
    *,
    workers: int = 1,
    progress: Progress = SILENT_PROGRESS,
) -> Classes:
    """The classes in a field, which holds a label or a list of labels.

    Reads the part of the field in every sample. Raises DatasetError WDS224 for labels that are neither numbers nor
    names, StorageError if a shard cannot be read.
    """
    path = location.offsets_path(generation)
    offsets = open_cached_offsets(path)
    kinds = {each.name: each.kind for each in SAMPLE_TYPES[config.sample_type]}
    source = config.field_map[field]
    units = [
        LabelUnit(location.root, path, i, field, source, kinds[field] == "integer")
        for i, shard in enumerate(offsets.shards)
        if shard.samples
    ]
    values: set[Label] = set()
    unlabelled = 0
    finished = run_units(
        read_shard_labels,
        units,
        make_executor(workers, ("wdsctl.core.init.labels",)),
        phase="read labels",
        progress=progress,
        size=lambda unit: UnitSize(1, offsets.shards[unit.shard].size),
        reads=(location.root, path),
    )
    with closing(finished):
        for each in finished:
            labels = each.result()
            values |= labels.values
            unlabelled += labels.unlabelled
            _check_number(values, field, location.display_path)
    numbers = sorted(value for value in values if isinstance(value, int))
    return Classes((*numbers, *sorted(value for value in values if isinstance(value, str))), unlabelled)


def read_shard_labels(unit: LabelUnit) -> ShardLabels:
    """The labels of one shard."""
    offsets = open_cached_offsets(unit.offsets_path)
    path = parse_field_path(unit.path)
    needed = {access.part for access in path.alternatives}
    values: set[Label] = set()
    unlabelled = 0
    with closing(IndexedShard(unit.root, offsets, unit.shard)) as shard:
        rows = range(shard.first_row, shard.end_row)
        selected = ((row, [part for part in offsets.parts(row) if part[0] in needed]) for row in rows)
        for (row, parts), data in read_parts(shard, (((row, parts), parts) for row, parts in selected)):
            found = {name: content for (name, _, _), content in zip(parts, data, strict=True)}
            labels = _labels_in(path, found, unit, f"{shard.relative_path}, sample {offsets.key(row)}")
            if labels is None:
                unlabelled += 1
            else:
                values.update(labels)
                _check_number(values, unit.field, shard.relative_path)
    return ShardLabels(frozenset(values), unlabelled)


def _labels_in(path: FieldPath, parts: dict[str, bytes], unit: LabelUnit, where: str) -> Iterable[Label] | None:
    """The labels of a sample, as the loader hands them out; None if it has no label."""
    value = extract_field(path, parts, kind="integer" if unit.is_integer else "any", default=None)
    if value is None:
        return None
    if isinstance(value, bytes):
        part = next(access.part for access in path.alternatives if access.part in parts)
        try:
            if unit.is_integer or part.rpartition(".")[2].lower() in EXTENSIONS_BY_KIND["integer"]:
                return [int(value)]
            return [value.decode()]
        except ValueError as error:
            raise _label_error(unit.field, short_repr(value), where) from error
    labels = value if isinstance(value, list) else [value]
    for label in labels:
        if not isinstance(label, int | str):
            raise _label_error(unit.field, short_repr(label), where)
    return [int(label) if isinstance(label, int) else label for label in labels]


def _check_number(values: set[Label], field: str, where: str) -> None:
    if len(values) > MAX_CLASSES:
        raise DatasetError(
            f"no training script fits: the field {field} has more than {MAX_CLASSES:,} different values",
            where=where,
            hint=f"map `{field}` to the part that contains the class",
            code="WDS224",
        )


def _label_error(field: str, found: str, where: str) -> DatasetError:
    return DatasetError(
        f"no training script fits: {field}: expected a number or a name, found {found}",
        where=where,
        hint=f"map `{field}` to the part that contains the class, such as `{field}: json[class]`",
        code="WDS224",
    )
