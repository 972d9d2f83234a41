"""Addresses of pending samples as text: they are compact, round-trip, and are refused if damaged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.checkpoint.addresses import (
    decode_addresses,
    decode_sample_list,
    encode_address,
    encode_sample_list,
    pending_addresses,
)

PICKS = st.integers(0, 2**50)
SAMPLES = st.one_of(PICKS, st.none(), st.tuples(PICKS, st.integers(0, 9)).map(list), st.lists(PICKS, min_size=2))
PACKS = st.fixed_dictionaries({"samples": st.lists(SAMPLES), "step": st.integers(0, 99)})


@given(st.lists(st.one_of(SAMPLES, PACKS)))
def test_concatenated_addresses_decode_as_list(addresses: list[Any]) -> None:
    text = "".join(map(encode_address, addresses))

    assert decode_addresses(text) == addresses
    assert decode_addresses(text + encode_address(7)) == [*addresses, 7]


@given(st.lists(SAMPLES))
def test_sample_list_round_trips(addresses: list[Any]) -> None:
    assert decode_sample_list(encode_sample_list(addresses)) == addresses


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (0, "A"),
        (1, "I"),
        (5, "oB"),
        ([3, 1], "ZBB"),
        (None, "C"),
        ({"samples": [4, 9, 8, [7, 2], None, 100_000], "step": 3}, "bDgBoBEFBCComtY"),
    ],
    ids=str,
)
def test_encoding_of_addresses_is_stable(address: Any, text: str) -> None:
    assert encode_address(address) == text


def test_sample_address_takes_at_most_eight_characters() -> None:
    assert len(encode_address(2**37 - 1)) == 8
    assert len(encode_address([2**25, 3])) == 8


def test_neighbours_in_pack_take_one_or_two_characters_each() -> None:
    first = 10**11
    pack = [first + offset for offset in (0, 3, 1, 60, 20, 33, 47, 12)]

    assert len(encode_address({"samples": pack, "step": 0})) <= 8 + 2 * 9
    assert len(encode_sample_list(list(range(first, first + 4000)))) < 4020


@pytest.mark.parametrize(
    "text", ["?", "A?", "A A", "g", "Z", "ZB", "ZCC", "D", "LA", "LAA", "E", "DAD", "gggggggggggggA"]
)
def test_damaged_address_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|ends in the middle"):
        decode_addresses(text)


def test_single_addresses_are_no_sample_list() -> None:
    with pytest.raises(ValueError, match="is not a list of samples"):
        decode_sample_list(encode_address(4))


def test_pending_addresses_lists_all_stages_of_lane() -> None:
    packs = {
        "upstream": [9, 0],
        "until": [20, 0],
        "carried": encode_sample_list([1, [2, 0, 5, 9]]),
        "packs": 2,
        "emitted": 0,
    }
    waiting_text = encode_address({"samples": [3, 4], "step": 1}) + encode_address(6)

    stream = {"upstream": {"upstream": packs, "waiting": waiting_text}, "emitted": 0}

    assert pending_addresses(stream) == [3, 4, 6, 1, [2, 0, 5, 9]]
    assert pending_addresses({"upstream": [5, 0], "emitted": 0}) == []
