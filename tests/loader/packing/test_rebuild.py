"""A pack is rebuilt from its restore key alone."""

from __future__ import annotations

import pytest

from tests.loader.packing.fakes import Fake, comparable, draw_packs
from tests.loader.packing.test_stage import LANES
from wdsctl.loader.packing.planned_stage import PlannedPackStage, rebuild_packs
from wdsctl.loader.runtime.failures import FailureTracker, reraise_exception
from wdsctl.loader.runtime.stats import Stats


@pytest.mark.parametrize("lane", LANES.values(), ids=LANES.keys())
def test_rebuild_packs_restores_pack_from_restore_key(lane: Fake) -> None:
    packs = draw_packs(lane.open(), 30)
    stage = PlannedPackStage(lane.packing, lane.pack, lane.post, lane.max_empty_draws)

    for pack in packs:
        _, step, *keys = pack.value["__restore_key__"]
        members = []
        for key in keys:
            pick, number = key[1] * lane.rows + key[2], key[3] if len(key) > 3 else 0
            members.append((lane.refs.lookup(pick), lane.samples.make_items(None, pick)[number]))
        rebuilt = list(rebuild_packs(stage, keys, members, FailureTracker(reraise_exception, Stats())))[step]
        assert comparable(rebuilt)[0] == comparable(pack)[0]
