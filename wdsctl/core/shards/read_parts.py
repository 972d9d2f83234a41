"""Read parts of the samples of one shard by byte range, many ranges in one request to the storage."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from wdsctl.core.offsets.probe import probes_of
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange, check_probe
from wdsctl.core.tar_header import TAR_BLOCK_BYTES
from wdsctl.core.urls import is_url, redact_secrets

READ_BATCH_BYTES = 16 << 20  # bytes that one batch reads and holds; a larger item is read alone
READ_BATCH_ITEMS = 4096
BLOCK_BYTES = 8 << 20  # of parts that are too large to be read as a whole

ItemT = TypeVar("ItemT")

#: (name, offset in the shard, bytes), as `Offsets.parts` returns it.
PartRange = tuple[str, int, int]


class IndexedShard:
    """A shard listed in an offsets file, opened for reading with `read_parts`. Close it after use.

    Reads fail if the shard's size has changed, or if the first and last part of a tar are not the indexed ones.
    """

    def __init__(self, root: str, offsets: Offsets, shard_index: int) -> None:
        entry = offsets.shards[shard_index]
        self.offsets = offsets
        self.index = shard_index
        self.path = os.path.join(root, entry.path)
        self.relative_path = entry.path
        self.first_row, self.end_row = offsets.shard_row[shard_index : shard_index + 2].tolist()
        self.storage = storage_for(
            root, {self.path: entry.size}, {self.path: lambda _: probes_of(offsets, shard_index)}
        )

    def check_ends(self) -> None:
        """Raise StorageError if a tar at a URL has other ends than the indexed one. On a disk, opening it checks them.

        Cost: two reads of 512 bytes at once.
        """
        if is_url(self.path):
            probes = probes_of(self.offsets, self.index)
            blocks = self.storage.read_many([FileRange(self.path, probe.offset, TAR_BLOCK_BYTES) for probe in probes])
            for probe, block in zip(probes, blocks, strict=True):
                check_probe(redact_secrets(self.path), probe, block)

    def close(self) -> None:
        self.storage.close()


def read_parts(
    shard: IndexedShard, selection: Iterable[tuple[ItemT, Sequence[PartRange]]]
) -> Iterator[tuple[ItemT, list[bytes]]]:
    """Yield each item of `selection` with the bytes of its ranges, each of them a part or a range inside a part.

    Raises StorageError and PermissionDenied.
    """
    shard.check_ends()
    ranges = ((item, [FileRange(shard.path, at, size) for _, at, size in parts]) for item, parts in selection)
    for batch in batch_ranges(ranges):
        read = iter(shard.storage.read_many([each for _, some in batch for each in some]))
        for item, some in batch:
            yield item, [next(read) for _ in some]


def read_blocks(shard: IndexedShard, part: PartRange) -> Iterator[bytes]:
    """Yield the bytes of a part in blocks of `BLOCK_BYTES`. Raises StorageError and PermissionDenied."""
    _, offset, size = part
    for start in range(0, size, BLOCK_BYTES):
        yield shard.storage.read(shard.path, offset + start, min(BLOCK_BYTES, size - start))


def batch_ranges(
    selection: Iterable[tuple[ItemT, Sequence[FileRange]]],
) -> Iterator[list[tuple[ItemT, Sequence[FileRange]]]]:
    """Group items into batches of up to `READ_BATCH_BYTES` and `READ_BATCH_ITEMS`, each read in one request."""
    batch: list[tuple[ItemT, Sequence[FileRange]]] = []
    total = 0
    for item, ranges in selection:
        size = sum(each.size for each in ranges)
        if batch and (total + size > READ_BATCH_BYTES or len(batch) == READ_BATCH_ITEMS):
            yield batch
            batch, total = [], 0
        batch.append((item, ranges))
        total += size
    if batch:
        yield batch
