"""Items come together: in rows, or in groups that wait until they are full."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import chain, takewhile
from typing import Any

import numpy as np
import pytest

from tests.loader.pipeline.made_up import Numbers, References, failures_of
from wdsctl.core.checkpoint.addresses import decode_addresses, encode_address
from wdsctl.core.errors import UsageError
from wdsctl.loader.pipeline.grouping import GroupCursor, GroupStage, ItemBatches, PlainSampleBatches
from wdsctl.loader.pipeline.samples import SampleStage
from wdsctl.loader.runtime.failures import FatalSampleError, Stats, log_exception, reraise_exception
from wdsctl.loader.runtime.stage import PipelineItem


def groups_of(
    criterion: Callable[[Any], Any], upstream: Any = None, size: int | None = 3, most: int = 1000, handler: Any = None
) -> GroupCursor:
    failures = failures_of(handler or reraise_exception)
    return GroupStage(criterion, size, most).open(upstream or Numbers(), failures, failures.stats)


def numbers(items: list[PipelineItem]) -> list[int]:
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
    assert upstream.made_again == decode_addresses(state["waiting"]) != []


def test_a_state_holds_addresses_and_no_samples() -> None:
    groups = groups_of(rare)
    groups.next()

    assert groups.state() == {"upstream": 4, "waiting": encode_address(0)}


def test_a_state_of_nothing_that_waits_has_the_same_types() -> None:
    assert groups_of(rare).state() == {"upstream": 0, "waiting": ""}


def test_what_is_no_text_of_addresses_is_refused_when_it_is_loaded() -> None:
    with pytest.raises(ValueError, match="ends within an address"):
        groups_of(rare).load({"upstream": 4, "waiting": encode_address({"samples": [1, 2], "step": 0})[:-1]})


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "returned the size 0 for the group 'wide'"),
        (-1, "returned the size -1 for the group 'wide'"),
        (2.5, "returned the size 2.5 for the group 'wide'"),
        ("many", "returned the size 'many' for the group 'wide'"),
        (True, "returned the size True for the group 'wide'"),
        (None, "returned no size for the group 'wide', and the dataset has no batch_size"),
    ],
)
def test_a_size_that_makes_no_batch_is_told(size: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        groups_of(lambda _: ("wide", size), size=None).next()

    assert (raised.value.code, raised.value.where) == ("WDS512", "key 0")
    assert "1 or more" in raised.value.hint


def test_a_size_may_be_a_number_of_numpy() -> None:
    assert numbers(groups_of(lambda _: (0, np.int64(2))).next()) == [0, 1]


def test_a_group_may_be_anything_that_has_a_hash() -> None:
    groups = groups_of(lambda value: ((None, "none", 1.5, ())[value["n"] % 4], 2))

    assert [numbers(groups.next()) for _ in range(5)] == [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12]]


def test_a_group_of_two_sizes_keeps_the_one_that_it_was_begun_with() -> None:
    told: list[Any] = []
    groups = groups_of(lambda value: ("wide", 3 if value["n"] != 1 else 2), handler=lambda *each: told.append(each[0]))

    assert numbers(groups.next()) == [0, 2, 3]
    (error,) = told
    assert (error.code, error.where) == ("WDS513", "key 1")
    assert "returned two sizes for the group 'wide': 3 and 2" in str(error)
    assert groups._stats.failed == 1


def test_a_group_of_two_sizes_is_the_same_after_a_restore() -> None:
    def criterion(value: Any) -> tuple[int, int]:
        return value["n"] % 2, 3 if value["n"] % 5 else 4

    def fresh() -> GroupCursor:
        return groups_of(criterion, handler=log_exception)

    groups = fresh()
    for _ in range(9):
        state, rest = groups.state(), fresh()
        rest.load(state)
        assert [rest.next() for _ in range(3)] == [groups.next() for _ in range(3)]


def test_what_is_wrong_with_the_answers_is_logged_once_a_cause_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    def criterion(value: Any) -> Any:
        n = value["n"]
        return 5 if n % 7 == 3 else ("wide", 0) if n % 7 == 4 else ("slim", 9 if n % 7 == 5 else 3)

    groups = groups_of(criterion, handler=log_exception)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        for _ in range(40):
            groups.next()

    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "returned 5, expected" in caplog.text
    assert "returned two sizes for the group 'slim': " in caplog.text
    seen = groups._upstream.at  # type: ignore[attr-defined]
    causes = groups._stats.causes
    assert sum(causes.values()) == groups._stats.failed > 60
    assert causes["batch_group_criterion: WDS512"] == sum(n % 7 in {3, 4} for n in range(seen))


def test_a_criterion_that_is_wrong_for_every_sample_ends_the_run() -> None:
    with pytest.raises(FatalSampleError, match="100 consecutive samples failed in batch_group_criterion") as raised:
        groups_of(lambda _: ("wide", 0), handler=log_exception).next()

    assert "the size 0" in str(raised.value)
    assert raised.value.hint


@pytest.mark.parametrize("answer", [7, (1, 2, 3), ([], 2), ("a", "b")], ids=repr)
def test_a_criterion_that_says_nonsense_fails_its_sample_only(answer: Any) -> None:
    told: list[Any] = []
    groups = groups_of(lambda value: answer if value["n"] == 1 else (0, None), handler=lambda *each: told.append(each))

    assert numbers(groups.next()) == [0, 2, 3]
    assert len(told) == 1
    assert numbers(groups.next()) == [4, 5, 6]


@pytest.mark.parametrize(("before", "after"), [(7, 2), (2, 7), (5, 3)])
def test_items_that_waited_for_another_batch_size_come_once_in_batches_of_the_new_one(before: int, after: int) -> None:
    groups = groups_of(parity, Numbers(60), size=before)
    first = [numbers(groups.next()) for _ in range(3)]
    restored = groups_of(parity, Numbers(60), size=after)

    restored.load(groups.state())
    rest = list(takewhile(bool, (numbers(restored.next()) for _ in range(99))))

    assert sorted(chain(*first, *rest)) == list(range(60))
    assert {len(batch) for batch in rest[:-2]} == {after}
    assert all(len(batch) <= after for batch in rest)


def test_of_those_that_waited_for_a_larger_batch_the_longest_waiting_go_first() -> None:
    def criterion(value: Any) -> tuple[bool, None]:
        return value["n"] in {1, 2, 3}, None

    larger = groups_of(criterion, size=5)
    assert numbers(larger.next()) == [0, 4, 5, 6, 7]
    smaller = groups_of(criterion, size=2)
    smaller.load(larger.state())

    assert [numbers(smaller.next()) for _ in range(2)] == [[1, 2], [8, 9]]


def test_a_state_between_batches_of_those_that_waited_together_goes_on_exactly() -> None:
    larger = groups_of(lambda value: (value["n"] % 3, 9 + value["n"] % 3))
    larger.next()
    groups = groups_of(parity, most=11)
    groups.load(larger.state())
    for _ in range(6):
        again = groups_of(parity, most=11)
        again.load(groups.state())
        assert [again.next() for _ in range(3)] == [groups.next() for _ in range(3)]


def test_rows_come_as_they_are_and_the_last_may_be_short() -> None:
    rows = ItemBatches(Numbers(7), 3, Stats())

    assert [numbers(rows.next()) for _ in range(4)] == [[0, 1, 2], [3, 4, 5], [6], []]


def test_a_last_short_row_may_be_dropped() -> None:
    rows = ItemBatches(Numbers(7), 3, Stats(), drop_last=True)

    assert [numbers(rows.next()) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], []]


def test_groups_of_a_size_of_their_own_are_whole_whatever_the_batch_size() -> None:
    stage = GroupStage(lambda value: (value["n"] % 2, 2), default_size=4, max_waiting=99, drop_last=True)
    failures = failures_of()
    groups = stage.open(Numbers(7), failures, failures.stats)

    assert [numbers(groups.next()) for _ in range(4)] == [[0, 2], [1, 3], [4, 6], []]


def test_straight_rows_have_keys_where_they_are_wanted() -> None:
    def straight(*, with_keys: bool) -> PlainSampleBatches:
        failures = failures_of()
        return PlainSampleBatches(
            SampleStage({}, (), 9).open(References(), failures, failures.stats), 3, with_keys=with_keys
        )

    with_keys, without = straight(with_keys=True).next(), straight(with_keys=False).next()

    assert numbers(with_keys) == numbers(without) == [0, 1, 2]
    assert len({item.origin_hash for item in with_keys}) == 3
    assert {item.origin_hash for item in without} == {0}
