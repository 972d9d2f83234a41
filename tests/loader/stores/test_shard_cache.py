"""The shard cache alone, without a store: it keeps what the optimal cache would keep."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.loader.test_shard_cache import misses_by_epoch
from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.lanes.next_use import UnitUses
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.order.shuffle import ShuffledOrder
from wdsctl.loader.stores.shard_cache import CachedOrder, LaneFacts, OpenShardCache, ShardCache
from wdsctl.loader.stores.shard_cache_folder import unit_file_bytes

LANES, EPOCHS = 4, 4
UNIT = bytes(3000)


def an_order(n: int = 2400) -> ShuffledOrder:
    return ShuffledOrder(
        n=n,
        slice_samples=16,
        window_samples=64,
        seed=5,
        passes=1,
        lanes=LANES,
        turn_samples=8,
        max_batch_samples=8,
    )


def open_cache(folder: Path, order: ShuffledOrder, units: int) -> OpenShardCache:
    cache = ShardCache(folder, units * unit_file_bytes([len(UNIT)]) / (1 << 30))
    active = cache.open([CachedOrder(order, "data", 1.0)])
    assert active is not None
    active.set_lanes(0, [LaneFacts(root, [], [[]]) for root in range(LANES)])
    return active


@pytest.fixture
def order() -> ShuffledOrder:
    return an_order()


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_cache_misses_match_optimal_cache(order: ShuffledOrder, tmp_path: Path, share: float) -> None:
    uses = UnitUses(order, [LaneOrder(order, Lane(root)) for root in range(LANES)])
    capacity = int(share * uses.units)
    cache = open_cache(tmp_path, order, capacity)
    misses = []
    for epoch in range(EPOCHS):
        misses.append(0)
        for unit, time in zip(*map(np.ndarray.tolist, uses.trace(epoch)), strict=True):
            cache.use(unit, time)
            if not cache.is_cached(unit):
                misses[-1] += 1
                cache.store(unit, 0, time, [UNIT])
                cache.flush()
    traces = [uses.trace(epoch)[0].tolist() for epoch in range(EPOCHS + 1)]
    optimal, lru = (misses_by_epoch(traces, capacity, is_optimal=each)[:EPOCHS] for each in (True, False))

    assert misses == optimal
    assert sum(lru) > sum(optimal)


def test_load_returns_stored_parts_of_matching_sizes(order: ShuffledOrder, tmp_path: Path) -> None:
    cache = open_cache(tmp_path, order, 10)
    cache.store(3, 0, 0, [b"abc", b"", b"de"])
    cache.flush()

    assert cache.is_cached(3)
    assert cache.load(3, [3, 0, 2]) == [b"abc", b"", b"de"]
    assert cache.load(3, [2, 1, 2]) is None, "of other parts"
    assert not cache.is_cached(3), "and it is gone"
    assert cache.load(4, [1]) is None


def test_pickled_cache_shares_folder(order: ShuffledOrder, tmp_path: Path) -> None:
    cache = ShardCache(tmp_path, 1)
    data = [CachedOrder(order, "data", 1.0)]
    active = cache.open(data)
    assert active is not None
    active.store(3, 0, 0, [UNIT])
    active.flush()
    copied = pickle.loads(pickle.dumps(cache))  # noqa: S301 - our own

    shared = copied.open(data)
    assert shared.folder == active.folder
    assert shared.load(3, [len(UNIT)]) == [UNIT]
    assert shared.is_cached(3)


def test_trainings_of_one_job_have_separate_folders(order: ShuffledOrder, tmp_path: Path) -> None:
    cache = ShardCache(tmp_path, 1)
    first, second = (cache.open([CachedOrder(order, data, 1.0)]) for data in ("data", "other"))
    third = cache.open([CachedOrder(order, "data", 1.0)])

    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.folder == third.folder, first.folder == second.folder) == (True, False)


def test_cache_discards_units_that_earlier_job_did_not_finish(order: ShuffledOrder, tmp_path: Path) -> None:
    data = [CachedOrder(order, "data", 1.0)]
    cache = ShardCache(tmp_path, 1)
    active = cache.open(data)
    assert active is not None
    for unit in (3, 4):
        active.store(unit, 0, 0, [UNIT])
    active.flush()
    active._index.complete[4] = 0  # killed while it was written
    (Path(active.folder) / "05").mkdir()
    (Path(active.folder) / "05" / "5-123.partial").write_bytes(UNIT)
    cache.close()

    later = ShardCache(tmp_path, 1).open(data)
    assert later is not None
    assert later.folder == active.folder
    assert (later.is_cached(3), later.is_cached(4)) == (True, False)
    assert [path.name for path in Path(later.folder).glob("??/*")] == ["3"]
