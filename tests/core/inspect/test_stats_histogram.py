from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.inspect.histograms import MAX_EXACT_VALUES, Histogram, bin_edges

NUMBERS = st.lists(st.integers(0, 1 << 50), min_size=1, max_size=60)


def make_histogram(*numbers: float) -> Histogram:
    histogram = Histogram()
    histogram.add(np.array(numbers))
    return histogram


@given(NUMBERS, NUMBERS)
def test_histogram_merge_equals_histogram_of_all_values(one: list[int], other: list[int]) -> None:
    pieces, whole = make_histogram(*one), make_histogram(*one, *other)
    pieces.merge(make_histogram(*other))
    assert (pieces.counts == whole.counts).all()
    assert (pieces.count, pieces.min, pieces.max) == (whole.count, whole.min, whole.max)
    assert pieces.total == pytest.approx(whole.total)


@given(NUMBERS, st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_percentile_of_many_values_is_within_half_a_bin(numbers: list[int], share: float) -> None:
    large = make_histogram(*numbers, *numbers * (MAX_EXACT_VALUES // len(numbers)))
    result = large.percentile(share)
    assert result is not None
    assert not large.is_exact
    assert result == pytest.approx(_at(numbers, share), rel=0.0915, abs=0.001)


@given(NUMBERS, st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_percentile_of_few_values_is_exact(numbers: list[int], share: float) -> None:
    assert make_histogram(*numbers).is_exact
    assert make_histogram(*numbers).percentile(share) == _at(numbers, share)


@given(NUMBERS, st.integers(1, MAX_EXACT_VALUES))
def test_percentiles_increase_from_min_to_max(numbers: list[int], times: int) -> None:
    histogram = make_histogram(*numbers * times)
    result = [histogram.min, *map(histogram.percentile, (0.01, 0.5, 0.99, 1.0)), histogram.max]
    assert all(one is not None and two is not None and one <= two for one, two in pairwise(result))


def test_histogram_merge_beyond_limit_drops_exact_values() -> None:
    one, other = make_histogram(*range(MAX_EXACT_VALUES)), make_histogram(1)
    assert one.is_exact
    one.merge(other)
    assert (one.is_exact, one.count, len(one.exact_values)) == (False, MAX_EXACT_VALUES + 1, 0)


def _at(numbers: list[int], share: float) -> int:
    return sorted(numbers)[max(0, -(-int(share * 100) * len(numbers) // 100) - 1)]


@given(NUMBERS)
def test_histogram_bins_contain_every_value(numbers: list[int]) -> None:
    bins = make_histogram(*numbers).bins()
    assert sum(each.n for each in bins) == len(numbers)
    assert all(any(each.low <= number < each.high for each in bins) for number in numbers)


def test_histogram_bin_starts_exactly_at_its_edge() -> None:
    for i in range(1, 250, 4):
        low, _ = bin_edges(i)
        assert make_histogram(low).bins()[0].low == low


def test_empty_histogram_has_no_statistics() -> None:
    none = make_histogram()
    assert (none.mean, none.percentile(0.5), none.bins(), none.min) == (None, None, (), None)
