"""A pack comes again from its restore key alone."""

from __future__ import annotations

import pytest

from tests.loader.packing.fakes import Fake, drawn, plain
from tests.loader.packing.test_stage import LANES
from wdsctl.loader.packing.planned_stage import PlannedPackStage, rebuild_packs
from wdsctl.loader.runtime.failures import FailureTracker, Stats, reraise_exception


@pytest.mark.parametrize("lane", LANES.values(), ids=LANES.keys())
def test_the_restore_key_of_a_pack_makes_it_again(lane: Fake) -> None:
    packs = drawn(lane.open(), 30)
    stage = PlannedPackStage(lane.packing, lane.pack, lane.post, lane.patience)

    for pack in packs:
        _, step, *keys = pack.value["__restore_key__"]
        whole = []
        for key in keys:
            pick, number = key[2], key[3] if len(key) > 3 else 0
            whole.append((lane.refs.lookup(pick), lane.samples.make_items(None, pick)[number]))
        made = list(rebuild_packs(stage, keys, whole, FailureTracker(reraise_exception, Stats())))[step]
        assert plain(made)[0] == plain(pack)[0]
