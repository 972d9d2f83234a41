"""Read many small ranges of a shard: neighbours with one read, distant ones alone. Also reads tables of offsets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.shards.in_place.errors import damaged
from wdsctl.core.shards.readers import ReadBytes

_MAX_GAP_BYTES = 8 << 10  # bytes; reading so many bytes costs less than another read
_WINDOW_BYTES = 4 << 20

ByteRows = NDArray[np.uint8]


def read_rows(read: ReadBytes, starts: Int64Array, width: int) -> ByteRows:
    """Return the `width` bytes from each of these offsets: (offsets, width). They must be within the shard."""
    if _are_far_apart(starts, width):
        joined = b"".join(map(read, starts.tolist(), repeat(width)))
        return np.frombuffer(joined, np.uint8).reshape(len(starts), width)
    rows = np.empty((len(starts), width), np.uint8)
    columns = np.arange(width)
    for first, stop, base, end in _windows(starts, starts + width):
        data = np.frombuffer(read(base, end - base), np.uint8)
        rows[first:stop] = data[(starts[first:stop] - base)[:, None] + columns]
    return rows


def read_values(read: ReadBytes, starts: Int64Array, sizes: Int64Array) -> Iterator[bytes]:
    """Yield the bytes of each of these ranges, which must be within the shard."""
    if _are_far_apart(starts, int(sizes.max(initial=0))):
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            yield read(start, size) if size else b""
        return
    for first, stop, base, end in _windows(starts, starts + sizes):
        data = read(base, end - base) if end > base else b""
        for start, size in zip((starts[first:stop] - base).tolist(), sizes[first:stop].tolist(), strict=True):
            yield data[start : start + size]


def _are_far_apart(starts: Int64Array, width: int) -> bool:
    """Whether most ranges of this size are so far apart that each is a read of its own."""
    return len(starts) > 1 and int(starts[-1] - starts[0]) > len(starts) * (width + _MAX_GAP_BYTES)


def _windows(starts: Int64Array, ends: Int64Array) -> Iterator[tuple[int, int, int, int]]:
    """Yield (first, stop, offset, end) of each read: ranges [first, stop) are within [offset, end)."""
    if not len(starts):
        return
    is_far = (starts[1:] - ends[:-1] > _MAX_GAP_BYTES) | (starts[1:] < starts[:-1])
    is_next_window = starts[1:] // _WINDOW_BYTES != starts[:-1] // _WINDOW_BYTES
    bounds = [0, *(np.flatnonzero(is_far | is_next_window) + 1).tolist(), len(starts)]
    for first, stop in pairwise(bounds):
        yield first, stop, int(starts[first]), int(ends[first:stop].max())


def read_offset_table(read: ReadBytes, size: int, samples: int | None = None) -> Int64Array:
    """Return the table at the start of a shard of `size` bytes, as in MDS and LitData: (samples + 1,).

    The table is a count, and the offsets of all samples and of the end of the last one, 32 bits each, little-endian.
    `samples`: the number that the index states. Raises ShardFormatError WDS233 if the table does not fit the shard.
    """
    count = int.from_bytes(read(0, 4), "little") if size >= 4 else 0
    table = 4 * (count + 2)
    if size < table or (samples is not None and count != samples):
        stated = "" if samples is None else f", but its index says {samples:,}"
        raise damaged(f"it has {count:,} samples in {size:,} bytes{stated}")
    offsets = np.frombuffer(read(4, table - 4), "<u4").astype(np.int64)
    if offsets[0] < table or (np.diff(offsets) < 0).any() or offsets[-1] > size:
        raise damaged(f"its table of offsets does not fit its {size:,} bytes")
    return offsets


def field_ranges(
    read: ReadBytes, offsets: Int64Array, fixed_sizes: list[int | None]
) -> tuple[list[Int64Array], list[Int64Array]]:
    """Return (offsets, sizes) of each field of all samples.

    A sample begins with the sizes of the fields whose size is not fixed, 32 bits each; then the fields follow. Raises
    ShardFormatError WDS233 if the sizes do not add up to the sample's size.
    """
    starts, sample_sizes = offsets[:-1], np.diff(offsets)
    open_fields = sum(size is None for size in fixed_sizes)
    head = 4 * open_fields
    if (sample_sizes < head).any():
        row = int(np.flatnonzero(sample_sizes < head)[0])
        raise damaged(f"sample {row:,} has {int(sample_sizes[row]):,} bytes, less than the sizes of its fields take")
    stated = read_rows(read, starts, head).view("<u4").astype(np.int64) if open_fields else None
    sizes: list[Int64Array] = []
    at = 0
    for size in fixed_sizes:
        if size is None and stated is not None:
            sizes.append(np.ascontiguousarray(stated[:, at]))
            at += 1
        else:
            sizes.append(np.full(len(starts), size, np.int64))
    ends = starts + head
    places: list[Int64Array] = []
    for each in sizes:
        places.append(ends)
        ends = ends + each
    wrong = np.flatnonzero(ends != offsets[1:])
    if len(wrong):
        row = int(wrong[0])
        raise damaged(
            f"the sizes of the fields of sample {row:,} add up to {int(ends[row] - starts[row]):,} bytes, but it has "
            f"{int(sample_sizes[row]):,}"
        )
    return places, sizes
