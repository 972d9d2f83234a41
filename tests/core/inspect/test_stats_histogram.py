from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.inspect.histograms import MAX_EXACT_VALUES, Histogram, bin_edges

NUMBERS = st.lists(st.integers(0, 1 << 50), min_size=1, max_size=60)


def of(*numbers: float) -> Histogram:
    made = Histogram()
    made.add(np.array(numbers))
    return made


@given(NUMBERS, NUMBERS)
def test_pieces_add_up_to_the_whole(one: list[int], other: list[int]) -> None:
    pieces, whole = of(*one), of(*one, *other)
    pieces.merge(of(*other))
    assert (pieces.counts == whole.counts).all()
    assert (pieces.count, pieces.min, pieces.max) == (whole.count, whole.min, whole.max)
    assert pieces.total == pytest.approx(whole.total)


@given(NUMBERS, st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_a_percentile_is_within_half_a_bin(numbers: list[int], share: float) -> None:
    many = of(*numbers, *numbers * (MAX_EXACT_VALUES // len(numbers)))
    told = many.percentile(share)
    assert told is not None
    assert not many.is_exact
    assert told == pytest.approx(_at(numbers, share), rel=0.0915, abs=0.001)


@given(NUMBERS, st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_a_percentile_of_few_is_one_of_them(numbers: list[int], share: float) -> None:
    assert of(*numbers).is_exact
    assert of(*numbers).percentile(share) == _at(numbers, share)


@given(NUMBERS, st.integers(1, MAX_EXACT_VALUES))
def test_percentiles_rise_from_the_least_to_the_greatest_whether_few_or_many(numbers: list[int], times: int) -> None:
    made = of(*numbers * times)
    told = [made.min, *map(made.percentile, (0.01, 0.5, 0.99, 1.0)), made.max]
    assert all(one is not None and two is not None and one <= two for one, two in pairwise(told))


def test_pieces_that_are_few_are_many_together() -> None:
    one, other = of(*range(MAX_EXACT_VALUES)), of(1)
    assert one.is_exact
    one.merge(other)
    assert (one.is_exact, one.count, len(one.exact_values)) == (False, MAX_EXACT_VALUES + 1, 0)


def _at(numbers: list[int], share: float) -> int:
    return sorted(numbers)[max(0, -(-int(share * 100) * len(numbers) // 100) - 1)]


@given(NUMBERS)
def test_every_number_is_in_its_bin(numbers: list[int]) -> None:
    bins = of(*numbers).bins()
    assert sum(each.n for each in bins) == len(numbers)
    assert all(any(each.low <= number < each.high for each in bins) for number in numbers)


def test_a_bin_begins_exactly_at_its_edge() -> None:
    for i in range(1, 250, 4):
        low, _ = bin_edges(i)
        assert of(low).bins()[0].low == low


def test_nothing_has_no_figures() -> None:
    none = of()
    assert (none.mean, none.percentile(0.5), none.bins(), none.min) == (None, None, (), None)
