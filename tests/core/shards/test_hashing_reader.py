from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from tests.build import memory_reader
from wdsctl.core.shards.readers import HashingReader


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 80)), max_size=12))
def test_hashing_reader_returns_ranges_and_hash_of_whole_file(data: bytes, ranges: list[tuple[int, int]]) -> None:
    reader = HashingReader(memory_reader(data), len(data), block_bytes=16)
    for start, size in ranges:
        offset = min(start, len(data))
        assert reader.read(offset, min(size, len(data) - offset)) == data[offset : offset + size]
    assert reader.hexdigest() == hashlib.sha256(data).hexdigest()


def test_hashing_reader_reads_every_byte_once_going_forward() -> None:
    data, requests = bytes(range(256)) * 40, []

    def read(offset: int, size: int) -> bytes:
        requests.append((offset, size))
        return data[offset : offset + size]

    reader = HashingReader(read, len(data), block_bytes=512)
    for offset in range(0, len(data) - 64, 700):
        assert reader.read(offset, 64) == data[offset : offset + 64]
    reader.hexdigest()
    assert sum(size for _, size in requests) == len(data)
