from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.hashing import hash_values
from wdsctl.core.split import strata
from wdsctl.core.split.assign import labels_by_hash
from wdsctl.core.split.strata import GroupSplits, LabelCounts, assign_groups, count_labels, group_splits_of

SHARES = (8.0, 1.0, 1.0)
NAMED = dict(zip(("train", "val", "test"), SHARES, strict=True))
NO_GROUPS = group_splits_of({}, ())

#: Of every group, how many samples have which label.
Groups = dict[int, dict[int, int]]

groups_of_labels = st.dictionaries(
    st.integers(1, 40),
    st.dictionaries(st.integers(0, 4), st.integers(1, 9), min_size=1, max_size=3),
    min_size=1,
    max_size=30,
)


def counts_of(groups: Groups, order: int = 0) -> LabelCounts:
    """Counts the labels of the samples in a random order."""
    pairs = np.array(
        [
            (group, label)
            for group, label_counts in groups.items()
            for label, count in label_counts.items()
            for _ in range(count)
        ],
        np.uint64,
    ).reshape(-1, 2)
    pairs = pairs[np.random.default_rng(order).permutation(len(pairs))]
    return count_labels((piece[:, 0], piece[:, 1]) for piece in np.array_split(pairs, 3))


def assign(
    groups: Groups,
    shares: tuple[float, ...] = SHARES,
    *,
    seed: int = 0,
    order: int = 0,
    known: GroupSplits = NO_GROUPS,
    held: dict[int, list[int]] | None = None,
) -> tuple[dict[int, int], dict[int, list[int]]]:
    found, added = assign_groups(counts_of(groups, order), known, held or {}, shares, seed)
    return dict(zip(found.groups.tolist(), found.splits.tolist(), strict=True)), added


def chi_squared(groups: Groups, splits: dict[int, int], shares: tuple[float, ...]) -> float:
    """The distance by label and in total, computed by numpy at once and not incrementally."""
    labels = sorted({label for label_counts in groups.values() for label in label_counts})
    actual = np.zeros((len(labels) + 1, len(shares)))
    for group, label_counts in groups.items():
        for label, count in label_counts.items():
            actual[labels.index(label), splits[group]] += count
            actual[-1, splits[group]] += count
    expected = actual.sum(axis=1, keepdims=True) * np.array(shares) / sum(shares)
    return float(((actual - expected) ** 2 / expected).sum())


def few_groups(count: int, seed: int) -> Groups:
    """Groups with one to nine samples for each of one or two of three labels."""
    rng = np.random.default_rng(seed)
    return {
        group: {label: int(rng.integers(1, 10)) for label in rng.choice(3, rng.integers(1, 3), replace=False).tolist()}
        for group in rng.choice(np.arange(1, 100), count, replace=False).tolist()
    }


def many_groups(count: int, seed: int = 0) -> Groups:
    """Groups of 1 to several hundred samples, mostly of one of five labels, of which the last is rare."""
    draw = np.random.default_rng(seed)
    groups: Groups = {}
    for number in range(count):
        size = int(draw.lognormal(3, 1)) + 1
        main = int(draw.choice(5, p=[0.5, 0.25, 0.15, 0.08, 0.02]))
        groups[int(hash_values(7, np.array([number], np.uint64))[0])] = dict(
            Counter([main if draw.random() < 0.8 else int(draw.integers(3)) for _ in range(size)])
        )
    return groups


@given(groups_of_labels, st.integers(0, 3), st.integers(0, 3))
def test_assign_groups_gives_each_group_one_split_in_any_sample_order(groups: Groups, seed: int, order: int) -> None:
    splits, totals = assign(groups, seed=seed)

    assert splits.keys() == groups.keys()
    assert (splits, totals) == assign(groups, seed=seed, order=order)
    counts: Counter[tuple[int, int]] = Counter()
    for group, label_counts in groups.items():
        for label, count in label_counts.items():
            counts[label, splits[group]] += count
    assert {(label, i): n for label, each in totals.items() for i, n in enumerate(each) if n} == counts


def test_count_labels_merges_pairs_when_many_are_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = many_groups(200)
    whole = assign(groups)
    monkeypatch.setattr(strata, "_MAX_PENDING_PAIRS", 10)

    assert assign(groups) == whole


@pytest.mark.parametrize("count", range(2, 7))
def test_few_groups_are_assigned_nearly_optimally(count: int) -> None:
    """Compared with all assignments: on average at most 1/20 of the way from the best to the worst, as it is greedy."""
    shares = (2.0, 1.0)
    distances = []
    for seed in range(25):
        groups = few_groups(count, seed)
        ways = [
            chi_squared(groups, dict(zip(groups, splits, strict=True)), shares)
            for splits in product(range(2), repeat=count)
            if len(set(splits)) == 2
        ]
        found = chi_squared(groups, assign(groups, shares)[0], shares)
        distances.append((found - min(ways)) / (max(ways) - min(ways) + 1e-9))

    assert 0 <= np.mean(distances) <= 1 / 20


@pytest.mark.parametrize("shares", [SHARES, (1.0,) * 5, (98.0, 2.0)])
def test_labels_of_many_groups_match_shares_within_0_2_percent(
    shares: tuple[float, ...],
) -> None:
    groups = many_groups(1500)
    _, totals = assign(groups, shares)
    common = [totals[label] for label in range(4)]

    for counts in common:
        for count, share in zip(counts, shares, strict=True):
            assert abs(count / sum(counts) - share / sum(shares)) < 0.002
    rare = totals[4]
    assert all(abs(n / sum(rare) - s / sum(shares)) < 0.05 for n, s in zip(rare, shares, strict=True))


def test_another_seed_gives_different_assignment_of_same_quality() -> None:
    groups = many_groups(400)
    one, other = assign(groups, seed=0)[0], assign(groups, seed=1)[0]

    assert sum(one[group] != other[group] for group in groups) > 50
    hashed = dict(zip(groups, labels_by_hash(np.array([*groups], np.uint64), NAMED, 0).tolist(), strict=True))
    assert all(chi_squared(groups, each, SHARES) < chi_squared(groups, hashed, SHARES) / 20 for each in (one, other))


def test_large_groups_are_assigned_to_small_splits_too() -> None:
    """If all large groups were in the largest split, the other splits would not resemble it."""
    groups = many_groups(1500)
    splits = assign(groups)[0]
    sizes = {group: sum(label_counts.values()) for group, label_counts in groups.items()}
    large = sorted(sizes, key=lambda group: -sizes[group])[:300]

    assert 15 < sum(splits[group] == 1 for group in large) < 50


@given(st.integers(3, 8), st.integers(1, 30))
def test_no_split_is_empty_when_groups_suffice(count: int, size: int) -> None:
    splits = assign({group: {0: size} for group in range(1, count + 1)})[0]

    assert set(splits.values()) == {0, 1, 2}


def test_labels_of_single_groups_leave_no_split_empty() -> None:
    assert set(assign({group: {group: 5} for group in range(1, 100)})[0].values()) == {0, 1, 2}


@settings(deadline=None)
@given(groups_of_labels, groups_of_labels)
def test_known_groups_keep_their_split(before: Groups, after: Groups) -> None:
    splits, totals = assign(before)
    names = ("a", "b", "c")
    kept = {
        name: np.array([group for group, split in sorted(splits.items()) if split == number], np.uint64)
        for number, name in enumerate(names)
    }
    later, _ = assign(after, known=group_splits_of(kept, names), held=totals)

    assert all(later[group] == splits[group] for group in after if group in splits)


def test_new_groups_restore_shares_despite_known_groups() -> None:
    groups = many_groups(600)
    numbers = list(groups)
    before = {number: groups[number] for number in numbers[:100]}
    splits, held = assign(before, (1.0, 1.0, 1.0))  # far from the shares below
    names = ("a", "b", "c")
    kept = {
        name: np.array([group for group in before if splits[group] == number], np.uint64)
        for number, name in enumerate(names)
    }
    known = group_splits_of(kept, names)
    later, added = assign({number: groups[number] for number in numbers[100:]}, known=known, held=held)

    assert {group: later[group] for group in before} == splits
    expected = np.array(SHARES) / sum(SHARES)
    for label in range(3):  # the others are rare: single groups decide
        earlier, total = np.array(held[label]), np.array(held[label]) + np.array(added[label])
        assert np.abs(earlier / earlier.sum() - expected).max() > 0.2
        assert np.abs(total / total.sum() - expected).max() < 0.002


def test_new_groups_balance_earlier_assignment() -> None:
    groups = many_groups(300)
    held = {label: [0, 300, 0] for label in range(4)}  # all of it is in one small split
    _, totals = assign(groups, held=held)

    assert all(sum(totals[label]) > 20 * totals[label][1] for label in range(4))


def test_assign_groups_of_no_samples_is_empty() -> None:
    found, added = assign_groups(counts_of({}), NO_GROUPS, {}, SHARES, 0)

    assert (len(found.groups), added) == (0, {})
