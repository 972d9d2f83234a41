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
    made = Histogram()
    made.add(np.array(numbers))
    return list(made.bins())


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=50))
def test_few_rows_hold_everything(numbers: list[int]) -> None:
    shown = merge_bins(bins_of(numbers), is_integer=True)
    assert sum(row.n for row in shown) == len(numbers)
    assert len(shown) <= MAX_HISTOGRAM_ROWS + 1
    assert [row.low for row in shown] == sorted(row.low for row in shown)


def test_small_whole_numbers_have_rows_of_their_own() -> None:
    shown = [line.split() for line in histogram_lines(bins_of([1, 2, 2, 3]), str, is_integer=True)]
    assert [(line[0], line[-1]) for line in shown] == [("1", "1"), ("2", "2"), ("3", "1")]


def test_a_bar_is_as_long_as_its_share_and_never_invisible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    assert [draw_bar(share, 8) for share in (0, 1e-9, 0.5, 1)] == ["", "▏", "████", "████████"]
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert [draw_bar(share, 8) for share in (0, 1e-9, 0.5, 1)] == ["", "#", "####", "########"]
