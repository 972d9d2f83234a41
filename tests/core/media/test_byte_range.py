from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import StorageError
from wdsctl.core.media.byte_range import PAGE_BYTES, ByteRangeFile

DATA = bytes(range(251)) * 5000  # some pages, the last one cut


class RecordingReader:
    """Reads from memory and records each read."""

    def __init__(self, data: bytes = DATA) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def __call__(self, offset: int, size: int) -> bytes:
        assert 0 <= offset < offset + size <= len(self.data)
        self.reads.append((offset, size))
        return self.data[offset : offset + size]


@given(
    head=st.integers(0, 2 * PAGE_BYTES),
    moves=st.lists(st.tuples(st.integers(-9, len(DATA) + 9), st.integers(-1, PAGE_BYTES + 9)), max_size=8),
)
def test_byte_range_file_reads_like_bytesio(head: int, moves: list[tuple[int, int]]) -> None:
    actual, expected = ByteRangeFile(RecordingReader(), len(DATA), head=DATA[:head]), io.BytesIO(DATA)
    for to, size in moves:
        assert actual.seek(to) == expected.seek(max(0, to))
        assert actual.read(size) == expected.read(size)
        assert actual.tell() == expected.tell()


def test_byte_range_file_seeks_from_start_position_and_end() -> None:
    part = ByteRangeFile.from_bytes(DATA)

    assert (part.seek(7), part.seek(3, io.SEEK_CUR), part.seek(-2, io.SEEK_END)) == (7, 10, len(DATA) - 2)
    assert part.read() == DATA[-2:]


def test_byte_range_file_fetches_each_page_once_and_never_head() -> None:
    read = RecordingReader()
    part = ByteRangeFile(read, len(DATA), head=DATA[:PAGE_BYTES])
    for at in (0, PAGE_BYTES - 10, 2 * PAGE_BYTES, 5, PAGE_BYTES, 2 * PAGE_BYTES + 7):
        part.seek(at)
        part.read(10)

    assert read.reads == [(2 * PAGE_BYTES, PAGE_BYTES), (PAGE_BYTES, PAGE_BYTES)]


def test_byte_range_file_ends_at_read_limit() -> None:
    part = ByteRangeFile(RecordingReader(), len(DATA), max_read_bytes=2 * PAGE_BYTES)

    assert part.read() == DATA[: 2 * PAGE_BYTES]
    assert part.is_over_limit
    assert part.failure is None
    assert part.seek(0) == 0
    assert part.read(4) == DATA[:4]


def test_byte_range_file_keeps_failure_and_ends() -> None:
    def bad_disk(offset: int, size: int) -> bytes:
        raise StorageError("cannot read: input/output error", hint="look at the disk", where="a.tar")

    part = ByteRangeFile(bad_disk, 100, head=b"head")

    assert part.read() == b"head"
    assert isinstance(part.failure, StorageError)
    assert not part.is_over_limit


@pytest.mark.parametrize("size", [0, 1, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1])
def test_byte_range_file_ends_with_part(size: int) -> None:
    part = ByteRangeFile(RecordingReader(DATA[:size]), size)

    assert part.read() == DATA[:size]
    assert part.read(1) == b""
