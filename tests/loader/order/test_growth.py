"""GrownOrder: samples before the end of a version do not change, and every version ends with an epoch.

The properties in test_lane_order.py check that every version has whole epochs of its own samples.
"""

from __future__ import annotations

from itertools import islice

import pytest

from tests.loader.order.orders import an_order, items
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.order.growth import GrownOrder, single_lane_order


@pytest.mark.parametrize(("n", "more"), [(23, 40), (2_300, 4_000), (2_300, 30)])
def test_grown_order_keeps_samples_before_end_of_first_version(n: int, more: int) -> None:
    original = an_order(n, 3, 6, lanes=3, turn=2)
    grown = GrownOrder([original, an_order(more, 3, 6, seed=7, lanes=3, turn=2)], [2 * n])

    for lane in range(3):
        before = 2 * n // 3 - 2
        actual = list(islice(items(grown, Lane(lane)), before + 20))
        assert actual[:before] == list(islice(items(original, Lane(lane)), before))
        assert all(number >= 2 and position >= n for number, position in actual[-10:])


def test_passes_of_a_version_follow_those_of_epochs_of_several_passes() -> None:
    grown = GrownOrder([an_order(23, 3, 6, passes=2), an_order(40, 3, 6, passes=2)], [4 * 23])

    assert [version.passes_before for version in grown.versions] == [0, 4]


def test_grown_order_refuses_version_end_within_epoch() -> None:
    order = an_order(23, 3, 6)

    for end in (0, 24):
        with pytest.raises(ValueError, match="no epoch"):
            GrownOrder([order, order], [end])
    with pytest.raises(ValueError, match="no epoch"):
        GrownOrder([an_order(23, 3, 6, passes=-1), order], [23])


def test_single_lane_order_has_samples_of_all_lanes() -> None:
    grown = GrownOrder([an_order(23, lanes=4, turn=5), an_order(31, lanes=4, turn=5)], [46])

    actual = list(islice(items(single_lane_order(grown)), 77))

    assert actual[:23] != actual[23:46]
    assert sorted(actual[46:]) == [(2, 23 + position) for position in range(31)]
