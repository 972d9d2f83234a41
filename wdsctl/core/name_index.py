"""Finds samples by their keys: hashes of all keys in order, compiled once beside the offsets file and mapped.

Format, version 1, little-endian. Bytes 0-7 `WDSNAM1\\n`; 8-15 u64, the length of the header; then the header, JSON:
`digest` (of the offsets file that it is for), `samples`, and `columns`: name -> [offset, dtype, count]. Columns begin
at multiples of 64 bytes:

    hashes  u8  samples  FNV-1a of each key, ASCII letters in small, ascending
    rows    u4  samples  the row of the offsets file that has it; ascending where hashes are equal (i8 from 2^32 on)

A lookup is one binary search and a look at the few keys whose hash it is. Letters are hashed in small, so that the same
search tells the names that differ in case alone. FNV-1a: draft-eastlake-fnv (http://www.isthe.com/chongo/tech/comp/fnv).
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.files import write_whole
from wdsctl.core.offsets import ALIGN, SMALL, Offsets
from wdsctl.core.place import Place

MAGIC = b"WDSNAM1\n"
CHUNK = 1 << 18  # keys that are hashed together

_BASIS, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_SMALL_LETTERS = np.array([byte + 32 if 65 <= byte <= 90 else byte for byte in range(256)], np.uint64)
_COLUMNS = ("hashes", "rows")
_NAMES = re.compile(r"names-(\d+)\.bin")

Hashes = NDArray[np.uint64]
Rows = NDArray[np.integer[Any]]


class Found(NamedTuple):
    """Rows of the offsets file, ascending: those that have the key, and those whose key differs in case alone."""

    rows: tuple[int, ...]
    near: tuple[int, ...]


NOWHERE = Found((), ())


class NameIndex:
    """The keys of one offsets file. Opening costs its header, a lookup some 10 us, whatever the number of samples."""

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
            start, end = self._offsets.key_start[row : row + 2].tolist()
            found = bytes(self._offsets.key_text[start:end])
            if found == wanted:
                same.append(row)
            elif found.lower() == small:
                near.append(row)
            at += 1
        return Found(tuple(same), tuple(near))


def open_name_index(place: Place, offsets: Offsets) -> NameIndex:
    """The index of these offsets: mapped where it has been made, else made now, and kept where that can be written.

    Making it reads all keys: some 0.5 s a million of them, and 12 bytes a sample.
    """
    path = os.path.join(place.meta, f"names-{offsets.generation}.bin")
    digest = offsets_digest(offsets)
    opened = _opened(path, digest, offsets.samples)
    if opened is None:
        hashes, rows = _sorted(offsets)
        # A folder that is somebody else's: the index serves this process and those that are forked from it.
        with suppress(OSError):
            _write(path, digest, hashes, rows)
            _forget_old(place)
        opened = _opened(path, digest, offsets.samples) or (hashes, rows)
    return NameIndex(offsets, *opened)


def offsets_digest(offsets: Offsets) -> str:
    """Names everything that is where it is in a dataset: shards in order, sizes, layouts. 32 hex digits."""
    facts = [[shard.id, shard.path, shard.size, shard.samples, shard.layout_hash] for shard in offsets.shards]
    return blake2b(json.dumps(facts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _hash_one(key: bytes) -> int:
    value = _BASIS
    for byte in key.lower():  # of bytes, `lower` is ASCII's
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def _sorted(offsets: Offsets) -> tuple[Hashes, Rows]:
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
    head, places = _laid_out(digest, [hashes, rows])

    def write(file: Any) -> None:
        file.write(head)
        for column, at in zip((hashes, rows), places, strict=True):
            file.write(b"\0" * (at - file.tell()))
            file.write(column.data)

    write_whole(path, write)


def _laid_out(digest: str, columns: Sequence[NDArray[Any]]) -> tuple[bytes, list[int]]:
    """The first bytes of the file, and where each column begins."""
    length = 0
    while True:
        at, table, places = 16 + length, {}, []
        for name, column in zip(_COLUMNS, columns, strict=True):
            at += -at % ALIGN
            table[name] = [at, column.dtype.newbyteorder("<").str, len(column)]
            places.append(at)
            at += column.nbytes
        text = json.dumps({"digest": digest, "samples": len(columns[0]), "columns": table, "end": at}).encode()
        if len(text) <= length:
            return MAGIC + length.to_bytes(8, "little") + text.ljust(length), places
        length = len(text) + ALIGN


def _opened(path: str, digest: str, samples: int) -> tuple[Hashes, Rows] | None:
    """The columns of the file; None where it is not there, not whole, or of other offsets: it is made again then."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read() if size <= SMALL else mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
        if data[:8] != MAGIC:
            return None
        header = json.loads(data[16 : 16 + int.from_bytes(data[8:16], "little")])
        if header["digest"] != digest or header["samples"] != samples or header["end"] != size:
            return None
        places = [header["columns"][name] for name in _COLUMNS]
        hashes, rows = (np.frombuffer(data, dtype, count, at) for at, dtype, count in places)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return hashes, rows


def _forget_old(place: Place) -> None:
    """Remove the indexes of generations that are gone."""
    for name in os.listdir(place.meta):
        match = _NAMES.fullmatch(name)
        if match and not os.path.exists(place.offsets(int(match[1]))):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(place.meta, name))
