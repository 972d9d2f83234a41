"""Hashes the parts of a shard's samples for the search for leaks, with 128 bits a sample: one unit of work a shard.

The hashes are divided by their bits into bucket files: equal hashes share a file, and each file fits into memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import PermissionDenied, StorageDown, StorageError
from wdsctl.core.offsets.read import open_cached_offsets
from wdsctl.core.shards.read_parts import BLOCK_BYTES, IndexedShard, read_blocks, read_parts

MAX_BUCKET_FILES = 256  # open files

#: A sample: 16 bytes of hash, and its row in the offsets file.
HASH_RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<i8")])

HashRecords = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class HashUnit:
    """`shard_index`: of the offsets file; `positions`: of samples in the shard; `parts`: empty means all."""

    root: str
    offsets_path: str
    shard_index: int
    positions: Int64Array
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShardHashes:
    """`records`: of samples with content to hash. `error`: why the shard cannot be read, with its `code`."""

    records: HashRecords
    size_bytes: int = 0
    error: str = ""
    code: str = ""


def run_hash_unit(unit: HashUnit) -> ShardHashes:
    """Hash the parts of these samples of one shard. If it cannot be read, the result says why."""
    with closing(IndexedShard(unit.root, open_cached_offsets(unit.offsets_path), unit.shard_index)) as shard:
        try:
            return _hash_samples(shard, unit)
        except StorageDown:
            raise
        except (StorageError, PermissionDenied) as error:
            return ShardHashes(np.empty(0, HASH_RECORD), 0, error.message, error.code)


def _hash_samples(shard: IndexedShard, unit: HashUnit) -> ShardHashes:
    # (name, offset, size) of each sample's parts, by name: their order in the tar does not matter.
    rows = (
        (row, sorted(part for part in shard.offsets.parts(row) if not unit.parts or part[0] in unit.parts))
        for row in (shard.first_row + unit.positions).tolist()
    )
    selection = (
        ((row, parts), [part for part in parts if part[2] <= BLOCK_BYTES])
        for row, parts in rows
        if any(size for _, _, size in parts)  # empty parts do not count as copies of each other
    )
    records: list[tuple[int, int, int]] = []
    total = 0
    for (row, parts), data in read_parts(shard, selection):
        small = iter(data)
        digest = blake2b(digest_size=16)
        for part in parts:
            name, _, size = part
            digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogatepass"))
            for block in [next(small)] if size <= BLOCK_BYTES else read_blocks(shard, part):
                digest.update(block)
            total += size
        high, low = digest.digest()[:8], digest.digest()[8:]
        records.append((int.from_bytes(high, "little"), int.from_bytes(low, "little"), row))
    return ShardHashes(np.array(records, HASH_RECORD), total)


@contextmanager
def bucket_files(count: int) -> Iterator[list[BinaryIO]]:
    """Temporary files for the hashes, at most MAX_BUCKET_FILES."""
    with tempfile.TemporaryDirectory(prefix="wdsctl-leaks-") as folder, ExitStack() as files:
        paths = [os.path.join(folder, str(i)) for i in range(min(count, MAX_BUCKET_FILES))]
        yield [files.enter_context(open(path, "x+b")) for path in paths]


def write_to_buckets(records: HashRecords, files: Sequence[BinaryIO]) -> None:
    """Write each hash to the file that its first bits name."""
    if len(files) == 1:
        files[0].write(records.tobytes())
        return
    bucket = records["high"] % np.uint64(len(files))
    for i in np.unique(bucket).tolist():
        files[i].write(records[bucket == i].tobytes())
