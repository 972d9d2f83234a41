"""The unit of work of the search for leaks: what is in the parts of a shard's samples, as hashes of 128 bits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.errors import PermissionDenied, StorageDown, StorageError
from wdsctl.core.offsets import Offsets, offsets_of
from wdsctl.core.shard_index import Ints
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stores import storage_for

TOGETHER = 16 << 20  # bytes that are read in one go
PIECE = 8 << 20  # bytes of a larger part that are read at once
AT_ONCE = 1024  # samples that are read in one go

#: What is told of a sample: 16 bytes of hash, and its row in the offsets file.
RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<i8")])

Records = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class HashUnit:
    """`shard` is an index into those of the offsets file; `places`: which of its samples; `parts`: empty means all."""

    root: str
    offsets: str
    shard: int
    places: Ints
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShardHashes:
    """`records`: of the samples that have something to hash. `broken`: why the shard could not be read."""

    records: Records
    size_bytes: int = 0
    broken: str = ""
    code: str = ""


def run_hash_unit(unit: HashUnit) -> ShardHashes:
    """Hash the parts of these samples of one shard. One that cannot be read says so, and ends nothing."""
    offsets = offsets_of(unit.offsets)
    shard = offsets.shards[unit.shard]
    path = os.path.join(unit.root, shard.path)
    storage = storage_for(unit.root, {path: shard.size})
    try:
        return _hashed(storage, path, offsets, unit)
    except StorageDown:
        raise
    except (StorageError, PermissionDenied) as error:
        return ShardHashes(np.empty(0, RECORD), 0, error.message, error.code)
    finally:
        storage.close()


def wanted_parts(offsets: Offsets, row: int, parts: tuple[str, ...]) -> list[tuple[str, int, int]]:
    """(name, offset, size) of the parts of a sample that count, by name: their order in the tar does not matter."""
    return sorted(part for part in offsets.parts(row) if not parts or part[0] in parts)


def _hashed(storage: Storage, path: str, offsets: Offsets, unit: HashUnit) -> ShardHashes:
    first = int(offsets.shard_row[unit.shard])
    made: list[tuple[int, int, int]] = []
    total = 0
    for batch in _batches(offsets, first, unit):
        small = [Range(path, at, size) for _, parts in batch for _, at, size in parts if size <= PIECE]
        data = iter(storage.read_many(small))
        for row, parts in batch:
            digest = blake2b(digest_size=16)
            for name, at, size in parts:
                digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogatepass"))
                for piece in (next(data),) if size <= PIECE else _pieces(storage, path, at, size):
                    digest.update(piece)
                total += size
            value = digest.digest()
            made.append((int.from_bytes(value[:8], "little"), int.from_bytes(value[8:], "little"), row))
    return ShardHashes(np.array(made, RECORD), total)


def _pieces(storage: Storage, path: str, offset: int, size: int) -> Iterator[bytes]:
    for at in range(0, size, PIECE):
        yield storage.read(path, offset + at, min(PIECE, size - at))


def _batches(offsets: Offsets, first: int, unit: HashUnit) -> Iterator[list[tuple[int, list[tuple[str, int, int]]]]]:
    batch: list[tuple[int, list[tuple[str, int, int]]]] = []
    total = 0
    for row in (first + unit.places).tolist():
        parts = wanted_parts(offsets, row, unit.parts)
        if not any(size for _, _, size in parts):  # nothing is like nothing
            continue
        size = sum(min(size, PIECE) for _, _, size in parts)
        if batch and (total + size > TOGETHER or len(batch) == AT_ONCE):
            yield batch
            batch, total = [], 0
        batch.append((row, parts))
        total += size
    if batch:
        yield batch
