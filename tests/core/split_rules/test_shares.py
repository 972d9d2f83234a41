from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.core.split_rules.shares import allocate_items, allocate_new_items, parse_split_shares

SHARES = st.dictionaries(
    st.sampled_from(["train", "val", "test", "a", "b", "c"]),
    st.one_of(st.integers(0, 1000), st.decimals("0", "100", places=3).map(float)),
    min_size=1,
).filter(lambda shares: any(shares.values()))
TOTALS = st.one_of(st.integers(0, 40), st.integers(0, 10**12))


def quota(total: int, shares: dict[str, float], name: str) -> float:
    return total * shares[name] / sum(shares.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8,1,1", {"train": 8, "val": 1, "test": 1}),
        ("1", {"train": 1}),
        ("9,1", {"train": 9, "val": 1}),
        ("train=0.98,val=0.02", {"train": 0.98, "val": 0.02}),
        ("98%,2%", {"train": 98, "val": 2}),
        (" train = 8 , held-out.v2 = .5 ", {"train": 8, "held-out.v2": 0.5}),
        ("a=1e-3,b=1", {"a": 0.001, "b": 1}),
        ("a=1,b=1,c=1,d=1", {"a": 1, "b": 1, "c": 1, "d": 1}),
    ],
)
def test_parse_split_shares_keeps_order(text: str, expected: dict[str, float]) -> None:
    shares = parse_split_shares(text)

    assert shares == expected
    assert list(shares) == list(expected)


def test_parse_split_shares_drops_splits_with_zero_share() -> None:
    assert parse_split_shares("train=9,val=0,test=1") == {"train": 9, "test": 1}
    assert parse_split_shares("9,0,1") == {"train": 9, "test": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no ratios"),
        ("8,,1", "missing"),
        ("8,1,", "missing"),
        ("1,2,3,4", "need names"),
        ("train=8,1", "all ratios have a name"),
        ("98%,2", "percentages"),
        ("-1,2", "invalid ratio '-1'"),
        ("train=nan", "invalid ratio 'nan'"),
        ("train=inf", "invalid ratio 'inf'"),
        ("train=1e999", "invalid ratio '1e999'"),
        ("train=", "invalid ratio ''"),
        ("train=٣", "invalid ratio"),
        ("1_0", "invalid ratio"),
        ("tr ain=1", "is not a valid split name"),
        ("a/b=1", "is not a valid split name"),
        ("=1", "is not a valid split name"),
        ("train=1,train=2", "duplicate split train"),
        ("0,0", "above 0"),
        ("train=0", "above 0"),
    ],
)
def test_invalid_shares_are_refused_with_their_text(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        parse_split_shares(text)

    assert caught.value.code == "WDS210"
    assert repr(text) in caught.value.message
    assert caught.value.hint


def test_allocate_items_divides_ten_by_seven_two_one() -> None:
    assert allocate_items(10, {"train": 7, "val": 2, "test": 1}) == {"train": 7, "val": 2, "test": 1}
    assert allocate_items(10, {"train": 0.7, "val": 0.2, "test": 0.1}) == {"train": 7, "val": 2, "test": 1}


def test_equal_remainders_go_to_first_split() -> None:
    assert allocate_items(4, {"train": 8, "val": 1, "test": 1}) == {"train": 3, "val": 1, "test": 0}
    assert allocate_items(1, {"a": 1, "b": 1}) == {"a": 1, "b": 0}


@given(TOTALS, SHARES)
def test_allocation_is_complete_and_within_one_of_quota(total: int, shares: dict[str, float]) -> None:
    counts = allocate_items(total, shares)

    assert list(counts) == list(shares)
    assert sum(counts.values()) == total
    for name, count in counts.items():
        assert count >= 0
        assert abs(count - quota(total, shares, name)) <= 1 + total * 1e-9


@given(TOTALS, SHARES)
def test_split_with_zero_share_gets_no_items(total: int, shares: dict[str, float]) -> None:
    counts = allocate_items(total, shares)

    assert all(counts[name] == 0 for name, share in shares.items() if not share)


@pytest.mark.parametrize("shares", [{}, {"a": 0}, {"a": -1, "b": 2}, {"a": float("nan")}, {"a": float("inf")}])
def test_invalid_shares_cannot_be_allocated(shares: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        allocate_items(10, shares)


def test_negative_total_is_refused() -> None:
    with pytest.raises(UsageError):
        allocate_items(-1, {"a": 1})


@given(TOTALS, SHARES)
def test_allocate_new_items_without_old_items_equals_allocate_items(total: int, shares: dict[str, float]) -> None:
    assert allocate_new_items(total, {}, shares) == allocate_items(total, shares)


@given(SHARES, st.dictionaries(st.sampled_from(["train", "val", "test", "old"]), st.integers(0, 50)), TOTALS)
def test_allocate_new_items_allocates_exactly_new_items(
    shares: dict[str, float], already: dict[str, int], new: int
) -> None:
    allocated = allocate_new_items(new + sum(already.values()), already, shares)

    assert list(allocated) == list(shares)
    assert sum(allocated.values()) == new
    assert all(count >= 0 for count in allocated.values())


@given(SHARES, st.dictionaries(st.sampled_from(["train", "val", "test"]), st.integers(0, 50)), st.integers(0, 300))
def test_allocation_of_new_items_cannot_be_improved(
    shares: dict[str, float], already: dict[str, int], new: int
) -> None:
    total = new + sum(already.values())
    allocated = allocate_new_items(total, already, shares)
    have = {name: already.get(name, 0) + allocated[name] for name in shares}

    # Moving one new item from one split to another must not bring both nearer to their shares.
    for giver in (name for name in shares if allocated[name]):
        for taker in (name for name in shares if name != giver and shares[name]):
            surplus = have[giver] - quota(total, shares, giver)
            lack = quota(total, shares, taker) - have[taker]
            assert not (surplus > 1 + 1e-6 and lack > 1 + 1e-6)


@given(st.integers(0, 500), st.integers(0, 500), SHARES)
def test_later_items_keep_splits_near_their_shares(first: int, later: int, shares: dict[str, float]) -> None:
    before = allocate_items(first, shares)

    after = allocate_new_items(first + later, before, shares)

    for name in shares:
        assert abs(before[name] + after[name] - quota(first + later, shares, name)) <= len(shares)


def test_oversized_split_gets_no_new_items_until_others_catch_up() -> None:
    assert allocate_new_items(30, {"train": 10, "val": 10}, {"train": 8, "val": 1, "test": 1}) == {
        "train": 8,
        "val": 0,
        "test": 2,
    }
    assert allocate_new_items(12, {"train": 10}, {"train": 8, "val": 1, "test": 1}) == {"train": 0, "val": 1, "test": 1}


def test_total_below_allocated_items_is_refused() -> None:
    with pytest.raises(UsageError, match="11 items"):
        allocate_new_items(10, {"train": 11}, {"train": 1})
