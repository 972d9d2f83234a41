"""Checks that the numbers of an offsets file are possible: each address must be within its column or its shard.

Checksums are not enough, as the author of a hostile file can compute them. The header is checked when it is read, and a
block when it is first used (20 ns per sample).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.json_text import checked_count
from wdsctl.core.records import Records
from wdsctl.core.samples.naming import INDEX_BITS

_LAST_SHARD = (1 << 63 - INDEX_BITS) - 1
_LARGEST = 1 << 62  # bytes of a shard: the sum of two such sizes has 64 bits
_UTF8_CONTINUATION = 0x80  # the upper two bits of all bytes of a UTF-8 character but the first


@dataclass(frozen=True, slots=True)
class ShardEntry:
    id: int
    path: str  # relative to the root
    size: int  # bytes
    samples: int
    layout_hash: str


class OffsetsColumns(NamedTuple):
    """The columns of the file, as mapped."""

    shard_row: Int64Array
    key_start: Int64Array
    keys: NDArray[np.uint8]
    part_offset: Int64Array
    part_size: Int64Array
    key_text: memoryview
    layout: NDArray[np.uint32] | None = None
    part_start: Int64Array | None = None


class OffsetsHeader(NamedTuple):
    """`columns`: name -> (offset, dtype, count)."""

    generation: int
    extensions: list[str]
    layouts: list[tuple[str, ...]]
    shards: Sequence[ShardEntry]
    columns: dict[str, tuple[int, str, int]]


def parse_offsets_header(header: Any, dtypes: Mapping[str, str]) -> OffsetsHeader:
    """The header as values. Raises ValueError, KeyError and TypeError for impossible ones."""
    extensions, generation = list(map(_parse_part_name, header["extensions"])), checked_count(header["generation"])
    if len(set(extensions)) != len(extensions):
        raise ValueError(extensions)
    layouts = [tuple(extensions[checked_count(i)] for i in row) for row in header["layouts"]]
    shards = Records(ShardEntry, (_shard(*row) for row in header["shards"]))
    columns = {
        name: (checked_count(at), dtype, checked_count(count)) for name, (at, dtype, count) in header["columns"].items()
    }
    if any(dtype != dtypes[name] for name, (_, dtype, _) in columns.items()):
        raise ValueError(columns)
    return OffsetsHeader(generation, extensions, layouts, shards, columns)


def are_starts_valid(columns: OffsetsColumns, layout_sizes: Int64Array, start: int, stop: int) -> bool:
    """Whether keys and parts of samples [start, stop) are within their columns, with as many parts as layouts state."""
    if not _ascends(columns.key_start[start : stop + 1], len(columns.keys)):
        return False
    if columns.part_start is None or columns.layout is None:
        return True
    layouts, starts = columns.layout[start:stop], columns.part_start[start : stop + 1]
    if int(layouts.max(initial=0)) >= len(layout_sizes) or not _ascends(starts, len(columns.part_size)):
        return False
    return np.array_equal(np.diff(starts), layout_sizes[layouts])


def are_parts_valid(
    columns: OffsetsColumns, layout_sizes: Int64Array, shard_sizes: Int64Array, start: int, stop: int
) -> bool:
    """Whether the parts of these samples are within their shards, and keys are UTF-8. Call `are_starts_valid` first."""
    if start == stop:
        return True
    if columns.part_start is None or columns.layout is None:
        counts: Any = int(layout_sizes[0])
        begin, end = start * counts, stop * counts
    else:
        counts = layout_sizes[columns.layout[start:stop]]
        begin, end = columns.part_start[[start, stop]].tolist()
    offsets, sizes = columns.part_offset[begin:end], columns.part_size[begin:end]
    first, last = (columns.shard_row.searchsorted([start, stop - 1], side="right") - 1).tolist()
    largest = int(shard_sizes[first : last + 1].max())
    if not (_is_within(offsets, largest) and _is_within(sizes, largest)):
        return False
    ends = offsets + sizes
    if int(ends.max(initial=0)) > int(shard_sizes[first : last + 1].min()):
        edges = np.clip(columns.shard_row[first : last + 2], start, stop)
        rows = edges[1:] - edges[:-1]
        if (ends > np.repeat(np.repeat(shard_sizes[first : last + 1], rows), counts)).any():
            return False
    return _are_keys_utf8(columns, start, stop)


def is_column_valid(name: str, column: NDArray[Any], columns: OffsetsColumns, layouts: int, largest_shard: int) -> bool:
    """Whether a whole column is possible by itself."""
    if name in ("part_offset", "part_size"):
        return _is_within(column, largest_shard)
    if name == "layout":
        return int(column.max(initial=0)) < max(layouts, 1)
    if name in ("key_start", "part_start"):
        return _ascends(column, len(columns.keys if name == "key_start" else columns.part_size))
    return True


def _ascends(starts: Int64Array, end: int) -> bool:
    if not len(starts):
        return True
    return int(starts[0]) >= 0 and int(starts[-1]) <= end and bool((starts[1:] >= starts[:-1]).all())


def _is_within(numbers: Int64Array, most: int) -> bool:
    # As unsigned words, negative numbers are larger than all.
    return int(numbers.view(np.uint64).max(initial=0)) <= most


def _are_keys_utf8(columns: OffsetsColumns, start: int, stop: int) -> bool:
    """Whether each of these keys is UTF-8."""
    begin, end = columns.key_start[[start, stop]].tolist()
    if int(columns.keys[begin:end].max(initial=0)) < _UTF8_CONTINUATION:
        return True
    try:
        str(columns.key_text[begin:end], "utf-8")
    except UnicodeDecodeError:
        return False
    starts = columns.key_start[start:stop]
    leads = columns.keys.take(starts[starts < end])
    return bool(((leads & 0xC0) != _UTF8_CONTINUATION).all())


def _shard(number: Any, path: Any, size: Any, samples: Any, layout_hash: Any) -> ShardEntry:
    return ShardEntry(
        id=checked_count(number, _LAST_SHARD),
        path=_text(path),
        size=checked_count(size),
        samples=checked_count(samples, 1 << INDEX_BITS),
        layout_hash=_text(layout_hash),
    )


def _text(text: Any) -> str:
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(text)
    return text


def _parse_part_name(name: Any) -> str:
    """A part name, which becomes part of a file name."""
    if "/" in _text(name):
        raise ValueError(name)
    return str(name)
