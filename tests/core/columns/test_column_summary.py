from __future__ import annotations

from itertools import repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.columns import column_file
from wdsctl.core.columns.column_file import ColumnSummary, summarize_values

MOST = (1 << 63) - 1


def expected_summary(values: list[int]) -> ColumnSummary:
    """The summary by definition: a percentile is the smallest value that its share of values does not exceed."""
    ordered = sorted(values)
    percentiles = {
        share: next(v for i, v in enumerate(ordered, 1) if 100 * i >= share * len(ordered)) for share in (50, 99)
    }
    return ColumnSummary(min=ordered[0], p50=percentiles[50], p99=percentiles[99], max=ordered[-1], total=sum(ordered))


@given(st.lists(st.one_of(st.integers(0, 20), st.integers(0, MOST)), min_size=1, max_size=120))
def test_summary_matches_sorted_values(values: list[int]) -> None:
    assert summarize_values(np.array(values, np.int64)) == expected_summary(values)


def test_summary_does_not_depend_on_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 40, 1000)
    monkeypatch.setattr(column_file, "CHUNK_VALUES", 7)
    monkeypatch.setattr(column_file, "BINS", 5)
    assert summarize_values(values) == expected_summary(values.tolist())


def test_summary_total_does_not_overflow() -> None:
    summary = summarize_values(np.array(list(repeat(MOST, 10)), np.int64))
    assert summary is not None
    assert summary.total == 10 * MOST


def test_empty_column_has_no_summary() -> None:
    assert summarize_values(np.empty(0, np.int64)) is None
