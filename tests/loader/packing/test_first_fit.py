"""First fit is the textbook's, sample by sample, however many lengths are alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wdsctl.loader.packing.methods import first_fit


def searched(lengths: list[int], capacity: int) -> list[int]:
    """The pack of each sample: longest first, of equal ones the earlier, each looks through all packs."""
    left: list[int] = []
    found = [-1] * len(lengths)
    for place in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        pack = next((i for i, room in enumerate(left) if room >= lengths[place]), len(left))
        if pack == len(left):
            left.append(capacity)
        left[pack] -= lengths[place]
        found[place] = pack
    return found


def ints(lengths: list[int]) -> NDArray[np.int64]:
    return np.array(lengths, np.int64)


@given(st.integers(1, 120).flatmap(lambda most: st.tuples(st.just(most), st.lists(st.integers(1, most), max_size=90))))
def test_every_sample_is_in_the_first_pack_that_had_room(drawn: tuple[int, list[int]]) -> None:
    capacity, lengths = drawn

    assert first_fit(ints(lengths), capacity).tolist() == searched(lengths, capacity)


@given(st.lists(st.sampled_from((1, 2, 7, 30, 31, 60, 99, 100)), max_size=150))
def test_samples_of_few_lengths_are_placed_as_if_one_by_one(lengths: list[int]) -> None:
    assert first_fit(ints(lengths), 100).tolist() == searched(lengths, 100)


@pytest.mark.parametrize(("mean", "spread"), [(6.0, 1.0), (8.0, 0.3), (3.0, 1.0)])
def test_thousands_of_lengths_are_placed_as_the_textbook_places_them(mean: float, spread: float) -> None:
    drawn = np.random.default_rng(0).lognormal(mean, spread, 3000)
    lengths = np.clip(drawn.astype(np.int64), 1, 8192)

    assert first_fit(lengths, 8192).tolist() == searched(lengths.tolist(), 8192)
