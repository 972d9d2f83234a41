"""Reads the values that `--group-by`, `--stratify` and `--by-value` name: one per sample, as a hash of 64 bits.

    json:video_id        a field of the part `json`; json:meta.id for a nested field
    part:cls             the text of a part; part:meta.json[video][id] for a field of a JSON part; part:jpg for the
                         bytes of a picture; part:jpg,png for the first of these parts that a sample has
    key:([^/]+)/         what a regular expression matches in the key: its first group, or the whole match
    column:width         a column of the dataset

Worker processes read the shards, one unit each, and only the parts that hold the values. The result of a unit is a file
named after the shard's content and the value, so that an interrupted command resumes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from wdsctl.core.array_types import Uint64Array
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.columns.column_file import ColumnFile, find_column
from wdsctl.core.errors import DatasetError, PermissionDenied, StorageDown, StorageError, UsageError
from wdsctl.core.job_results import EncodedResult, ResultFolder
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets.read import Offsets, open_cached_offsets
from wdsctl.core.samples.field_path import EVERY_ITEM, PathStep, parse_field_path
from wdsctl.core.shards.read_parts import BLOCK_BYTES, IndexedShard, PartRange, read_blocks, read_parts
from wdsctl.core.split.context import SplitContext
from wdsctl.core.split_rules.names import MAX_SPLITS, can_name_split, split_of_value
from wdsctl.core.urls import is_url

VALUES_FORMAT_VERSION = 2  # of result files; raise it when their content changes
MAX_CACHED_VALUES = 1 << 16  # hashes of values that a unit keeps, unless the texts are needed

_SPEC_HINT = "such as json:video_id, part:cls, part:jpg,png, key:'([^/]+)/' or column:width"

# The value of a part that is no text. With a slash, since it must not name a split.
_BYTES_PREFIX = "bytes/"


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """The location of a value. For kind "part": the parts, of which the first that a sample has counts, and the steps
    into their JSON, none for the whole part. For "key": the `pattern`. For "column": its name.
    """

    text: str
    kind: Literal["part", "key", "column"]
    steps_by_part: Mapping[str, tuple[PathStep, ...]] = field(default_factory=dict)
    pattern: re.Pattern[str] | None = None
    column: str = ""

    @property
    def reads_shards(self) -> bool:
        return self.kind == "part"

    def value_from_key(self, key: str) -> str | None:
        """The match of the pattern in a key."""
        match = self.pattern.search(key) if self.pattern is not None else None
        if match is None:
            return None
        return match[1] if match.re.groups else match[0]

    def value_from_part(self, part: str, data: bytes) -> str | None:
        """The value in a part that is read as a whole; None if it is empty, absent or null, or if a part with steps is
        not JSON.

        1 and "1" are the same value, so that a group is not divided because of how it was written. The value of a whole
        part that is no UTF-8 is a hash of its bytes: pictures are equal if their bytes are.
        """
        steps = self.steps_by_part[part]
        if not steps:
            try:
                return data.decode("utf-8-sig").strip() or None
            except UnicodeDecodeError:
                return _value_from_bytes([data])
        try:
            value = _follow_steps(read_json(data.decode("utf-8-sig")), steps)
            if value is None or isinstance(value, str):
                return value
            return str(value) if type(value) is int else json.dumps(value, sort_keys=True, ensure_ascii=False)
        except (ValueError, LookupError, TypeError):
            return None


def _value_from_bytes(blocks: Iterable[bytes]) -> str:
    digest = blake2b(digest_size=16)
    for block in blocks:
        digest.update(block)
    return _BYTES_PREFIX + digest.hexdigest()


@lru_cache(maxsize=16)
def parse_value_spec(text: str) -> ValueSpec:
    """Parse the name of a value. Raises UsageError if the text is invalid."""
    kind, colon, rest = text.partition(":")
    if not colon or not rest:
        raise UsageError(f"{text!r} is not of the form SOURCE:VALUE", hint=_SPEC_HINT)
    if kind == "json":
        return _parse_json_field(text, rest)
    if kind == "part":
        return _parse_part(text, rest)
    if kind == "key":
        try:
            return ValueSpec(text, "key", pattern=re.compile(rest))
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"invalid regular expression {rest!r}: {error}", hint=_SPEC_HINT) from error
    if kind == "column":
        return ValueSpec(text, "column", column=rest)
    raise UsageError(f"{text!r}: unknown source of values {kind!r}", hint=_SPEC_HINT)


def _parse_json_field(text: str, rest: str) -> ValueSpec:
    if "[" in rest:
        raise UsageError(
            f"{text!r}: write a nested field as json:meta.id",
            hint=f"or part:json[{rest.replace('[', '][').replace(']]', ']')} with each name in brackets",
        )
    names = rest.split(".")
    if not all(names):
        raise UsageError(f"{text!r} has an empty name", hint=_SPEC_HINT)
    return ValueSpec(text, "part", {"json": tuple(names)})


def _parse_part(text: str, rest: str) -> ValueSpec:
    try:
        alternatives = parse_field_path(rest).alternatives
    except DatasetError as error:
        raise UsageError(error.message, hint=error.hint) from error
    if pattern := next((each for each in alternatives if each.is_pattern), None):
        raise UsageError(f"{text!r}: {pattern.part} is not the name of a part", hint=_SPEC_HINT)
    if any(EVERY_ITEM in each.steps for each in alternatives):
        raise UsageError(
            f"{text!r} selects several values of a sample", hint="select one item: write [0] instead of [*]"
        )
    steps_by_part = {each.part.lstrip("."): each.steps for each in alternatives}
    if len(steps_by_part) < len(alternatives):
        raise UsageError(f"{text!r} names a part twice", hint=_SPEC_HINT)
    return ValueSpec(text, "part", steps_by_part)


def _follow_steps(value: Any, steps: tuple[PathStep, ...]) -> Any:
    for step in steps:
        if isinstance(value, list) and step is not EVERY_ITEM:
            value = value[int(step)]
        elif isinstance(value, dict):
            value = value[str(step)]
        else:
            raise LookupError(step)
    return value


@dataclass(frozen=True, slots=True)
class ShardValueHashes:
    """`hashes`: (samples,), 0 for a sample without a value. `texts`: the value of each hash, if requested.

    `error`: why the shard cannot be read.
    """

    hashes: Uint64Array
    texts: dict[int, str]
    error: str = ""


def values_by_shard(
    context: SplitContext,
    spec: str,
    rows: Sequence[ShardRow],
    *,
    with_texts: bool = False,
    as_splits: bool = False,
    keep: bool = False,
) -> Iterator[tuple[ShardRow, ShardValueHashes]]:
    """The values of these shards, in any order.

    `as_splits`: the names of splits that the values are, with their texts; a value that cannot name a split is none.
    Reuses stored values. `keep`: the caller reads the same values again, with
    `shard_hashes`. Raises StorageError if a shard cannot be read, InputError and CatalogError if a column is missing.
    """
    parsed = parse_value_spec(spec)
    if parsed.kind == "column":
        column = find_column(context.location, parsed.column, context.generation, shards=context.offsets.shards)
        for row in rows:
            yield row, _values_from_column(context, column, row, with_texts=with_texts, as_splits=as_splits)
        return
    folder = context.results_folder()
    finished = run_units(
        read_value_hashes,
        [_unit(context, row, spec, with_texts=with_texts, as_splits=as_splits) for row in rows],
        make_executor(context.workers, ("wdsctl.core.split.values",)),
        results=value_results(folder) if folder else None,
        phase="read values",
        progress=context.progress,
        size=lambda unit: UnitSize(1, context.offsets.shards[unit.shard_index].size),
        reads=(context.location.root, context.location.offsets_path(context.generation)),
    )
    with closing(finished):
        for each in finished:
            row, values = rows[each.index], _require_readable(rows[each.index], spec, each.result())
            if keep and not folder:
                context.cached_hashes[spec, row.id] = values.hashes
            yield row, values


def shard_hashes(context: SplitContext, spec: str, row: ShardRow, *, with_texts: bool = False) -> Uint64Array:
    """The values of a shard that `values_by_shard` has read with `keep`."""
    folder = context.results_folder()
    if (spec, row.id) in context.cached_hashes:
        return context.cached_hashes[spec, row.id]
    if folder and parse_value_spec(spec).kind != "column":
        unit = _unit(context, row, spec, with_texts=with_texts)
        return _require_readable(row, spec, value_results(folder).load_or_run(unit, read_value_hashes)).hashes
    [(_, values)] = values_by_shard(context, spec, [row], with_texts=with_texts)
    return values.hashes


def _unit(context: SplitContext, row: ShardRow, spec: str, *, with_texts: bool, as_splits: bool = False) -> ValueUnit:
    path = context.location.offsets_path(context.generation)
    mtime_ns = _current_mtime_ns(context.location.root, row) if parse_value_spec(spec).reads_shards else 0
    return ValueUnit(context.location.root, path, context.offsets_index[row.id], mtime_ns, spec, with_texts, as_splits)


def _current_mtime_ns(root: str, row: ShardRow) -> int:
    """The mtime of the file on the disk, which may have been replaced since it was indexed; at a URL, as indexed."""
    if is_url(root):
        return row.mtime_ns
    try:
        return os.stat(os.path.join(root, row.path)).st_mtime_ns
    except OSError:
        return row.mtime_ns  # reading the shard fails, too, and reports why


def _require_readable(row: ShardRow, spec: str, values: ShardValueHashes) -> ShardValueHashes:
    if values.error:
        raise StorageError(
            f"cannot read {spec} from a shard: {values.error}",
            where=row.path,
            hint="repair the shard, or exclude it from all splits with `--exclude-shard`",
        )
    return values


def _values_from_column(
    context: SplitContext, column: ColumnFile, row: ShardRow, *, with_texts: bool, as_splits: bool
) -> ShardValueHashes:
    missing = int(column.table[context.offsets_index[row.id], 2])
    if missing:
        raise DatasetError(
            f"column {column.facts.name} lacks values for {missing:,} samples of a shard",
            where=row.path,
            hint="compute the column again for these samples, or split by another value",
        )
    first = context.first_row(row)
    numbers, which = np.unique(column.values[first : first + row.samples], return_inverse=True)
    texts = [str(number) for number in numbers.tolist()]
    hashes = np.array([hash_value(text) for text in texts], np.uint64)
    by_hash = dict(zip(hashes.tolist(), texts, strict=True)) if with_texts or as_splits else {}
    return ShardValueHashes(hashes[which], by_hash)


@dataclass(frozen=True, slots=True)
class ValueUnit:
    """The values of one shard: a unit of work. `shard_index`: of the offsets file. `mtime_ns`: of the shard now, 0 for
    values that do not depend on its bytes. See `values_by_shard`.
    """

    root: str
    offsets_path: str
    shard_index: int
    mtime_ns: int
    spec: str
    with_texts: bool = False
    as_splits: bool = False

    @property
    def label(self) -> str:
        """The path of the shard, for messages."""
        return open_cached_offsets(self.offsets_path).shards[self.shard_index].path


def value_results(folder: str) -> ResultFolder[ValueUnit, ShardValueHashes]:
    """Result files, named after the path, size, mtime and layout of the shard."""
    return ResultFolder(folder, _result_name, _encode_values, _decode_values)


def _result_name(unit: ValueUnit) -> str:
    shard = open_cached_offsets(unit.offsets_path).shards[unit.shard_index]
    content = (shard.path, shard.size, unit.mtime_ns, shard.layout_hash)
    form = "splits" if unit.as_splits else unit.with_texts
    facts = (VALUES_FORMAT_VERSION, *content, unit.spec, form)
    return blake2b("\0".join(map(str, facts)).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _encode_values(_unit: ValueUnit, values: ShardValueHashes) -> EncodedResult | None:
    """The encoded values; None for a shard that could not be read, so that the next run tries again."""
    if values.error:
        return None
    return {"texts": list(values.texts.items())}, [values.hashes.astype("<u8").tobytes()]


def _decode_values(unit: ValueUnit, facts: Mapping[str, Any], data: memoryview) -> ShardValueHashes:
    hashes = np.frombuffer(data, "<u8").astype(np.uint64, copy=False)
    if len(hashes) != open_cached_offsets(unit.offsets_path).shards[unit.shard_index].samples:
        raise ValueError(len(hashes))
    return ShardValueHashes(hashes, {int(number): str(text) for number, text in facts["texts"]})


def read_value_hashes(unit: ValueUnit) -> ShardValueHashes:
    """The values of one shard. If it cannot be read, `error` says why.

    Stops after more names of splits than a dataset can have: no memory would hold the texts of all keys of a dataset.
    """
    offsets = open_cached_offsets(unit.offsets_path)
    spec = parse_value_spec(unit.spec)
    first, end = offsets.shard_row[unit.shard_index : unit.shard_index + 2].tolist()
    hashes: Uint64Array = np.zeros(end - first, np.uint64)
    known: dict[str, int] = {}
    has_texts = unit.with_texts or unit.as_splits
    try:
        values = (
            _values_from_parts(unit, offsets, spec)
            if spec.reads_shards
            else ((row, spec.value_from_key(offsets.key(row))) for row in range(first, end))
        )
        for row, text in values:
            value = _split_of_text(text) if unit.as_splits else text
            if value is None:
                continue
            if value not in known:
                if unit.as_splits and len(known) > MAX_SPLITS:
                    break
                if len(known) >= MAX_CACHED_VALUES and not has_texts:
                    known.clear()
                known[value] = hash_value(value)
            hashes[row - first] = known[value]
    except StorageDown:
        raise
    except (StorageError, PermissionDenied) as error:
        return ShardValueHashes(np.zeros(end - first, np.uint64), {}, error.message)
    return ShardValueHashes(hashes, {number: value for value, number in known.items()} if has_texts else {})


def _split_of_text(value: str | None) -> str | None:
    """The split that a value names; None if it cannot name one, as a list in JSON cannot."""
    name = split_of_value(value or "")
    return name if can_name_split(name) and name[0] not in "[{" else None


def hash_value(value: str) -> int:
    """64 bits of a value, never 0. Persisted: the same on every machine and in every version."""
    return int.from_bytes(blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") or 1


def _values_from_parts(unit: ValueUnit, offsets: Offsets, spec: ValueSpec) -> Iterator[tuple[int, str | None]]:
    """(row, value) of the samples that have one of the parts. If a sample has it twice, the first one counts.

    A part that is too large for a text, such as a video, is hashed in blocks.
    """
    with closing(IndexedShard(unit.root, offsets, unit.shard_index)) as shard:
        selection = (
            ((row, part), [part] if part[2] <= BLOCK_BYTES or spec.steps_by_part[part[0]] else [])
            for row in range(shard.first_row, shard.end_row)
            if (part := _find_part(offsets.parts(row), spec.steps_by_part))
        )
        for (row, part), whole in read_parts(shard, selection):
            if whole:
                yield row, spec.value_from_part(part[0], bytes(whole[0]))
            else:
                yield row, _value_from_bytes(read_blocks(shard, part))


def _find_part(parts: Iterable[PartRange], names: Iterable[str]) -> PartRange | None:
    by_name: dict[str, PartRange] = {}
    for part in parts:
        by_name.setdefault(part[0], part)
    return next((by_name[name] for name in names if name in by_name), None)
