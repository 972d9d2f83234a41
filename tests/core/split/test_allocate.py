from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.catalog.splits import SplitShards
from wdsctl.core.split.allocate import ShardToAllocate, allocate_samples, allocate_shards, resolve_by

SHARES = {"train": 8.0, "val": 1.0, "test": 1.0}

sizes = st.lists(st.integers(0, 40), max_size=12)


def shards(counts: list[int]) -> list[ShardToAllocate]:
    return [ShardToAllocate(i, f"{i}.tar", count) for i, count in enumerate(counts)]


def assignments(allocated: SplitShards, shard_list: list[ShardToAllocate]) -> dict[tuple[int, int], str]:
    where: dict[tuple[int, int], str] = {}
    for name, parts in allocated.items():
        for part in parts.values():
            mask = np.ones(shard_list[part.shard].samples, np.bool_)
            if part.bits is not None:
                unpacked = np.unpackbits(np.frombuffer(part.bits, np.uint8), bitorder="little")
                mask = unpacked[: shard_list[part.shard].samples].astype(np.bool_)
                assert not unpacked[shard_list[part.shard].samples :].any()
            assert int(mask.sum()) == part.samples
            for i in np.flatnonzero(mask).tolist():
                assert (part.shard, i) not in where
                where[part.shard, i] = name
    return where


@given(sizes, st.integers(0, 5))
def test_every_sample_is_allocated_once(counts: list[int], seed: int) -> None:
    shard_list = shards(counts)

    assert len(assignments(allocate_samples(shard_list, SHARES, seed, {}), shard_list)) == sum(counts)
    assert len(assignments(allocate_shards(shard_list, SHARES, seed, {}), shard_list)) == sum(counts)


@given(sizes)
def test_allocate_samples_meets_shares_within_one_sample(counts: list[int]) -> None:
    shard_list = shards(counts)
    actual = Counter(assignments(allocate_samples(shard_list, SHARES, 0, {}), shard_list).values())

    for name, share in SHARES.items():
        assert abs(actual[name] - share * sum(counts) / 10) < 1


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_allocate_samples_divides_every_shard_by_shares(counts: list[int]) -> None:
    shard_list = shards(counts)
    for name, parts in allocate_samples(shard_list, SHARES, 0, {}).items():
        for part in parts.values():
            # Each small shard before it may shift the shares by 0.2 samples.
            assert abs(part.samples - SHARES[name] * shard_list[part.shard].samples / 10) <= 1 + 0.2 * len(counts)


def test_allocate_shards_depends_on_paths_not_ids() -> None:
    one = allocate_shards([ShardToAllocate(i, f"{i}.tar", 5) for i in range(20)], SHARES, 3, {})
    other = allocate_shards([ShardToAllocate(100 - i, f"{i}.tar", 5) for i in range(20)], SHARES, 3, {})

    assert [100 - shard for shard in reversed(other["val"])] == list(one["val"])


def test_whole_shard_has_no_bits() -> None:
    (part,) = allocate_samples([ShardToAllocate(0, "a.tar", 9)], {"train": 1.0}, 0, {})["train"].values()

    assert (part.samples, part.bits) == (9, None)


def test_new_shards_are_allocated_to_splits_below_share() -> None:
    allocated = allocate_shards(shards([5] * 4), {"train": 1.0, "val": 1.0}, 0, {"train": 4, "val": 0})

    assert {name: len(parts) for name, parts in allocated.items()} == {"train": 0, "val": 4}


def test_auto_resolves_to_shard_only_with_enough_shards() -> None:
    assert resolve_by("auto", 10, SHARES) == "shard"
    assert resolve_by("auto", 3, SHARES) == "sample"
    assert resolve_by("auto", 15, SHARES) == "sample"  # 12, 2 and 1
    assert resolve_by("auto", 1000, SHARES) == "shard"
    assert resolve_by("auto", 10, {"train": 8, "val": 1}) == "shard"
    assert resolve_by("auto", 10, {"train": 1, "val": 0}) == "sample"
    assert resolve_by("shard", 3, SHARES) == "shard"
