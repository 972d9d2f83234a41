"""References that are found together are those that are found one by one, also after cuts and changes of weights."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.loader.test_arms import ONE, TWO, arm_of, source_of, told
from wdsctl.loader.arms import Arm, ArmCursor, Piece
from wdsctl.loader.order.blend import Blend
from wdsctl.loader.order.geometry import Cut, Lane
from wdsctl.loader.order.mixing import Mixing
from wdsctl.loader.recalled import GAP, refs_at

LANES = [Lane(0), Lane(1, (Cut(40, 2, 0),)), Lane(1, (Cut(40, 2, 1), Cut(9, 3, 0)))]
CHANGING = [(0, 0), (1, 300), (0, 900)]


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> list[Arm]:
    root: Path = tmp_path_factory.mktemp("data")
    one, two = source_of(root / "one", ONE, 0), source_of(root / "two", TWO, 1)
    return [arm_of(Piece(one, 0, ONE, ONE)), arm_of(Piece(two, 0, TWO, 10)), arm_of(Piece(two, 1, 5, 5), passes=-1)]


@pytest.mark.parametrize("lane", LANES, ids=["a lane", "a first half", "a third of a second half"])
@pytest.mark.parametrize("weights", ["constant", "changing"])
def test_many_are_found_as_they_are_one_by_one(lane: Lane, weights: str, arms: list[Arm]) -> None:
    levels = 1 + sum(cut.child > 0 for cut in lane.cuts)
    history = CHANGING if weights == "changing" else [(0, 0)]
    mixing = Mixing([Blend((5, 3, 1)), Blend((1, 1, 4))], 7, lane, [history] * levels)

    def arm_cursor(which: int) -> ArmCursor:
        return ArmCursor(arms[which], lane, mixing.taken(which), len(arms))

    draw = random.Random(3)
    picks = [draw.randrange(40, 1500) for _ in range(150)] + [10 * GAP, 10**6, 10**6 + 1]

    found = refs_at(picks, mixing, arm_cursor)

    assert found.keys() == set(picks)
    for pick in picks:
        which, nth = mixing.at(pick)
        assert told([found[pick]]) == told([arm_cursor(which).at(nth)])
