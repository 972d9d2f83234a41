"""A pass covers everything once, in batches that depend on nothing but n and the size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.loader.order.runs import Runs


def lane_by_lane(runs: Runs) -> list[list[list[int]]]:
    return [
        [runs.window(lane, number).positions.tolist() for number in range(runs.windows_of(lane))]
        for lane in range(runs.lanes)
    ]


def the_pass(runs: Runs) -> list[list[int]]:
    """Batches as the world draws them: from the lanes in turn, until the lane whose turn it is has none."""
    lanes = lane_by_lane(runs)
    return [lanes[b % runs.lanes][b // runs.lanes] for b in range(runs.batches)]


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 20), st.booleans())
def test_a_pass_covers_every_position_once_in_order(n: int, size: int, lanes: int, drop_last: bool) -> None:
    runs = Runs(n, size, lanes, drop_last=drop_last)

    covered = [position for batch in the_pass(runs) for position in batch]

    assert covered == list(range(n // size * size if drop_last else n))
    assert sum(runs.windows_of(lane) for lane in range(lanes)) == runs.batches


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 64])
def test_batches_do_not_depend_on_the_lanes(lanes: int) -> None:
    assert the_pass(Runs(100, 8, lanes)) == the_pass(Runs(100, 8, 1))


@pytest.mark.parametrize(("n", "kept", "dropped"), [(0, 0, 0), (1, 1, 0), (31, 1, 0), (32, 1, 1), (33, 2, 1)])
def test_a_short_batch_counts_unless_it_is_dropped(n: int, kept: int, dropped: int) -> None:
    assert Runs(n, 32, 4).batches == kept
    assert Runs(n, 32, 4, drop_last=True).batches == dropped


def test_lanes_may_have_no_batch_at_all() -> None:
    runs = Runs(3, 2, 8)

    assert [runs.windows_of(lane) for lane in range(8)] == [1, 1, 0, 0, 0, 0, 0, 0]


def test_what_a_run_reads_is_one_slice() -> None:
    runs = Runs(10, 4, 2)

    assert runs.slices_of(0, 1).tolist() == [[8, 10]]
    assert runs.slices_of(0, 1).dtype == runs.window(0, 1).positions.dtype == np.int64
    assert runs.window(0, 1).epoch == 0


@pytest.mark.parametrize(("lane", "number"), [(0, 2), (1, 1), (0, -1), (-1, 0), (2, 0)])
def test_there_is_nothing_beyond_the_pass(lane: int, number: int) -> None:
    runs = Runs(10, 4, 2)

    with pytest.raises(IndexError, match="there is no"):
        runs.window(lane, number)
    with pytest.raises(IndexError, match="there is no"):
        runs.slices_of(lane, number)


@pytest.mark.parametrize("lane", [-1, 2])
def test_there_is_no_lane_outside(lane: int) -> None:
    with pytest.raises(IndexError, match=f"there is no lane {lane}: the lanes are 0 to 1"):
        Runs(10, 4, 2).windows_of(lane)


@pytest.mark.parametrize(("n", "size", "lanes"), [(-1, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_pass_that_cannot_be_is_refused(n: int, size: int, lanes: int) -> None:
    with pytest.raises(UsageError, match="a pass needs"):
        Runs(n, size, lanes)
