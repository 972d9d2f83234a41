from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.build import a_shard, samples
from wdsctl.core.shards.readers import BlockReader
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.storage.storage import FileRange

MIB = 1 << 20


class InMemory:
    """A shard whose reads are noted."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def size(self, path: str) -> int:
        return len(self.data)

    def exists(self, path: str) -> bool:
        return True

    def root_of(self, path: str) -> str:
        return ""

    def read(self, path: str, offset: int, size: int) -> bytes:
        assert 0 <= offset <= offset + size <= len(self.data)
        self.reads.append((offset, size))
        return self.data[offset : offset + size]

    def read_into(self, path: str, offset: int, memory: memoryview) -> None:
        memory[:] = self.read(path, offset, len(memory))

    def read_many(self, ranges: Sequence[FileRange]) -> list[bytes]:
        return [self.read(*each) for each in ranges]

    def will_need(self, ranges: Iterable[FileRange]) -> None: ...

    def close(self) -> None: ...


def test_a_shard_of_small_members_is_read_once_in_few_requests() -> None:
    storage = InMemory(a_shard(samples(0, 3000, size=3000)))
    reader = BlockReader(storage, "x", len(storage.data), max_fetch_bytes=4 * MIB)

    scan = scan_tar("x", reader.read, len(storage.data))

    assert scan.samples == 3000
    assert sum(size for _, size in storage.reads) <= len(storage.data)
    assert max(size for _, size in storage.reads) <= 4 * MIB
    assert len(storage.reads) <= len(storage.data) // (4 * MIB) + 3


def test_the_data_of_large_members_is_skipped() -> None:
    members = {f"{i}.{part}": data for i in range(5) for part, data in (("mp4", bytes(6 * MIB)), ("txt", b"x"))}
    storage = InMemory(a_shard(members))
    reader = BlockReader(storage, "x", len(storage.data), max_fetch_bytes=2 * MIB, min_skip_bytes=MIB)

    scan = scan_tar("x", reader.read, len(storage.data))

    assert scan.samples == 5
    assert sum(size for _, size in storage.reads) < 4 * MIB


def test_a_small_shard_is_fetched_once() -> None:
    storage = InMemory(a_shard(samples(0, 3)))
    scan_tar("x", BlockReader(storage, "x", len(storage.data)).read, len(storage.data))

    assert storage.reads == [(0, len(storage.data))]


def test_a_scan_through_blocks_is_the_scan_without() -> None:
    storage = InMemory(a_shard(samples(0, 400, size=5000)) + b"after the end".ljust(512))
    reader = BlockReader(storage, "x", len(storage.data), max_fetch_bytes=70_001)

    through = scan_tar("x", reader.read, len(storage.data))
    without = scan_tar("x", lambda offset, size: storage.data[offset : offset + size], len(storage.data))

    assert through.layout_hash() == without.layout_hash()
    assert through.findings == without.findings
