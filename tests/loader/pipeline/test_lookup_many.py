"""lookup_many returns the same references as single lookups, also after lane splits and weight changes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.loader.plan.test_components import ONE, TWO, describe_refs, make_component, source_of
from wdsctl.loader.lanes.mixture import LaneMixture, Mixture
from wdsctl.loader.lanes.rank_lanes import Lane, LaneSplit
from wdsctl.loader.pipeline.references import MAX_GAP_DRAWS, lookup_many
from wdsctl.loader.plan.components import Component, ComponentCursor, SourceRange

LANES = [Lane(0), Lane(1, (LaneSplit(40, 2, 0),)), Lane(1, (LaneSplit(40, 2, 1), LaneSplit(9, 3, 0)))]
CHANGING = [(0, 0), (1, 300), (0, 900)]


@pytest.fixture(scope="module")
def components(tmp_path_factory: pytest.TempPathFactory) -> list[Component]:
    root: Path = tmp_path_factory.mktemp("data")
    one, two = source_of(root / "one", ONE, 0), source_of(root / "two", TWO, 1)
    return [
        make_component(SourceRange(one, 0, ONE, ONE)),
        make_component(SourceRange(two, 0, TWO, 10)),
        make_component(SourceRange(two, 1, 5, 5), passes=-1),
    ]


@pytest.mark.parametrize("lane", LANES, ids=["a lane", "a first half", "a third of a second half"])
@pytest.mark.parametrize("weights", ["constant", "changing"])
def test_lookup_many_equals_single_lookups(lane: Lane, weights: str, components: list[Component]) -> None:
    levels = 1 + sum(cut.child > 0 for cut in lane.splits)
    history = CHANGING if weights == "changing" else [(0, 0)]
    lane_mixture = LaneMixture([Mixture((5, 3, 1)), Mixture((1, 1, 4))], 7, lane, [history] * levels)

    def component_cursor(which: int) -> ComponentCursor:
        return ComponentCursor(components[which], lane, lane_mixture.taken_at_splits(which), len(components))

    rng = random.Random(3)
    picks = [rng.randrange(40, 1500) for _ in range(150)] + [10 * MAX_GAP_DRAWS, 10**6, 10**6 + 1]

    actual = lookup_many(picks, lane_mixture, component_cursor)

    assert actual.keys() == set(picks)
    for pick in picks:
        which, nth = lane_mixture.component_at(pick)
        assert describe_refs([actual[pick]]) == describe_refs([component_cursor(which).lookup(nth)])
