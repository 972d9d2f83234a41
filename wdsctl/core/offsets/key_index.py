"""Finds samples by key: the sorted hashes of all keys, written once next to the offsets file, and mapped.

Format, version 1, little-endian. Bytes 0-7 `WDSNAM1\\n`; 8-15 u64, the length of the header; then the header, JSON:
`digest` (of the offsets file that it is for), `samples`, and `columns`: name -> [offset, dtype, count]. Columns begin
at multiples of 64 bytes, followed by checksums by block (`block_checksums.py`):

    hashes  u8  samples  FNV-1a of each key, of ASCII lower case, ascending
    rows    u4  samples  the row of the offsets file that has it; ascending where hashes are equal (i8 from 2^32 on)

A lookup is one binary search and a comparison with the few keys of that hash. Hashes are of lower case, so that the
same search finds names that differ only in case. FNV-1a: draft-eastlake-fnv (http://www.isthe.com/chongo/tech/comp/fnv).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.dataset.location import DatasetLocation, remove_stale_generations
from wdsctl.core.files import write_atomically
from wdsctl.core.offsets.mapped_arrays import open_mapped_arrays, write_arrays
from wdsctl.core.offsets.read import Offsets

KEY_INDEX_MAGIC = b"WDSNAM1\n"
_DTYPES = {"hashes": ("<u8",), "rows": ("<u4", "<i8")}
HASH_CHUNK_KEYS = 1 << 18  # keys that are hashed together

_BASIS, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_SMALL_LETTERS = np.array([byte + 32 if 65 <= byte <= 90 else byte for byte in range(256)], np.uint64)

KeyHashes = NDArray[np.uint64]
OffsetsRows = NDArray[np.integer[Any]]


class KeyMatches(NamedTuple):
    """Rows of the offsets file, ascending: those with the key, and those whose key differs only in case."""

    rows: tuple[int, ...]
    case_variants: tuple[int, ...]


class KeyIndex:
    """The keys of one offsets file. A lookup takes 10 us, whatever the number of samples."""

    def __init__(self, offsets: Offsets, hashes: KeyHashes, rows: OffsetsRows) -> None:
        self._offsets = offsets
        self._hashes = hashes
        self._rows = rows

    def find(self, key: str) -> KeyMatches:
        """The samples with this key."""
        key_bytes = key.encode("utf-8", "surrogatepass")
        number = np.uint64(_hash_key(key_bytes))
        at = int(np.searchsorted(self._hashes, number))
        same: list[int] = []
        near: list[int] = []
        small = key_bytes.lower()
        while at < len(self._hashes) and self._hashes[at] == number:
            row = int(self._rows[at])
            columns = self._offsets.check_range(row, row + 1)
            start, end = columns.key_start[row : row + 2].tolist()
            found = bytes(columns.key_text[start:end])
            if found == key_bytes:
                same.append(row)
            elif found.lower() == small:
                near.append(row)
            at += 1
        return KeyMatches(tuple(same), tuple(near))


def open_key_index(location: DatasetLocation, offsets: Offsets) -> KeyIndex:
    """The key index of these offsets, mapped from its file. Writes the file if it is missing.

    Writing reads all keys: 0.5 s per million, and 12 bytes per sample. Opening checks the whole file: 4 ms per million.
    """
    path = os.path.join(location.meta, f"names-{offsets.generation}.bin")
    digest = offsets_digest(offsets)
    columns = _open_index(path, digest, offsets.samples)
    if columns is None:
        hashes, rows = sort_keys_by_hash(offsets)
        # If the folder is not writable, only this process and its forks use the index.
        with suppress(OSError):
            _write(path, digest, hashes, rows)
            remove_stale_generations(location, "names")
        columns = _open_index(path, digest, offsets.samples) or (hashes, rows)
    return KeyIndex(offsets, *columns)


def offsets_digest(offsets: Offsets) -> str:
    """A digest of shards in order, sizes and layouts. 32 hex digits."""
    facts = [[shard.id, shard.path, shard.size, shard.samples, shard.layout_hash] for shard in offsets.shards]
    return blake2b(json.dumps(facts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _hash_key(key: bytes) -> int:
    value = _BASIS
    for byte in key.lower():  # `bytes.lower` changes only ASCII letters
        value = ((value ^ byte) * _PRIME) & _MASK
    return value


def sort_keys_by_hash(offsets: Offsets) -> tuple[KeyHashes, OffsetsRows]:
    """The hashes of all keys, ascending, and the row of each: 0.5 s and 24 MB per million."""
    hashes = np.empty(offsets.samples, np.uint64)
    for start in range(0, offsets.samples, HASH_CHUNK_KEYS):
        stop = min(start + HASH_CHUNK_KEYS, offsets.samples)
        hashes[start:stop] = _hash_keys(offsets.keys, offsets.key_start[start : stop + 1])
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order.astype(np.uint32 if offsets.samples < 1 << 32 else np.int64)


def _hash_keys(text: NDArray[np.uint8], bounds: NDArray[np.int64]) -> KeyHashes:
    """The hashes of concatenated keys, computed a byte of all keys at a time."""
    starts, sizes = bounds[:-1], np.diff(bounds)
    hashes = np.full(len(sizes), _BASIS, np.uint64)
    left = np.arange(len(sizes))
    prime = np.uint64(_PRIME)
    for location in range(int(sizes.max(initial=0))):
        left = left[sizes[left] > location]
        hashes[left] = (hashes[left] ^ _SMALL_LETTERS[text[starts[left] + location]]) * prime
    return hashes


def _write(path: str, digest: str, hashes: KeyHashes, rows: OffsetsRows) -> None:
    columns: dict[str, NDArray[Any]] = {"hashes": hashes, "rows": rows}
    types = {name: (column.dtype.newbyteorder("<").str, len(column)) for name, column in columns.items()}
    facts = {"digest": digest, "samples": len(hashes)}
    write_atomically(
        path, lambda file: write_arrays(file, KEY_INDEX_MAGIC, facts, types, lambda name: [columns[name].data])
    )


def _open_index(path: str, digest: str, samples: int) -> tuple[KeyHashes, OffsetsRows] | None:
    """The columns of the file; None if it is missing, damaged or for other offsets, so that the caller rewrites it."""
    found = open_mapped_arrays(path, KEY_INDEX_MAGIC, _DTYPES)
    if found is None or (found.facts.get("digest"), found.facts.get("samples")) != (digest, samples):
        return None
    hashes, rows = found.columns["hashes"], found.columns["rows"]
    is_possible = len(hashes) == len(rows) == samples and int(rows.view(f"u{rows.itemsize}").max(initial=0)) < samples
    return (hashes, rows) if is_possible or not samples else None
