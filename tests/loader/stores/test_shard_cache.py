"""The cache itself, without a store: what it keeps is what the best possible cache keeps."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.loader.test_shard_cache import misses_by_epoch
from wdsctl.loader.order.lane_order import LaneOrder
from wdsctl.loader.order.next_use import UnitUses
from wdsctl.loader.order.rank_lanes import Lane
from wdsctl.loader.order.shuffle import ShuffledOrder
from wdsctl.loader.stores.shard_cache import CachedOrder, LaneFacts, OpenShardCache, ShardCache
from wdsctl.loader.stores.shard_cache_folder import unit_file_bytes

LANES, EPOCHS = 4, 5
UNIT = bytes(3000)


def an_order(n: int = 9600) -> ShuffledOrder:
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
    opened = cache.open([CachedOrder(order, "data", 1.0)])
    assert opened is not None
    opened.set_lanes(0, [LaneFacts(root, [], [[]]) for root in range(LANES)])
    return opened


@pytest.fixture
def order() -> ShuffledOrder:
    return an_order()


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_misses_are_those_of_the_optimal_cache(order: ShuffledOrder, tmp_path: Path, share: float) -> None:
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


def test_what_was_stored_is_loaded_in_parts_of_these_sizes(order: ShuffledOrder, tmp_path: Path) -> None:
    cache = open_cache(tmp_path, order, 10)
    cache.store(3, 0, 0, [b"abc", b"", b"de"])
    cache.flush()

    assert cache.is_cached(3)
    assert cache.load(3, [3, 0, 2]) == [b"abc", b"", b"de"]
    assert cache.load(3, [2, 1, 2]) is None, "of other parts"
    assert not cache.is_cached(3), "and it is gone"
    assert cache.load(4, [1]) is None


def test_a_process_that_gets_the_cache_by_pickle_shares_the_folder(order: ShuffledOrder, tmp_path: Path) -> None:
    cache = ShardCache(tmp_path, 1)
    data = [CachedOrder(order, "data", 1.0)]
    opened = cache.open(data)
    assert opened is not None
    opened.store(3, 0, 0, [UNIT])
    opened.flush()
    copied = pickle.loads(pickle.dumps(cache))  # noqa: S301 - our own

    shared = copied.open(data)
    assert shared.folder == opened.folder
    assert shared.load(3, [len(UNIT)]) == [UNIT]
    assert shared.is_cached(3)


def test_two_trainings_of_a_job_have_a_folder_each(order: ShuffledOrder, tmp_path: Path) -> None:
    cache = ShardCache(tmp_path, 1)
    first, second = (cache.open([CachedOrder(order, data, 1.0)]) for data in ("data", "other"))
    again = cache.open([CachedOrder(order, "data", 1.0)])

    assert first is not None
    assert second is not None
    assert again is not None
    assert (first.folder == again.folder, first.folder == second.folder) == (True, False)


def test_a_job_forgets_what_an_earlier_one_did_not_finish(order: ShuffledOrder, tmp_path: Path) -> None:
    data = [CachedOrder(order, "data", 1.0)]
    cache = ShardCache(tmp_path, 1)
    opened = cache.open(data)
    assert opened is not None
    for unit in (3, 4):
        opened.store(unit, 0, 0, [UNIT])
    opened.flush()
    opened._index.complete[4] = 0  # killed while it was written
    (Path(opened.folder) / "05").mkdir()
    (Path(opened.folder) / "05" / "5-123.partial").write_bytes(UNIT)
    cache.close()

    later = ShardCache(tmp_path, 1).open(data)
    assert later is not None
    assert later.folder == opened.folder
    assert (later.is_cached(3), later.is_cached(4)) == (True, False)
    assert [path.name for path in Path(later.folder).glob("??/*")] == ["3"]
