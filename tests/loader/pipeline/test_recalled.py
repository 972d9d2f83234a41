"""References that are found together are those that are found one by one, also after cuts and changes of weights."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.loader.plan.test_arms import ONE, TWO, arm_of, source_of, told
from wdsctl.loader.order.mixture import LaneMixture, Mixture
from wdsctl.loader.order.rank_lanes import Lane, LaneSplit
from wdsctl.loader.pipeline.references import MAX_GAP_DRAWS, lookup_many
from wdsctl.loader.plan.components import Component, ComponentCursor, SourceRange

LANES = [Lane(0), Lane(1, (LaneSplit(40, 2, 0),)), Lane(1, (LaneSplit(40, 2, 1), LaneSplit(9, 3, 0)))]
CHANGING = [(0, 0), (1, 300), (0, 900)]


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> list[Component]:
    root: Path = tmp_path_factory.mktemp("data")
    one, two = source_of(root / "one", ONE, 0), source_of(root / "two", TWO, 1)
    return [
        arm_of(SourceRange(one, 0, ONE, ONE)),
        arm_of(SourceRange(two, 0, TWO, 10)),
        arm_of(SourceRange(two, 1, 5, 5), passes=-1),
    ]


@pytest.mark.parametrize("lane", LANES, ids=["a lane", "a first half", "a third of a second half"])
@pytest.mark.parametrize("weights", ["constant", "changing"])
def test_many_are_found_as_they_are_one_by_one(lane: Lane, weights: str, arms: list[Component]) -> None:
    levels = 1 + sum(cut.child > 0 for cut in lane.splits)
    history = CHANGING if weights == "changing" else [(0, 0)]
    mixing = LaneMixture([Mixture((5, 3, 1)), Mixture((1, 1, 4))], 7, lane, [history] * levels)

    def arm_cursor(which: int) -> ComponentCursor:
        return ComponentCursor(arms[which], lane, mixing.taken_at_splits(which), len(arms))

    draw = random.Random(3)
    picks = [draw.randrange(40, 1500) for _ in range(150)] + [10 * MAX_GAP_DRAWS, 10**6, 10**6 + 1]

    found = lookup_many(picks, mixing, arm_cursor)

    assert found.keys() == set(picks)
    for pick in picks:
        which, nth = mixing.component_at(pick)
        assert told([found[pick]]) == told([arm_cursor(which).lookup(nth)])
