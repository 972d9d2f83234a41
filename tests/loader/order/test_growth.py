"""Orders one after the other: what was before an era ended is what it was, and every era ends with an epoch.

That every era has whole epochs of its own samples is held by the properties in test_lane_order.py.
"""

from __future__ import annotations

from itertools import islice

import pytest

from tests.loader.order.orders import an_order, items
from wdsctl.loader.order.growth import GrownOrder, single_lane_order
from wdsctl.loader.order.rank_lanes import Lane


@pytest.mark.parametrize(("n", "more"), [(23, 40), (2_300, 4_000), (2_300, 30)])
def test_what_was_before_an_era_ended_is_what_it_was(n: int, more: int) -> None:
    alone = an_order(n, 3, 6, lanes=3, turn=2)
    grown = GrownOrder([alone, an_order(more, 3, 6, seed=7, lanes=3, turn=2)], [2 * n])

    for lane in range(3):
        before = 2 * n // 3 - 2
        here = list(islice(items(grown, Lane(lane)), before + 20))
        assert here[:before] == list(islice(items(alone, Lane(lane)), before))
        assert all(number >= 2 and position >= n for number, position in here[-10:])


def test_an_era_ends_with_an_epoch() -> None:
    order = an_order(23, 3, 6)

    for end in (0, 24):
        with pytest.raises(ValueError, match="no epoch"):
            GrownOrder([order, order], [end])
    with pytest.raises(ValueError, match="no epoch"):
        GrownOrder([an_order(23, 3, 6, passes=-1), order], [23])


def test_one_lane_has_the_samples_of_all() -> None:
    grown = GrownOrder([an_order(23, lanes=4, turn=5), an_order(31, lanes=4, turn=5)], [46])

    found = list(islice(items(single_lane_order(grown)), 77))

    assert found[:23] != found[23:46]
    assert sorted(found[46:]) == [(2, 23 + position) for position in range(31)]
