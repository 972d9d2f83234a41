"""A changed byte is found when its block is first used, and nothing else is looked at."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.block_sums import BLOCK, BlockSums, seal
from wdsctl.core.errors import CatalogError


def sealed(content: bytes) -> bytearray:
    file = io.BytesIO()
    file.write(content)
    seal(file)
    return bytearray(file.getvalue())


def sums_of(data: bytes | bytearray) -> BlockSums:
    return BlockSums(bytes(data), lambda: CatalogError("damaged", hint="none"))


def noise(size: int) -> bytes:
    return np.random.default_rng(1).bytes(size)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 77])
def test_what_was_sealed_is_sound(size: int) -> None:
    data = sealed(noise(size))

    sums_of(data).check_all()
    assert bytes(data[:size]) == noise(size)
    assert len(data) == -(-size // BLOCK) * (BLOCK + 8)


@given(st.integers(0, 4 * (BLOCK + 8) - 1), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_every_changed_byte_is_found_in_its_block_alone(at: int, change: int) -> None:
    data = sealed(noise(4 * BLOCK - 5))
    data[at] ^= change
    block = at // BLOCK if at < 4 * BLOCK else (at - 4 * BLOCK) // 8
    sums = sums_of(data)

    for other in {0, 1, 2, 3} - {block}:
        sums.check(other * BLOCK, (other + 1) * BLOCK)
    spans = [([0, block * BLOCK], [0, block * BLOCK + 1]), ([0], [4 * BLOCK])]
    for starts, stops in spans:
        with pytest.raises(CatalogError):
            sums.check_spans(np.array(starts), np.array(stops))
    with pytest.raises(CatalogError):
        sums.check(block * BLOCK + 9, block * BLOCK + 10)
    with pytest.raises(CatalogError):
        sums.check_all()


def test_words_that_changed_places_are_found() -> None:
    data = sealed(noise(BLOCK))
    data[0:8], data[8:16] = data[8:16], data[0:8]

    with pytest.raises(CatalogError):
        sums_of(data).check_all()


def test_a_block_is_looked_at_once() -> None:
    data = np.frombuffer(sealed(noise(3 * BLOCK)), np.uint8).copy()
    sums = BlockSums(data, lambda: CatalogError("damaged", hint="none"))
    sums.check(0, BLOCK)
    data[5] ^= 1

    sums.check(0, 10)
    sums.check_spans(np.array([0, 100]), np.array([50, 200]))
    with pytest.raises(CatalogError):
        sums_of(data.tobytes()).check(0, 10)


def test_a_file_that_was_cut_short_is_damaged() -> None:
    with pytest.raises(CatalogError):
        sums_of(sealed(noise(BLOCK))[:-1])


def test_the_sums_are_those_of_every_machine_and_version() -> None:
    data = sealed(bytes(range(256)) * 16)

    assert data[BLOCK:].hex() == GOLDEN


GOLDEN = "30f467089eeb52ea"
