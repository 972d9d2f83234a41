"""Items come together: in rows, or in groups that wait until they are full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.loader.stages.made_up import Numbers, References, failures_of
from wdsctl.core.errors import UsageError
from wdsctl.loader.failures import reraise_exception
from wdsctl.loader.stages.grouping import Groups, GroupStage, Rows, Straight
from wdsctl.loader.stages.item import Item
from wdsctl.loader.stages.samples import SampleStage


def groups_of(
    criterion: Callable[[Any], Any], upstream: Any = None, size: int | None = 3, most: int = 1000, handler: Any = None
) -> Groups:
    failures = failures_of(handler or reraise_exception)
    return GroupStage(criterion, size, most).open(upstream or Numbers(), failures, failures.stats)


def numbers(items: list[Item]) -> list[int]:
    return [item.value["n"] for item in items]


def parity(value: Any) -> tuple[int, int | None]:
    return value["n"] % 2, None


def rare(value: Any) -> tuple[bool, int | None]:
    """Every tenth is in a group of its own, of four."""
    return value["n"] % 10 == 0, 4 if value["n"] % 10 == 0 else None


def test_a_group_comes_when_it_is_full() -> None:
    groups = groups_of(parity)

    assert [numbers(groups.next()) for _ in range(4)] == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]


def test_a_group_may_have_a_size_of_its_own() -> None:
    groups = groups_of(rare)

    found = [numbers(groups.next()) for _ in range(12)]

    assert [each for each in found if 0 in each] == [[0, 10, 20, 30]]


def test_the_end_of_a_lane_gives_what_waits_and_then_nothing() -> None:
    groups = groups_of(parity, Numbers(8))

    assert [numbers(groups.next()) for _ in range(5)] == [[0, 2, 4], [1, 3, 5], [6], [7], []]


def test_where_too_many_wait_the_group_that_has_waited_longest_goes() -> None:
    groups = groups_of(lambda value: (value["n"] % 5, 100), most=9)

    assert numbers(groups.next()) == [0, 5]
    assert groups._stats.flushed == 1
    assert numbers(groups.next()) == [1, 6, 11]


def test_a_restore_makes_what_waited_again_and_nothing_else() -> None:
    groups = groups_of(rare)
    for _ in range(7):
        groups.next()
    state = groups.state()
    rest = [groups.next() for _ in range(10)]
    upstream = Numbers()
    restored = groups_of(rare, upstream)

    restored.load(state)

    assert upstream.made_again == [], "not before a batch is asked for"
    assert restored.state() == state
    assert [restored.next() for _ in range(10)] == rest
    assert upstream.made_again == state["waiting"] != []


def test_a_state_holds_addresses_and_no_samples() -> None:
    groups = groups_of(rare)
    groups.next()

    assert groups.state() == {"of": 4, "waiting": [0]}


@pytest.mark.parametrize("size", [0, -1, None])
def test_a_size_that_makes_no_batch_is_told(size: int | None) -> None:
    with pytest.raises(UsageError, match="there is no batch_size") as raised:
        groups_of(lambda _: (0, size), size=None).next()

    assert raised.value.hint


@pytest.mark.parametrize("answer", [7, (1, 2, 3), ([], 2), ("a", "b")], ids=repr)
def test_a_criterion_that_says_nonsense_fails_its_sample_only(answer: Any) -> None:
    told: list[Any] = []
    groups = groups_of(lambda value: answer if value["n"] == 1 else (0, None), handler=lambda *each: told.append(each))

    assert numbers(groups.next()) == [0, 2, 3]
    assert len(told) == 1
    assert numbers(groups.next()) == [4, 5, 6]


def test_rows_come_as_they_are_and_the_last_may_be_short() -> None:
    rows = Rows(Numbers(7), 3)

    assert [numbers(rows.next()) for _ in range(4)] == [[0, 1, 2], [3, 4, 5], [6], []]


def test_a_last_short_row_may_be_dropped() -> None:
    rows = Rows(Numbers(7), 3, drop_last=True)

    assert [numbers(rows.next()) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], []]


def test_groups_of_a_size_of_their_own_are_whole_whatever_the_batch_size() -> None:
    stage = GroupStage(lambda value: (value["n"] % 2, 2), size=4, most=99, drop_last=True)
    failures = failures_of()
    groups = stage.open(Numbers(7), failures, failures.stats)

    assert [numbers(groups.next()) for _ in range(4)] == [[0, 2], [1, 3], [4, 6], []]


def test_straight_rows_have_keys_where_they_are_wanted() -> None:
    def straight(*, with_keys: bool) -> Straight:
        failures = failures_of()
        return Straight(SampleStage({}, (), 9).open(References(), failures, failures.stats), 3, with_keys=with_keys)

    with_keys, without = straight(with_keys=True).next(), straight(with_keys=False).next()

    assert numbers(with_keys) == numbers(without) == [0, 1, 2]
    assert len({item.key for item in with_keys}) == 3
    assert {item.key for item in without} == {0}
