"""Finds samples by their keys: hashes of all keys in order, compiled once beside the offsets file and mapped.

Format, version 2, little-endian. Bytes 0-7 `WDSNAM2\\n`; 8-15 u64, the length of the header; then the header, JSON:
`digest` (of the offsets file that it is for), `samples`, and `columns`: name -> [offset, dtype, count]. Columns begin
at multiples of 64 bytes, and behind them stand checksums by block (`block_sums.py`):

    hashes  u8  samples  FNV-1a of each key, ASCII letters in small, ascending
    rows    u4  samples  the row of the offsets file that has it; ascending where hashes are equal (i8 from 2^32 on)

A lookup is one binary search and a look at the few keys whose hash it is. Letters are hashed in small, so that the same
search tells the names that differ in case alone. FNV-1a: draft-eastlake-fnv (http://www.isthe.com/chongo/tech/comp/fnv).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.block_sums import seal
from wdsctl.core.files import write_whole
from wdsctl.core.mapped_arrays import laid_out, opened
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place, forget_old

MAGIC = b"WDSNAM2\n"
_DTYPES = {"hashes": ("<u8",), "rows": ("<u4", "<i8")}
CHUNK = 1 << 18  # keys that are hashed together

_BASIS, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_SMALL_LETTERS = np.array([byte + 32 if 65 <= byte <= 90 else byte for byte in range(256)], np.uint64)

Hashes = NDArray[np.uint64]
Rows = NDArray[np.integer[Any]]


class Found(NamedTuple):
    """Rows of the offsets file, ascending: those that have the key, and those whose key differs in case alone."""

    rows: tuple[int, ...]
    near: tuple[int, ...]


NOWHERE = Found((), ())


class NameIndex:
    """The keys of one offsets file. A lookup takes some 10 us, whatever the number of samples."""

    def __init__(self, offsets: Offsets, hashes: Hashes, rows: Rows) -> None:
        self._offsets = offsets
        self._hashes = hashes
        self._rows = rows

    def find(self, key: str) -> Found:
        """The samples of this key."""
        wanted = key.encode("utf-8", "surrogatepass")
        number = np.uint64(_hash_one(wanted))
        at = int(np.searchsorted(self._hashes, number))
        same: list[int] = []
        near: list[int] = []
        small = wanted.lower()
        while at < len(self._hashes) and self._hashes[at] == number:
            row = int(self._rows[at])
            columns = self._offsets.checked_range(row, row + 1)
            start, end = columns.key_start[row : row + 2].tolist()
            found = bytes(columns.key_text[start:end])
            if found == wanted:
                same.append(row)
            elif found.lower() == small:
                near.append(row)
            at += 1
        return Found(tuple(same), tuple(near))


def open_name_index(place: Place, offsets: Offsets) -> NameIndex:
    """The index of these offsets: mapped where it has been made, else made now, and kept where that can be written.

    Making it reads all keys: some 0.5 s a million of them, and 12 bytes a sample. Opening it checks all of it: 4 ms a
    million.
    """
    path = os.path.join(place.meta, f"names-{offsets.generation}.bin")
    digest = offsets_digest(offsets)
    columns = _opened(path, digest, offsets.samples)
    if columns is None:
        hashes, rows = keys_by_hash(offsets)
        # A folder that is somebody else's: the index serves this process and those that are forked from it.
        with suppress(OSError):
            _write(path, digest, hashes, rows)
            forget_old(place, "names")
        columns = _opened(path, digest, offsets.samples) or (hashes, rows)
    return NameIndex(offsets, *columns)


def offsets_digest(offsets: Offsets) -> str:
    """Names everything that is where it is in a dataset: shards in order, sizes, layouts. 32 hex digits."""
    facts = [[shard.id, shard.path, shard.size, shard.samples, shard.layout_hash] for shard in offsets.shards]
    return blake2b(json.dumps(facts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _hash_one(key: bytes) -> int:
    value = _BASIS
    for byte in key.lower():  # of bytes, `lower` is ASCII's
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def keys_by_hash(offsets: Offsets) -> tuple[Hashes, Rows]:
    """The hashes of all keys, ascending, and the row of each: some 0.5 s a million, and 24 bytes of memory each."""
    hashes = np.empty(offsets.samples, np.uint64)
    for start in range(0, offsets.samples, CHUNK):
        stop = min(start + CHUNK, offsets.samples)
        hashes[start:stop] = _hash_many(offsets.keys, offsets.key_start[start : stop + 1])
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.uint32 if offsets.samples < 1 << 32 else np.int64)


def _hash_many(text: NDArray[np.uint8], bounds: NDArray[np.int64]) -> Hashes:
    """The hashes of keys that lie one behind the other, a byte of all of them at a time."""
    starts, sizes = bounds[:-1], np.diff(bounds)
    hashes = np.full(len(sizes), _BASIS, np.uint64)
    left = np.arange(len(sizes))
    prime = np.uint64(_PRIME)
    for place in range(int(sizes.max(initial=0))):
        left = left[sizes[left] > place]
        hashes[left] = (hashes[left] ^ _SMALL_LETTERS[text[starts[left] + place]]) * prime
    return hashes


def _write(path: str, digest: str, hashes: Hashes, rows: Rows) -> None:
    columns: dict[str, NDArray[Any]] = {"hashes": hashes, "rows": rows}
    shapes = {name: (column.dtype.newbyteorder("<").str, len(column)) for name, column in columns.items()}
    head, places = laid_out(MAGIC, {"digest": digest, "samples": len(hashes)}, shapes)

    def write(file: Any) -> None:
        file.write(head)
        for name, column in columns.items():
            file.write(b"\0" * (places[name] - file.tell()))
            file.write(column.data)
        seal(file)

    write_whole(path, write)


def _opened(path: str, digest: str, samples: int) -> tuple[Hashes, Rows] | None:
    """The columns of the file; None where it is not there, not whole, or of other offsets: it is made again then."""
    found = opened(path, MAGIC, _DTYPES)
    if found is None or (found.facts.get("digest"), found.facts.get("samples")) != (digest, samples):
        return None
    hashes, rows = found.columns["hashes"], found.columns["rows"]
    is_possible = len(hashes) == len(rows) == samples and int(rows.view(f"u{rows.itemsize}").max(initial=0)) < samples
    return (hashes, rows) if is_possible or not samples else None
