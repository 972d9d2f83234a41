"""Addresses of what waits, as text: short, whole, and refused where it is damaged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.addresses import read, read_together, waiting_in, written, written_together

PICKS = st.integers(0, 2**50)
SAMPLES = st.one_of(PICKS, st.none(), st.tuples(PICKS, st.integers(0, 9)).map(list), st.lists(PICKS, min_size=2))
PACKS = st.fixed_dictionaries({"of": st.lists(SAMPLES), "step": st.integers(0, 99)})


@given(st.lists(st.one_of(SAMPLES, PACKS)))
def test_items_that_are_written_one_by_one_are_read_together(addresses: list[Any]) -> None:
    text = "".join(map(written, addresses))

    assert read(text) == addresses
    assert read(text + written(7)) == [*addresses, 7]


@given(st.lists(SAMPLES))
def test_samples_that_are_written_at_once_are_read_again(addresses: list[Any]) -> None:
    assert read_together(written_together(addresses)) == addresses


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (0, "A"),
        (1, "I"),
        (5, "oB"),
        ([3, 1], "ZBB"),
        (None, "C"),
        ({"of": [4, 9, 8, [7, 2], None, 100_000], "step": 3}, "bDgBoBEFBCComtY"),
    ],
    ids=str,
)
def test_what_is_written_stays_what_it_is(address: Any, text: str) -> None:
    assert written(address) == text


def test_a_sample_takes_eight_characters_at_most_far_into_a_training() -> None:
    assert len(written(2**37 - 1)) == 8
    assert len(written([2**25, 3])) == 8


def test_neighbours_in_a_pack_take_one_or_two_characters_each() -> None:
    first = 10**11
    pack = [first + offset for offset in (0, 3, 1, 60, 20, 33, 47, 12)]

    assert len(written({"of": pack, "step": 0})) <= 8 + 2 * 9
    assert len(written_together(list(range(first, first + 4000)))) < 4020


@pytest.mark.parametrize(
    "text", ["?", "A?", "A A", "g", "Z", "ZB", "ZCC", "D", "LA", "LAA", "E", "DAD", "gggggggggggggA"]
)
def test_a_text_that_is_damaged_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|ends in the middle"):
        read(text)


def test_what_was_written_one_by_one_was_not_written_together() -> None:
    with pytest.raises(ValueError, match="not written together"):
        read_together(written(4))


def test_what_waits_in_the_stages_of_a_lane_is_found_stage_by_stage() -> None:
    packs = {"of": [9, 0], "until": [20, 0], "carried": written_together([1, [2, 0, 5, 9]]), "packs": 2, "left": 0}
    waiting = written({"of": [3, 4], "step": 1}) + written(6)

    stream = {"of": {"of": packs, "waiting": waiting}, "left": 0}

    assert waiting_in(stream) == [3, 4, 6, 1, [2, 0, 5, 9]]
    assert waiting_in({"of": [5, 0], "left": 0}) == []
