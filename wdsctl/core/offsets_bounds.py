"""Whether what an offsets file says can be: what becomes an address is within its column, or its shard.

Whoever wrote the file wrote its checksums, too. So the header is checked when it is read, a block when it is first used
(some 20 ns a sample), and nothing again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.sample_id import INDEX_BITS

Ints = NDArray[np.int64]

_LAST_SHARD = (1 << 63 - INDEX_BITS) - 1
_LARGEST = 1 << 62  # bytes of a shard: the sum of two such sizes has 64 bits
_IN_CHARACTER = 0x80  # what all bytes of UTF-8 but the first of a character begin with, in the upper two bits


@dataclass(frozen=True, slots=True)
class ShardEntry:
    id: int
    path: str  # relative to the root
    size: int  # bytes
    samples: int
    layout_hash: str


class Columns(NamedTuple):
    """The columns of the file as they are mapped."""

    shard_row: Ints
    key_start: Ints
    keys: NDArray[np.uint8]
    part_offset: Ints
    part_size: Ints
    key_text: memoryview
    layout: NDArray[np.uint32] | None = None
    part_start: Ints | None = None


class Header(NamedTuple):
    """`columns`: name -> (where it begins, dtype, count)."""

    generation: int
    extensions: list[str]
    layouts: list[tuple[str, ...]]
    shards: list[ShardEntry]
    columns: dict[str, tuple[int, str, int]]


def read_header(header: Any, dtypes: Mapping[str, str]) -> Header:
    """The header as values. Raises ValueError, KeyError and TypeError where it says what cannot be."""
    extensions, generation = list(map(_name, header["extensions"])), _count(header["generation"])
    if len(set(extensions)) != len(extensions):
        raise ValueError(extensions)
    layouts = [tuple(extensions[_count(i)] for i in row) for row in header["layouts"]]
    shards = [_shard(*row) for row in header["shards"]]
    columns = {name: (_count(at), dtype, _count(count)) for name, (at, dtype, count) in header["columns"].items()}
    if any(dtype != dtypes[name] for name, (_, dtype, _) in columns.items()):
        raise ValueError(columns)
    return Header(generation, extensions, layouts, shards, columns)


def check_starts(columns: Columns, layout_sizes: Ints, start: int, stop: int) -> bool:
    """Whether keys and parts of the samples [start, stop) are within their columns, and as many as layouts say."""
    if not _ascends(columns.key_start[start : stop + 1], len(columns.keys)):
        return False
    if columns.part_start is None or columns.layout is None:
        return True
    layouts, starts = columns.layout[start:stop], columns.part_start[start : stop + 1]
    if int(layouts.max(initial=0)) >= len(layout_sizes) or not _ascends(starts, len(columns.part_size)):
        return False
    return np.array_equal(np.diff(starts), layout_sizes[layouts])


def check_parts(columns: Columns, layout_sizes: Ints, shard_sizes: Ints, start: int, stop: int) -> bool:
    """Whether the parts of these samples are within their shards, and keys UTF-8. `check_starts` has let them pass."""
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
    return _is_text(columns, start, stop)


def check_column(name: str, column: NDArray[Any], columns: Columns, layouts: int, largest_shard: int) -> bool:
    """Whether a whole column is possible by itself, whatever the others say."""
    if name in ("part_offset", "part_size"):
        return _is_within(column, largest_shard)
    if name == "layout":
        return int(column.max(initial=0)) < max(layouts, 1)
    if name in ("key_start", "part_start"):
        return _ascends(column, len(columns.keys if name == "key_start" else columns.part_size))
    return True


def _ascends(starts: Ints, end: int) -> bool:
    if not len(starts):
        return True
    return int(starts[0]) >= 0 and int(starts[-1]) <= end and bool((starts[1:] >= starts[:-1]).all())


def _is_within(numbers: Ints, most: int) -> bool:
    # As unsigned words, negative numbers are larger than all.
    return int(numbers.view(np.uint64).max(initial=0)) <= most


def _is_text(columns: Columns, start: int, stop: int) -> bool:
    """Whether each of these keys is UTF-8."""
    begin, end = columns.key_start[[start, stop]].tolist()
    if int(columns.keys[begin:end].max(initial=0)) < _IN_CHARACTER:
        return True
    try:
        str(columns.key_text[begin:end], "utf-8")
    except UnicodeDecodeError:
        return False
    starts = columns.key_start[start:stop]
    leads = columns.keys.take(starts[starts < end])
    return bool(((leads & 0xC0) != _IN_CHARACTER).all())


def _shard(number: Any, path: Any, size: Any, samples: Any, layout_hash: Any) -> ShardEntry:
    return ShardEntry(
        id=_count(number, _LAST_SHARD),
        path=_text(path),
        size=_count(size),
        samples=_count(samples, 1 << INDEX_BITS),
        layout_hash=_text(layout_hash),
    )


def _count(number: Any, most: int = _LARGEST) -> int:
    if type(number) is not int or not 0 <= number <= most:
        raise ValueError(number)
    return number


def _text(text: Any) -> str:
    if not isinstance(text, str) or "\0" in text:
        raise ValueError(text)
    return text


def _name(name: Any) -> str:
    """Of a part: it becomes a part of a file's name."""
    if "/" in _text(name):
        raise ValueError(name)
    return str(name)
