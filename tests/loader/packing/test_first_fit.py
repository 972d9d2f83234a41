"""first_fit equals the textbook algorithm, also with many equal lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from wdsctl.loader.packing.methods import first_fit


def first_fit_reference(lengths: list[int], capacity: int) -> list[int]:
    """The pack of each sample, longest first, of equal ones the earlier, by linear search through all packs."""
    remaining: list[int] = []
    packs = [-1] * len(lengths)
    for place in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        pack = next((i for i, room in enumerate(remaining) if room >= lengths[place]), len(remaining))
        if pack == len(remaining):
            remaining.append(capacity)
        remaining[pack] -= lengths[place]
        packs[place] = pack
    return packs


def int_array(lengths: list[int]) -> NDArray[np.int64]:
    return np.array(lengths, np.int64)


@given(st.integers(1, 120).flatmap(lambda most: st.tuples(st.just(most), st.lists(st.integers(1, most), max_size=90))))
def test_first_fit_equals_reference_on_random_lengths(values: tuple[int, list[int]]) -> None:
    capacity, lengths = values

    assert first_fit(int_array(lengths), capacity).tolist() == first_fit_reference(lengths, capacity)


@given(st.lists(st.sampled_from((1, 2, 7, 30, 31, 60, 99, 100)), max_size=150))
def test_first_fit_equals_reference_on_repeated_lengths(lengths: list[int]) -> None:
    assert first_fit(int_array(lengths), 100).tolist() == first_fit_reference(lengths, 100)


@pytest.mark.parametrize(("mean", "spread"), [(6.0, 1.0), (8.0, 0.3), (3.0, 1.0)])
def test_first_fit_equals_reference_on_thousands_of_lengths(mean: float, spread: float) -> None:
    values = np.random.default_rng(0).lognormal(mean, spread, 3000)
    lengths = np.clip(values.astype(np.int64), 1, 8192)

    assert first_fit(lengths, 8192).tolist() == first_fit_reference(lengths.tolist(), 8192)
