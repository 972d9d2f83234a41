from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.traces import Origin, restore_keys
from wdsctl.core.trace.format import (
    FRAME_HEAD_BYTES,
    NO_ORIGIN,
    TraceBlock,
    decode_block,
    encode_block,
    parse_block_header,
)

NUMBERS = st.integers(-(1 << 62), (1 << 62) - 1)
SMALL = st.integers(0, (1 << 63) - 1)
ORIGINS = st.one_of(st.tuples(SMALL, SMALL, SMALL), st.tuples(SMALL, SMALL, SMALL, SMALL))
BATCHES = st.lists(st.tuples(st.integers(0, 1 << 40), st.lists(ORIGINS, max_size=5)), min_size=1, max_size=8)


def round_trip(batches: list[tuple[int, list[Any]]]) -> TraceBlock:
    """Writes these batches and reads them again."""
    numbers = [number for number, _ in batches]
    data = encode_block(numbers, [len(each) for _, each in batches], [o for _, each in batches for o in each], 0, 0)
    head = parse_block_header(data)
    assert head is not None
    assert (head.low, head.high, head.batches) == (numbers[0], numbers[-1], len(batches))
    block = decode_block(head, data[FRAME_HEAD_BYTES:])
    assert block is not None
    return block


def content(block: TraceBlock) -> list[tuple[int, list[Origin]]]:
    return [
        (number, restore_keys(block.origins[block.origin_starts[i] : block.origin_starts[i + 1]].tolist()))
        for i, number in enumerate(block.batch_numbers.tolist())
    ]


@given(BATCHES)
def test_block_round_trips_batches(batches: list[tuple[int, list[Origin]]]) -> None:
    batches.sort(key=lambda batch: batch[0])
    assert content(round_trip(batches)) == batches


@pytest.mark.parametrize(
    "odd", [None, "key", ("pack", 0, (0, 0, 1)), (1, 2), (1, 2, 3, 4, 5), (0, 0, 1 << 63), (0, 0, "a"), 7]
)
def test_invalid_restore_key_is_kept_as_no_origin(odd: object) -> None:
    assert content(round_trip([(5, [(1, 2, 3), odd])])) == [(5, [(1, 2, 3), NO_ORIGIN])]


def test_piece_is_kept_as_its_sample() -> None:
    pieces = [(1, 2, 3, 0, 100, 140, 140), [1, 2, 3, 4, 0, 100, 140]]

    for others in ([], [(5, 6, 7)], [(5, 6, 7, 8)]):
        assert content(round_trip([(5, [*pieces, *others])])) == [(5, [(1, 2, 3), (1, 2, 3, 4), *others])]


def test_block_without_samples_round_trips() -> None:
    assert content(round_trip([(3, []), (4, [])])) == [(3, []), (4, [])]


def test_changed_byte_is_detected() -> None:
    data = encode_block([7, 8], [1, 1], [(0, 0, 1), (0, 0, 2)], 7, 0)
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        head = parse_block_header(changed)
        assert head is None or decode_block(head, changed[FRAME_HEAD_BYTES:]) is None


def test_body_that_differs_from_its_head_is_refused() -> None:
    data = encode_block([7], [1], [(0, 0, 1)], 7, 0)
    head = parse_block_header(data)
    assert head is not None
    for body in (zlib.compress(b"short"), b"no zlib"):
        assert decode_block(head._replace(length=len(body), crc=zlib.crc32(body)), body) is None


@pytest.mark.parametrize("samples", [1 << 31, (1 << 63) - 1])
def test_block_that_claims_more_than_memory_is_damaged(samples: int) -> None:
    data = encode_block([1], [1], [(0, 0, 1)], 0, 0)
    head = parse_block_header(data)
    assert head is not None
    assert decode_block(head._replace(samples=samples), data[FRAME_HEAD_BYTES:]) is None
