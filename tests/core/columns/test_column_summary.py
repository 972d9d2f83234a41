from __future__ import annotations

from itertools import repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.columns import column_file
from wdsctl.core.columns.column_file import ColumnSummary, summarize_values

MOST = (1 << 63) - 1


def sorted_out(values: list[int]) -> ColumnSummary:
    """The same, from the definition: a percentile is the least with so many percent at or below it."""
    ordered = sorted(values)
    at = {share: next(v for i, v in enumerate(ordered, 1) if 100 * i >= share * len(ordered)) for share in (50, 99)}
    return ColumnSummary(min=ordered[0], p50=at[50], p99=at[99], max=ordered[-1], total=sum(ordered))


@given(st.lists(st.one_of(st.integers(0, 20), st.integers(0, MOST)), min_size=1, max_size=120))
def test_a_summary_is_what_the_sorted_numbers_say(values: list[int]) -> None:
    assert summarize_values(np.array(values, np.int64)) == sorted_out(values)


def test_it_is_the_same_whatever_is_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 40, 1000)
    monkeypatch.setattr(column_file, "CHUNK_VALUES", 7)
    monkeypatch.setattr(column_file, "BINS", 5)
    assert summarize_values(values) == sorted_out(values.tolist())


def test_totals_do_not_overflow() -> None:
    found = summarize_values(np.array(list(repeat(MOST, 10)), np.int64))
    assert found is not None
    assert found.total == 10 * MOST


def test_nothing_has_no_summary() -> None:
    assert summarize_values(np.empty(0, np.int64)) is None
