from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.splitting_shares import by_fold, by_hash, by_stratum, strata_of

SHARES = {"train": 8.0, "val": 1.0, "test": 1.0}


def hashes(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.random.default_rng(0).integers(0, 1 << 64, count, np.uint64)


def test_where_a_hash_goes_is_for_ever() -> None:
    """A change here moves samples between the splits of datasets that users have."""
    assert by_hash(np.arange(1, 25, dtype=np.uint64), SHARES, 0).tolist() == [
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


def test_hashes_come_out_by_the_shares() -> None:
    found = Counter(by_hash(hashes(100_000), SHARES, 0).tolist())

    for number, share in enumerate(SHARES.values()):
        assert abs(found[number] - share * 10_000) < 5 * (share * 10_000) ** 0.5


def test_folds_are_parts_of_all() -> None:
    found = np.stack([by_fold(hashes(1000), (i, 5), 3) for i in range(5)])

    assert (found.sum(axis=0) == 1).all()
    assert all(150 < int(each.sum()) < 250 for each in found)


def test_a_share_that_is_all_or_next_to_nothing_is_kept() -> None:
    assert set(by_hash(hashes(1000), {"train": 1.0}, 0).tolist()) == {0}
    assert set(by_hash(hashes(1000), {"train": 1.0, "val": 1e-30}, 0).tolist()) == {0}


@given(st.lists(st.lists(st.integers(0, 4), max_size=30), min_size=1, max_size=8), st.integers(0, 3))
def test_strata_come_out_by_largest_remainder_however_they_lie_in_shards(shards: list[list[int]], key: int) -> None:
    counts = Counter(number for shard in shards for number in shard)
    strata = strata_of(counts, {}, SHARES)
    wanted = {number: list(stratum.left) for number, stratum in strata.items()}
    found: Counter[tuple[int, int]] = Counter()
    for i, shard in enumerate(shards):
        labels = by_stratum(np.array(shard, np.uint64), strata, key + i)
        found.update(zip(shard, labels.tolist(), strict=True))

    assert all(
        abs(count - counts[number] * share / 10) < 1
        for number, quotas in wanted.items()
        for count, share in zip(quotas, SHARES.values(), strict=True)
    )
    assert {(number, i): count for number, quotas in wanted.items() for i, count in enumerate(quotas) if count} == found


def test_single_samples_of_a_stratum_favour_no_shard() -> None:
    """One sample of a stratum in each of 1000 shards: val is drawn from early and late ones alike."""
    strata = strata_of({7: 1000}, {}, {"train": 9.0, "val": 1.0})
    labels = [int(by_stratum(np.array([7], np.uint64), strata, key)[0]) for key in range(1000)]

    assert sum(labels) == 100
    assert 25 < sum(labels[:500]) < 75
