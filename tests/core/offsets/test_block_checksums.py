"""BlockChecksums finds a changed byte when its block is first used, and checks no other block."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.errors import CatalogError
from wdsctl.core.offsets.block_checksums import CHECKSUM_BLOCK_BYTES, BlockChecksums, append_checksums


def seal(content: bytes) -> bytearray:
    file = io.BytesIO()
    file.write(content)
    append_checksums(file)
    return bytearray(file.getvalue())


def open_checksums(data: bytes | bytearray) -> BlockChecksums:
    return BlockChecksums(bytes(data), lambda: CatalogError("damaged", hint="none"))


def noise(size: int) -> bytes:
    return np.random.default_rng(1).bytes(size)


@pytest.mark.parametrize(
    "size",
    [0, 1, CHECKSUM_BLOCK_BYTES - 1, CHECKSUM_BLOCK_BYTES, CHECKSUM_BLOCK_BYTES + 1, 5 * CHECKSUM_BLOCK_BYTES + 77],
)
def test_appended_checksums_are_valid(size: int) -> None:
    data = seal(noise(size))

    open_checksums(data).check_all()
    assert bytes(data[:size]) == noise(size)
    assert len(data) == -(-size // CHECKSUM_BLOCK_BYTES) * (CHECKSUM_BLOCK_BYTES + 8)


@given(st.integers(0, 4 * (CHECKSUM_BLOCK_BYTES + 8) - 1), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_changed_byte_is_found_only_in_its_block(at: int, change: int) -> None:
    data = seal(noise(4 * CHECKSUM_BLOCK_BYTES - 5))
    data[at] ^= change
    block = at // CHECKSUM_BLOCK_BYTES if at < 4 * CHECKSUM_BLOCK_BYTES else (at - 4 * CHECKSUM_BLOCK_BYTES) // 8
    sums = open_checksums(data)

    for other in {0, 1, 2, 3} - {block}:
        sums.check(other * CHECKSUM_BLOCK_BYTES, (other + 1) * CHECKSUM_BLOCK_BYTES)
    spans = [
        ([0, block * CHECKSUM_BLOCK_BYTES], [0, block * CHECKSUM_BLOCK_BYTES + 1]),
        ([0], [4 * CHECKSUM_BLOCK_BYTES]),
    ]
    for starts, stops in spans:
        with pytest.raises(CatalogError):
            sums.check_spans(np.array(starts), np.array(stops))
    with pytest.raises(CatalogError):
        sums.check(block * CHECKSUM_BLOCK_BYTES + 9, block * CHECKSUM_BLOCK_BYTES + 10)
    with pytest.raises(CatalogError):
        sums.check_all()


def test_swapped_words_are_found() -> None:
    data = seal(noise(CHECKSUM_BLOCK_BYTES))
    data[0:8], data[8:16] = data[8:16], data[0:8]

    with pytest.raises(CatalogError):
        open_checksums(data).check_all()


def test_block_is_checked_once() -> None:
    data = np.frombuffer(seal(noise(3 * CHECKSUM_BLOCK_BYTES)), np.uint8).copy()
    sums = BlockChecksums(data, lambda: CatalogError("damaged", hint="none"))
    sums.check(0, CHECKSUM_BLOCK_BYTES)
    data[5] ^= 1

    sums.check(0, 10)
    sums.check_spans(np.array([0, 100]), np.array([50, 200]))
    with pytest.raises(CatalogError):
        open_checksums(data.tobytes()).check(0, 10)


def test_truncated_file_is_damaged() -> None:
    with pytest.raises(CatalogError):
        open_checksums(seal(noise(CHECKSUM_BLOCK_BYTES))[:-1])


def test_checksums_equal_golden_value() -> None:
    data = seal(bytes(range(256)) * 16)

    assert data[CHECKSUM_BLOCK_BYTES:].hex() == GOLDEN


GOLDEN = "30f467089eeb52ea"
