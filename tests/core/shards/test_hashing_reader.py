from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from tests.build import reading
from wdsctl.core.shards.readers import HashingReader


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 80)), max_size=12))
def test_every_range_is_as_in_the_file_and_the_hash_is_of_all_of_it(data: bytes, ranges: list[tuple[int, int]]) -> None:
    reader = HashingReader(reading(data), len(data), block_bytes=16)
    for start, size in ranges:
        offset = min(start, len(data))
        assert reader.read(offset, min(size, len(data) - offset)) == data[offset : offset + size]
    assert reader.hexdigest() == hashlib.sha256(data).hexdigest()


def test_going_forward_every_byte_is_read_once() -> None:
    data, asked = bytes(range(256)) * 40, []

    def read(offset: int, size: int) -> bytes:
        asked.append((offset, size))
        return data[offset : offset + size]

    reader = HashingReader(read, len(data), block_bytes=512)
    for offset in range(0, len(data) - 64, 700):
        assert reader.read(offset, 64) == data[offset : offset + 64]
    reader.hexdigest()
    assert sum(size for _, size in asked) == len(data)
