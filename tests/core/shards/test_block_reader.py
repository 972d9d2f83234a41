from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.build import a_shard, samples
from wdsctl.core.shards.readers import BlockReader
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.storage.storage import FileRange

MIB = 1 << 20


class InMemoryStorage:
    """A shard in memory that records its reads."""

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


def test_block_reader_reads_small_members_in_few_requests() -> None:
    storage = InMemoryStorage(a_shard(samples(0, 3000, size=3000)))
    reader = BlockReader(storage, "x", len(storage.data), max_fetch_bytes=4 * MIB)

    scan = scan_tar("x", reader.read, len(storage.data))

    assert scan.samples == 3000
    assert sum(size for _, size in storage.reads) <= len(storage.data)
    assert max(size for _, size in storage.reads) <= 4 * MIB
    assert len(storage.reads) <= len(storage.data) // (4 * MIB) + 3


def test_block_reader_skips_data_of_large_members() -> None:
    members = {f"{i}.{part}": data for i in range(5) for part, data in (("mp4", bytes(6 * MIB)), ("txt", b"x"))}
    storage = InMemoryStorage(a_shard(members))
    reader = BlockReader(storage, "x", len(storage.data), max_fetch_bytes=2 * MIB, min_skip_bytes=MIB)

    scan = scan_tar("x", reader.read, len(storage.data))

    assert scan.samples == 5
    assert sum(size for _, size in storage.reads) < 4 * MIB


def test_block_reader_reads_small_shard_in_one_request() -> None:
    storage = InMemoryStorage(a_shard(samples(0, 3)))
    scan_tar("x", BlockReader(storage, "x", len(storage.data)).read, len(storage.data))

    assert storage.reads == [(0, len(storage.data))]


def test_scan_through_block_reader_equals_direct_scan() -> None:
    storage = InMemoryStorage(a_shard(samples(0, 400, size=5000)) + b"after the end".ljust(512))
    reader = BlockReader(storage, "x", len(storage.data), max_fetch_bytes=70_001)

    blockwise = scan_tar("x", reader.read, len(storage.data))
    direct = scan_tar("x", lambda offset, size: storage.data[offset : offset + size], len(storage.data))

    assert blockwise.layout_hash() == direct.layout_hash()
    assert blockwise.findings == direct.findings
