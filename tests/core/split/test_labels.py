from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.split.assign import labels_by_fold, labels_by_hash
from wdsctl.core.split.strata import allocate_strata, labels_by_quota

SHARES = {"train": 8.0, "val": 1.0, "test": 1.0}


def hashes(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.random.default_rng(0).integers(0, 1 << 64, count, np.uint64)


def test_labels_by_hash_are_frozen() -> None:
    """A change here moves samples between the splits of datasets that users have."""
    assert labels_by_hash(np.arange(1, 25, dtype=np.uint64), SHARES, 0).tolist() == [
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        1,
        0,
        1,
        0,
        0,
        0,
        0,
        0,
        0,
        2,
        0,
        0,
        0,
        2,
        2,
        0,
    ]


def test_labels_by_hash_follow_shares() -> None:
    found = Counter(labels_by_hash(hashes(100_000), SHARES, 0).tolist())

    for number, share in enumerate(SHARES.values()):
        assert abs(found[number] - share * 10_000) < 5 * (share * 10_000) ** 0.5


def test_folds_partition_all_samples() -> None:
    found = np.stack([labels_by_fold(hashes(1000), (i, 5), 3) for i in range(5)])

    assert (found.sum(axis=0) == 1).all()
    assert all(150 < int(each.sum()) < 250 for each in found)


def test_labels_by_hash_accepts_shares_of_one_and_almost_zero() -> None:
    assert set(labels_by_hash(hashes(1000), {"train": 1.0}, 0).tolist()) == {0}
    assert set(labels_by_hash(hashes(1000), {"train": 1.0, "val": 1e-30}, 0).tolist()) == {0}


@given(st.lists(st.lists(st.integers(0, 4), max_size=30), min_size=1, max_size=8), st.integers(0, 3))
def test_strata_quotas_are_met_for_any_distribution_over_shards(shards: list[list[int]], key: int) -> None:
    counts = Counter(number for shard in shards for number in shard)
    quotas = allocate_strata(counts, {}, SHARES)
    expected = {stratum: list(quota) for stratum, quota in quotas.items()}
    found: Counter[tuple[int, int]] = Counter()
    for i, shard in enumerate(shards):
        labels = labels_by_quota(np.array(shard, np.uint64), quotas, key + i)
        found.update(zip(shard, labels.tolist(), strict=True))

    assert all(
        abs(count - counts[number] * share / 10) < 1
        for number, quota in expected.items()
        for count, share in zip(quota, SHARES.values(), strict=True)
    )
    assert {(number, i): count for number, quota in expected.items() for i, count in enumerate(quota) if count} == found


def test_single_samples_of_stratum_are_spread_over_shards() -> None:
    """With one sample of a stratum in each of 1000 shards, val is taken from early and late shards equally."""
    quotas = allocate_strata({7: 1000}, {}, {"train": 9.0, "val": 1.0})
    labels = [int(labels_by_quota(np.array([7], np.uint64), quotas, key)[0]) for key in range(1000)]

    assert sum(labels) == 100
    assert 25 < sum(labels[:500]) < 75
