"""Is a shard, header by header, exactly what was indexed? Where it plainly is, there is nothing to find in it.

The catalog says where every header is and what it says, so none has to be looked for: they are gathered, and held
against what is known, all of a shard at once. Whatever is not plain (long names, links, parts of 0 bytes, anything that
differs in a bit) is left to the scan, which tells what it is. Cost: some 0.8 us a member, and reading the shard.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wdsctl.core import tar
from wdsctl.core.media.shard_unit import offsets_of
from wdsctl.core.offsets import Offsets
from wdsctl.core.plain_members import Bytes, Ints, sizes_of, sums_hold
from wdsctl.core.storage import LocalStorage
from wdsctl.core.tar import BLOCK

WINDOW = 128 << 10  # bytes read at a time, into memory that is used again: it stays in the processor's cache
GAP = 8 << 10  # bytes between two headers from which on skipping beats reading
MOST_BEHIND = 64 << 10  # bytes of zeros that may stand behind the last member: what tar writers pad with is 10 KiB

_ROWS = 512  # headers compared at a time: they stay in the processor's cache


def is_as_indexed(storage: LocalStorage, path: str, size: int, offsets: str, shard_id: int) -> bool:
    """Whether a scan of this tar of `size` bytes would give the layout that the catalog has, and find nothing wrong.

    To be asked of shards in which nothing was wrong when they were indexed: no key and no part comes twice there.
    False where it cannot be told without a scan. Raises what opening the shard raises.
    """
    known = offsets_of(offsets)
    i = _places(offsets, known.generation).get(shard_id, -1)
    if i < 0 or known.shards[i].size != size or not known.shards[i].samples:
        return False
    rows = slice(int(known.shard_row[i]), int(known.shard_row[i + 1]))
    first = known.first_part(rows.start)
    last = first + int(known.counts(rows).sum(dtype=np.int64))
    data, sizes = known.part_offset[first:last], known.part_size[first:last]
    ends = data + sizes + -sizes % BLOCK
    is_plain = data[0] == BLOCK and (data[1:] - BLOCK == ends[:-1]).all() and (sizes > 0).all()
    if not is_plain or not 0 < size - int(ends[-1]) <= MOST_BEHIND:
        return False
    if any(storage.read(path, int(ends[-1]), size - int(ends[-1]))):
        return False
    names = _names(known, rows)
    if names is None:
        return False
    heads = _heads(storage.descriptor(path), data - BLOCK)
    return heads is not None and all(
        _fit(heads[at : at + _ROWS], sizes[at : at + _ROWS], names[at : at + _ROWS])
        for at in range(0, len(heads), _ROWS)
    )


@lru_cache(maxsize=2)
def _places(offsets: str, _generation: int) -> dict[int, int]:
    return {shard.id: i for i, shard in enumerate(offsets_of(offsets).shards)}


def _names(known: Offsets, rows: slice) -> list[bytes] | None:
    """The names of all members; None where one of them is one that a scan has something to say about."""
    bounds = known.key_start[rows.start : rows.stop + 1].tolist()
    text = bytes(known.key_text[bounds[0] : bounds[-1]])
    if not text.isascii() or b".." in text or b"//" in text or b"\\" in text or len(known.layouts) > BLOCK:
        return None
    if (known.keys[known.key_start[rows.start : rows.stop]] == ord("/")).any():
        return None
    keys = [text[a - bounds[0] : b - bounds[0]] for a, b in pairwise(bounds)]
    layouts = [[f".{part}".encode() for part in layout] for layout in known.layouts]
    if known.layout is None:
        return [key + part for key in keys for part in layouts[0]]
    which = known.layout[rows].tolist()
    return [key + part for key, layout in zip(keys, which, strict=True) for part in layouts[layout]]


def _heads(handle: int, places: Ints) -> Bytes | None:
    """The blocks of 512 bytes at these places, ascending: (places, 512).

    What lies between is read where that is quicker than stepping over it. None where something cannot be read: the scan
    tells what.
    """
    heads = np.empty((len(places), BLOCK), np.uint8)
    memory = np.empty(2 * WINDOW, np.uint8)
    blocks, view = memory.reshape(-1, BLOCK), memoryview(memory.data)
    # A run is read in one go. It ends where the next header is far, and at every border of a window.
    far = np.flatnonzero((np.diff(places) > GAP) | (np.diff(places // WINDOW) > 0)) + 1
    firsts = np.concatenate(([0], far))
    starts = places[firsts]
    lengths = places[np.append(far, len(places)) - 1] + BLOCK - starts
    into = np.empty(len(starts), np.int64)
    used = done = 0
    for run, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        if used + length > len(memory):
            _gather(heads, blocks, places, firsts, starts, into, done, run)
            used, done = 0, run
        if os.preadv(handle, (view[used : used + length],), start) != length:
            return None
        into[run] = used
        used += length
    _gather(heads, blocks, places, firsts, starts, into, done, len(starts))
    return heads


def _gather(
    heads: Bytes, blocks: Bytes, places: Ints, firsts: Ints, starts: Ints, into: Ints, done: int, end: int
) -> None:
    """Take the headers of the runs from `done` to `end` out of what was read."""
    first = int(firsts[done])
    last = int(firsts[end]) if end < len(firsts) else len(places)
    counts = np.diff(np.append(firsts[done:end], last))
    shift = np.repeat(into[done:end] - starts[done:end], counts)
    np.take(blocks, (places[first:last] + shift) // BLOCK, axis=0, out=heads[first:last])


def _fit(heads: Bytes, sizes: Ints, names: Sequence[bytes]) -> bool:
    """Whether these are plain headers of members of these sizes and names."""
    kinds = heads[:, tar.TYPE]
    if not ((kinds == ord("0")) | (kinds == 0)).all() or heads[:, tar.PREFIX[0]].any():
        return False
    found: NDArray[np.bytes_] = np.ascontiguousarray(heads[:, : tar.NAME[1]]).view(f"S{tar.NAME[1]}").ravel()
    if found.tolist() != list(names):
        return False
    magic = heads[:, tar.MAGIC[0] : tar.MAGIC[0] + 5]
    if not (magic == np.frombuffer(b"ustar", np.uint8)).all():
        return False
    numbers, are_plain = sizes_of(heads)
    return bool(are_plain.all() and (numbers == sizes).all() and sums_hold(heads).all())
