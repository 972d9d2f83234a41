from __future__ import annotations

import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.build import memory_reader
from wdsctl.core.errors import StorageError
from wdsctl.core.shards.jsonl_scan import find_newlines, iter_newline_blocks


@given(st.binary(max_size=300).map(lambda data: data.replace(b"z", b"\n")))
@example(b"\n\n" + b"x" * 30 + b"\n")
@example(b"\n")
def test_find_newlines_returns_all_offsets(data: bytes) -> None:
    assert find_newlines(data).tolist() == [i for i, letter in enumerate(data) if letter == 10]


@given(st.binary(max_size=200), st.integers(0, 20), st.integers(1, 30), st.integers(1, 4))
def test_newline_blocks_are_in_file_order_for_any_threads(data: bytes, start: int, block: int, threads: int) -> None:
    blocks = list(iter_newline_blocks(memory_reader(data), start, len(data), block_bytes=block, threads=threads))
    assert b"".join(each.data for each in blocks) == data[start:]
    assert [each.base for each in blocks] == list(range(start, len(data), block))
    assert all(each.newlines.tolist() == find_newlines(each.data).tolist() for each in blocks)


@pytest.mark.parametrize("threads", [1, 3])
def test_read_error_is_raised_at_its_block(threads: int) -> None:
    def read(offset: int, size: int) -> bytes:
        if offset >= 20:
            raise StorageError("gone", where="a.jsonl", hint="bring it back", code="WDS404")
        return b"x" * size

    blocks = iter_newline_blocks(read, 0, 100, block_bytes=10, threads=threads)
    assert [next(blocks).base, next(blocks).base] == [0, 10]
    with pytest.raises(StorageError, match="gone"):
        next(blocks)


def test_newline_blocks_read_ahead_few_blocks_and_leave_no_thread() -> None:
    offsets: list[int] = []

    def read(offset: int, size: int) -> bytes:
        offsets.append(offset)
        return b"x" * size

    blocks = iter_newline_blocks(read, 0, 1000, block_bytes=1, threads=2)
    next(blocks)
    blocks.close()
    assert len(offsets) <= 5
    assert not [each for each in threading.enumerate() if each.name.startswith("wdsctl-lines")]
