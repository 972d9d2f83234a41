"""UnitUses predicts the uses of cached units, checked by brute force over the windows of the lanes."""

from __future__ import annotations

import numpy as np
import pytest

from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.lanes.next_use import NEVER, UnitUses
from wdsctl.loader.lanes.rank_lanes import Lane, LaneSplit
from wdsctl.loader.order.shuffle import ShuffledOrder


def an_order(n: int = 5003, passes: int = 1, **options: int) -> ShuffledOrder:
    sizes = {"slice_samples": 16, "window_samples": 100, "lanes": 4, "turn_samples": 8, "max_batch_samples": 8}
    return ShuffledOrder(n=n, seed=3, passes=passes, **{**sizes, **options})


def uses_of_windows(order: ShuffledOrder, lanes: list[LaneOrder], draws: int) -> set[tuple[int, int]]:
    """(unit, time) of all windows that begin before this draw of the job, by enumeration."""
    actual = set()
    for lane in lanes:
        number = 0
        while (time := lane.draw_of(number)) < draws:
            window = lane.window(number)
            actual |= {(int(unit), time) for unit in np.unique(window.positions // order.size)}
            number = window.first_number + len(window.positions)
    return actual


@pytest.mark.parametrize("passes", [1, 3, -1])
@pytest.mark.parametrize("n", [5003, 4096])
def test_trace_lists_uses_of_all_windows(n: int, passes: int) -> None:
    order = an_order(n, passes)
    lanes = [LaneOrder(order, Lane(root)) for root in (0, 1, 3)]
    uses = UnitUses(order, lanes)
    epochs = 3

    expected = uses_of_windows(order, lanes, epochs * order.epoch_samples)
    actual = {pair for epoch in range(epochs) for pair in zip(*map(np.ndarray.tolist, uses.trace(epoch)), strict=True)}
    assert actual == expected


def test_next_uses_returns_first_use_after_time() -> None:
    order = an_order()
    lanes = [LaneOrder(order, Lane(root)) for root in range(4)]
    uses = UnitUses(order, lanes)
    trace = sorted(uses_of_windows(order, lanes, 8 * order.epoch_samples), key=lambda each: each[1])
    draw = np.random.default_rng(1)

    for after in draw.integers(-1, 3 * order.epoch_samples, 40).tolist():
        units = draw.integers(0, uses.units, 20)
        expected = [next(time for unit, time in trace if unit == each and time > after) for each in units.tolist()]
        assert uses.next_uses(units, np.full(20, after)).tolist() == expected


def test_next_uses_is_never_for_units_of_other_lanes() -> None:
    order = an_order(100_000)
    uses = UnitUses(order, [LaneOrder(order, Lane(0))])
    actual = uses.next_uses(np.arange(uses.units), np.full(uses.units, -1))

    assert 0 < np.count_nonzero(actual < order.epoch_samples) <= uses.units // 4 + 2
    assert NEVER in actual.tolist()


def test_child_lanes_use_same_units_as_parent() -> None:
    order = an_order(20_000)
    parent = LaneOrder(order, Lane(2))
    taken = 1234
    children = [LaneOrder(order, Lane(2, (LaneSplit(taken, 2, child),)), [taken]) for child in (0, 1)]
    of_parent, of_children = (UnitUses(order, lanes).trace(0)[0] for lanes in ([parent], children))

    assert set(of_parent.tolist()) == set(of_children.tolist())


def test_unit_uses_refuses_order_without_windows() -> None:
    with pytest.raises(ValueError, match="no windows"):
        UnitUses(an_order(200), [])
