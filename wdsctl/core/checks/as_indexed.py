"""Is a shard, header by header, exactly what was indexed? Where it plainly is, there is nothing to find in it.

The catalog says where every header is and what it says, so none has to be looked for: they are gathered, and held
against what is known, all of a shard at once. Whatever is not plain (long names, links, parts of 0 bytes, anything that
differs in a bit) is left to the scan, which tells what it is. Cost: some 0.5 us a member, and reading the headers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from wdsctl.core import tar
from wdsctl.core.offsets import ShardRows, offsets_of
from wdsctl.core.plain_members import Bytes, Ints, sizes_of, sums_hold
from wdsctl.core.storage import LocalStorage
from wdsctl.core.tar import BLOCK

Names = NDArray[np.bytes_]

WINDOW = 128 << 10  # bytes read before the headers are taken out of them: they are in the processor's cache still
GAP = 4 << 10  # bytes between two headers from which on skipping beats reading
MOST_BEHIND = 64 << 10  # bytes of zeros that may stand behind the last member: what tar writers pad with is 10 KiB

_AT_ONCE = 4096  # headers held against the catalog at a time: two megabytes


def is_as_indexed(storage: LocalStorage, path: str, size: int, offsets: str, shard_id: int) -> bool:
    """Whether a scan of this tar of `size` bytes would give the layout that the catalog has, and find nothing wrong.

    To be asked of shards in which nothing was wrong when they were indexed: no key and no part comes twice there.
    False where it cannot be told without a scan. Raises what opening the shard raises.
    """
    known = offsets_of(offsets)
    i = _places(offsets, known.generation).get(shard_id, -1)
    if i < 0 or known.shards[i].size != size or not known.shards[i].samples or len(known.layouts) > BLOCK:
        return False
    rows = known.shard_rows(i, {name: number for number, name in enumerate(known.extensions)})
    data, sizes = rows.part_offsets, rows.part_sizes
    ends = data + sizes + -sizes % BLOCK
    is_plain = data[0] == BLOCK and (data[1:] - BLOCK == ends[:-1]).all() and (sizes > 0).all()
    if not is_plain or not 0 < size - int(ends[-1]) <= MOST_BEHIND:
        return False
    if any(storage.read(path, int(ends[-1]), size - int(ends[-1]))):
        return False
    names = _names(rows, known.extensions)
    return names is not None and _are_all(storage.descriptor(path), data - BLOCK, sizes, names)


@lru_cache(maxsize=2)
def _places(offsets: str, _generation: int) -> dict[int, int]:
    return {shard.id: i for i, shard in enumerate(offsets_of(offsets).shards)}


def _names(rows: ShardRows, parts: Sequence[str]) -> Names | None:
    """The names of all members; None where one of them is one that a scan has something to say about."""
    if not rows.keys.isascii() or b".." in rows.keys or b"//" in rows.keys or b"\\" in rows.keys:
        return None
    ends = np.array([f".{part}".encode() for part in parts])
    lengths = np.repeat(rows.key_sizes, rows.counts) + np.char.str_len(ends)[rows.part_names]
    longest, longest_key = int(lengths.max()), max(1, int(rows.key_sizes.max()))
    if longest > tar.NAME[1]:
        return None
    keys = np.zeros((len(rows.key_sizes), longest_key), np.uint8)
    keys[np.arange(longest_key) < rows.key_sizes[:, None]] = np.frombuffer(rows.keys, np.uint8)
    if (keys[:, 0] == ord("/")).any():
        return None
    of_members = np.repeat(keys.view(f"S{longest_key}").ravel(), rows.counts)
    return np.char.add(of_members, ends[rows.part_names]).astype(f"S{longest}")


def _are_all(handle: int, places: Ints, sizes: Ints, names: Names) -> bool:
    """Whether plain headers of members of these sizes and names are at these places."""
    for at in range(0, len(places), _AT_ONCE):
        some = slice(at, at + _AT_ONCE)
        heads = _heads(handle, places[some])
        if heads is None or not _fit(heads, sizes[some], names[some]):
            return False
    return True


def _heads(handle: int, places: Ints) -> Bytes | None:
    """The blocks of 512 bytes at these places, ascending: (places, 512).

    What lies between is read where that is quicker than stepping over it. None where something cannot be read: the scan
    tells what.
    """
    # A run is read in one go. It ends where the next header is far, and at every border of a window.
    ends = np.flatnonzero((np.diff(places) > GAP) | (np.diff(places // WINDOW) > 0)) + 1
    bounds = np.concatenate(([0], ends, [len(places)]))
    starts = places[bounds[:-1]]
    lengths = places[bounds[1:] - 1] + BLOCK - starts
    into = np.cumsum(lengths) - lengths  # where each run begins in all that is read
    rows = (places + np.repeat(into - starts, np.diff(bounds))) // BLOCK
    windows = np.append(np.flatnonzero(np.diff(into // WINDOW, prepend=-1)), len(into))
    heads = np.empty((len(places), BLOCK), np.uint8)
    for run, then in pairwise(windows.tolist()):
        try:
            # Many reads of little each: no line of Python is run between two of them.
            data = b"".join(map(os.pread, repeat(handle), lengths[run:then].tolist(), starts[run:then].tolist()))
        except OSError:
            return None
        if len(data) != lengths[run:then].sum():
            return None
        some = slice(bounds[run], bounds[then])
        blocks = np.frombuffer(data, np.uint8).reshape(-1, BLOCK)
        # Without a mode, numpy would copy twice, to undo all of it if a row were out of bounds.
        np.take(blocks, rows[some] - into[run] // BLOCK, axis=0, out=heads[some], mode="clip")
    return heads


def _fit(heads: Bytes, sizes: Ints, names: Names) -> bool:
    """Whether these are plain headers of members of these sizes and names."""
    kinds = heads[:, tar.TYPE]
    if not ((kinds == ord("0")) | (kinds == 0)).all() or heads[:, tar.PREFIX[0]].any():
        return False
    longest = names.dtype.itemsize
    found: Names = heads[:, :longest].view(names.dtype).ravel()
    if not (found == names).all() or heads[:, longest : tar.NAME[1]].any():
        return False
    magic = heads[:, tar.MAGIC[0] : tar.MAGIC[0] + 5]
    if not (magic == np.frombuffer(b"ustar", np.uint8)).all():
        return False
    numbers, are_plain = sizes_of(heads)
    return bool(are_plain.all() and (numbers == sizes).all() and sums_hold(heads).all())
