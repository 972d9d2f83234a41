"""BatchRanges covers every position once, in batches that depend only on n and the batch size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.loader.order.passes import BatchRanges


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(1, 40), st.booleans())
def test_batch_ranges_cover_every_position_once_in_order(n: int, size: int, drop_last: bool) -> None:
    ranges = BatchRanges(n, size, drop_last=drop_last)

    positions = [position for b in range(ranges.batches) for position in range(*ranges.batch_range(b))]

    assert positions == list(range(n // size * size if drop_last else n))


@pytest.mark.parametrize(("n", "kept", "dropped"), [(0, 0, 0), (1, 1, 0), (31, 1, 0), (32, 1, 1), (33, 2, 1)])
def test_batch_count_includes_short_batch_unless_dropped(n: int, kept: int, dropped: int) -> None:
    assert BatchRanges(n, 32).batches == kept
    assert BatchRanges(n, 32, drop_last=True).batches == dropped


@pytest.mark.parametrize("number", [-1, 3])
def test_batch_range_out_of_pass_raises_index_error(number: int) -> None:
    with pytest.raises(IndexError, match="for a pass of 3"):
        BatchRanges(70, 32).batch_range(number)


@pytest.mark.parametrize(("n", "size"), [(-1, 1), (1, 0)])
def test_batch_ranges_refuses_invalid_arguments(n: int, size: int) -> None:
    with pytest.raises(UsageError):
        BatchRanges(n, size)
