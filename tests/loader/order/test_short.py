"""The count of short slices is what walking slot by slot gives, at any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from wdsctl.loader.order.permutation import MOST
from wdsctl.loader.order.short import NO_SHORTS, PERIOD, Shorts, keyed_places, last_place, shorts


def short_slices(first: int, step: int, slices: int, places: NDArray[np.int64], count: int) -> list[int]:
    """The definition: look at every slot."""
    slots = [first + index * step for index in range(count)]
    return [i for i, slot in enumerate(slots) if slot % slices == places[slot // slices % places.size]]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 200), st.integers(2, 60), st.data())
def test_short_slices_are_where_walking_finds_them(first: int, step: int, slices: int, data: st.DataObject) -> None:
    places = np.array(data.draw(st.lists(st.integers(0, slices - 1), min_size=1, max_size=7)))

    walked = short_slices(first, step, slices, places, 1500)
    lying = shorts(first, step, slices, places)

    assert [lying.before(count) for count in range(0, 1501, 3)] == np.searchsorted(walked, range(0, 1501, 3)).tolist()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(2, 30), st.integers(0, 99))
def test_the_slice_of_a_sample_is_where_walking_finds_it(first: int, step: int, slices: int, seed: int) -> None:
    places = keyed_places(slices, seed)
    walked = set(short_slices(first, step, slices, places, 500))
    slice_of = [index for index in range(500) for _ in range(4 if index in walked else 7)]

    lying = shorts(first, step, slices, places)

    assert [lying.slice_of(taken, 7, 3) for taken in range(len(slice_of))] == slice_of


@settings(max_examples=100, deadline=None)
@given(st.integers(0, MOST), st.integers(1, 10**6), st.integers(2, MOST), st.integers(0, 99))
def test_the_count_is_exact_where_64_bits_are_too_few(first: int, step: int, slices: int, seed: int) -> None:
    places = keyed_places(slices, seed)

    lying = shorts(first, step, slices, places)

    assert all(0 <= index < lying.period for index in lying.indices.tolist())
    for index in [
        *lying.indices.tolist()[:5],
        *(index + 10**6 * lying.period for index in lying.indices.tolist()[-5:]),
    ]:
        slot = first + index * step
        assert slot % slices == places[slot // slices % places.size]
        assert lying.before(index + 1) == lying.before(index) + 1
    # The period is the whole one: over all strands of this step together no short slot is left out.
    assert lying.period * step % slices == 0


@pytest.mark.parametrize("slices", [2, 3, 64, PERIOD - 1, PERIOD])
def test_a_small_source_has_its_short_slice_once_at_every_place(slices: int) -> None:
    assert sorted(keyed_places(slices, 4).tolist()) == list(range(slices))


def test_a_large_source_has_as_many_places_as_its_period_unlike_another_seed() -> None:
    one, other = keyed_places(10**9, 1), keyed_places(10**9, 2)

    assert one.size == other.size == PERIOD
    assert set(one.tolist()).isdisjoint(other.tolist())


def test_lanes_meet_equally_many_short_slices() -> None:
    """8 lanes over 64 slices: in 64 passes each lane meets 8, whoever is asked."""
    places = keyed_places(64, 11)

    assert [shorts(lane, 8, 64, places).before(64 * 64 // 8) for lane in range(8)] == [8] * 8


def test_slices_as_they_lie_end_with_the_short_one() -> None:
    assert shorts(0, 1, 5, last_place(5)).before(25) == 5
    assert shorts(4, 5, 5, last_place(5)).before(25) == 25
    assert shorts(3, 5, 5, last_place(5)).before(25) == 0


def test_where_no_slice_is_short_slices_and_samples_count_alike() -> None:
    assert isinstance(NO_SHORTS, Shorts)
    assert NO_SHORTS.before(10**30) == 0
    assert NO_SHORTS.slice_of(16 * 10**30 + 15, 16, 0) == 10**30
