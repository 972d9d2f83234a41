from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.cli.commands.inspect_output import MAX_HISTOGRAM_ROWS, draw_bar, histogram_lines, merge_bins
from wdsctl.core.inspect.histograms import Bin, Histogram


def bins_of(numbers: list[int]) -> list[Bin]:
    histogram = Histogram()
    histogram.add(np.array(numbers))
    return list(histogram.bins())


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=50))
def test_merge_bins_keeps_all_counts_in_few_rows(numbers: list[int]) -> None:
    shown = merge_bins(bins_of(numbers), is_integer=True)
    assert sum(row.n for row in shown) == len(numbers)
    assert len(shown) <= MAX_HISTOGRAM_ROWS + 1
    assert [row.low for row in shown] == sorted(row.low for row in shown)


def test_histogram_lines_have_one_row_per_small_integer() -> None:
    shown = [line.split() for line in histogram_lines(bins_of([1, 2, 2, 3]), str, is_integer=True)]
    assert [(line[0], line[-1]) for line in shown] == [("1", "1"), ("2", "2"), ("3", "1")]


def test_draw_bar_is_proportional_to_share_and_never_invisible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    assert [draw_bar(share, 8) for share in (0, 1e-9, 0.5, 1)] == ["", "▏", "████", "████████"]
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert [draw_bar(share, 8) for share in (0, 1e-9, 0.5, 1)] == ["", "#", "####", "########"]
