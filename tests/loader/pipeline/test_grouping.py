"""Items are collected into batches, or into groups that wait until they are full."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import chain, takewhile
from typing import Any

import numpy as np
import pytest
import torch

from tests.loader.pipeline.fake_stages import Numbers, References, failures_of
from wdsctl.core.checkpoint.addresses import decode_addresses, encode_address
from wdsctl.core.errors import UsageError
from wdsctl.loader.pipeline.grouping import GroupCursor, GroupStage, ItemBatches, PlainSampleBatches
from wdsctl.loader.pipeline.samples import SampleStage
from wdsctl.loader.runtime.failures import FatalSampleError, log_exception, reraise_exception
from wdsctl.loader.runtime.stage import PipelineItem
from wdsctl.loader.runtime.stats import Stats


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
    """Every tenth item is in a separate group of size four."""
    return value["n"] % 10 == 0, 4 if value["n"] % 10 == 0 else None


def test_group_is_emitted_when_full() -> None:
    groups = groups_of(parity)

    assert [numbers(groups.next()) for _ in range(4)] == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]


def test_group_may_have_its_own_size() -> None:
    groups = groups_of(rare)

    batches = [numbers(groups.next()) for _ in range(12)]

    assert [each for each in batches if 0 in each] == [[0, 10, 20, 30]]


def test_end_of_lane_emits_waiting_groups() -> None:
    groups = groups_of(parity, Numbers(8))

    assert [numbers(groups.next()) for _ in range(5)] == [[0, 2, 4], [1, 3, 5], [6], [7], []]


def test_oldest_group_is_flushed_when_too_many_wait() -> None:
    groups = groups_of(lambda value: (value["n"] % 5, 100), most=9)

    assert numbers(groups.next()) == [0, 5]
    assert groups._stats.flushed == 1
    assert numbers(groups.next()) == [1, 6, 11]


def test_restore_rebuilds_only_waiting_items() -> None:
    groups = groups_of(rare)
    for _ in range(7):
        groups.next()
    state = groups.state()
    rest = [groups.next() for _ in range(10)]
    upstream = Numbers()
    restored = groups_of(rare, upstream)

    restored.load(state)

    assert upstream.rebuilt == [], "not before a batch is asked for"
    assert restored.state() == state
    assert [restored.next() for _ in range(10)] == rest
    assert upstream.rebuilt == decode_addresses(state["waiting"]) != []


def test_group_state_contains_addresses_not_samples() -> None:
    groups = groups_of(rare)
    groups.next()

    assert groups.state() == {"upstream": 4, "waiting": encode_address(0)}


def test_group_state_without_waiting_items_keeps_types() -> None:
    assert groups_of(rare).state() == {"upstream": 0, "waiting": ""}


def test_load_refuses_truncated_addresses() -> None:
    with pytest.raises(ValueError, match="ends within an address"):
        groups_of(rare).load({"upstream": 4, "waiting": encode_address({"samples": [1, 2], "step": 0})[:-1]})


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (0, "returned the size 0 for the group 'wide'"),
        (-1, "returned the size -1 for the group 'wide'"),
        (2.5, "returned the size 2.5 for the group 'wide'"),
        ("many", "returned the size 'many' for the group 'wide'"),
        (True, "returned the size True for the group 'wide'"),
        (None, "returned no size for the group 'wide', and the dataset has no batch_size"),
    ],
)
def test_invalid_group_size_is_refused(size: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        groups_of(lambda _: ("wide", size), size=None).next()

    assert (raised.value.code, raised.value.where) == ("WDS512", "key 0")
    assert "1 or more" in raised.value.hint


def test_group_size_may_be_numpy_integer() -> None:
    assert numbers(groups_of(lambda _: (0, np.int64(2))).next()) == [0, 1]


def test_group_key_may_be_any_hashable() -> None:
    groups = groups_of(lambda value: ((None, "none", 1.5, ())[value["n"] % 4], 2))

    assert [numbers(groups.next()) for _ in range(5)] == [[0, 4], [1, 5], [2, 6], [3, 7], [8, 12]]


def test_group_with_two_sizes_keeps_first_size() -> None:
    errors: list[Any] = []
    groups = groups_of(
        lambda value: ("wide", 3 if value["n"] != 1 else 2), handler=lambda *each: errors.append(each[0])
    )

    assert numbers(groups.next()) == [0, 2, 3]
    (error,) = errors
    assert (error.code, error.where) == ("WDS513", "key 1")
    assert "returned two sizes for the group 'wide': 3 and 2" in str(error)
    assert groups._stats.failed == 1


def test_group_with_two_sizes_restores_exactly() -> None:
    def criterion(value: Any) -> tuple[int, int]:
        return value["n"] % 2, 3 if value["n"] % 5 else 4

    def make_groups() -> GroupCursor:
        return groups_of(criterion, handler=log_exception)

    groups = make_groups()
    for _ in range(9):
        state, rest = groups.state(), make_groups()
        rest.load(state)
        assert [rest.next() for _ in range(3)] == [groups.next() for _ in range(3)]


def test_criterion_errors_are_logged_once_per_cause_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    def criterion(value: Any) -> Any:
        n = value["n"]
        return 5 if n % 7 == 3 else ("wide", 0) if n % 7 == 4 else ("slim", 9 if n % 7 == 5 else 3)

    groups = groups_of(criterion, handler=log_exception)
    with caplog.at_level(logging.WARNING, "wdsctl.loader"):
        for _ in range(40):
            groups.next()

    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert "returned 5, expected" in caplog.text
    assert "returned two sizes for the group 'slim': " in caplog.text
    draws = groups._upstream.at  # type: ignore[attr-defined]
    causes = groups._stats.causes
    assert sum(causes.values()) == groups._stats.failed > 60
    assert sum(count for cause, count in causes.items() if "returned ..., expected" in cause) == draws // 7


def test_criterion_that_fails_for_every_sample_is_fatal() -> None:
    with pytest.raises(FatalSampleError, match="100 consecutive samples failed in batch_group_criterion") as raised:
        groups_of(lambda _: ("wide", 0), handler=log_exception).next()

    assert "the size 0" in str(raised.value)
    assert raised.value.hint


def test_failure_tolerance_applies_to_criterion() -> None:
    failures = failures_of(log_exception)
    stage = GroupStage(lambda _: ("wide", 0), 3, 1000, tolerance=2)

    with pytest.raises(FatalSampleError, match="2 consecutive samples failed in batch_group_criterion"):
        stage.open(Numbers(), failures, failures.stats).next()


def test_criterion_draws_random_numbers_by_sample() -> None:
    def batches(seed: int, *, resumed_after: int = 0) -> list[list[int]]:
        torch.manual_seed(resumed_after)
        stage = GroupStage(lambda _: (int(torch.randint(3, (1,))), None), 3, 1000, seed=seed)
        failures = failures_of()
        groups = stage.open(Numbers(), failures, failures.stats)
        found = [numbers(groups.next()) for _ in range(resumed_after)]
        again = stage.open(Numbers(), failures, failures.stats)
        again.load(groups.state())
        return found + [numbers(again.next()) for _ in range(20 - resumed_after)]

    assert batches(1) == batches(1, resumed_after=7) != batches(2)


@pytest.mark.parametrize("result", [7, (1, 2, 3), ([], 2), ("a", "b")], ids=repr)
def test_invalid_criterion_result_fails_only_its_sample(result: Any) -> None:
    errors: list[Any] = []
    groups = groups_of(
        lambda value: result if value["n"] == 1 else (0, None), handler=lambda *each: errors.append(each)
    )

    assert numbers(groups.next()) == [0, 2, 3]
    assert len(errors) == 1
    assert numbers(groups.next()) == [4, 5, 6]


@pytest.mark.parametrize(("before", "after"), [(7, 2), (2, 7), (5, 3)])
def test_waiting_items_come_once_after_batch_size_change(before: int, after: int) -> None:
    groups = groups_of(parity, Numbers(60), size=before)
    first = [numbers(groups.next()) for _ in range(3)]
    restored = groups_of(parity, Numbers(60), size=after)

    restored.load(groups.state())
    rest = list(takewhile(bool, (numbers(restored.next()) for _ in range(99))))

    assert sorted(chain(*first, *rest)) == list(range(60))
    assert {len(batch) for batch in rest[:-2]} == {after}
    assert all(len(batch) <= after for batch in rest)


def test_longest_waiting_items_come_first_after_batch_size_decrease() -> None:
    def criterion(value: Any) -> tuple[bool, None]:
        return value["n"] in {1, 2, 3}, None

    larger = groups_of(criterion, size=5)
    assert numbers(larger.next()) == [0, 4, 5, 6, 7]
    smaller = groups_of(criterion, size=2)
    smaller.load(larger.state())

    assert [numbers(smaller.next()) for _ in range(2)] == [[1, 2], [8, 9]]


def test_state_after_regrouping_restores_exactly() -> None:
    larger = groups_of(lambda value: (value["n"] % 3, 9 + value["n"] % 3))
    larger.next()
    groups = groups_of(parity, most=11)
    groups.load(larger.state())
    for _ in range(6):
        restored = groups_of(parity, most=11)
        restored.load(groups.state())
        assert [restored.next() for _ in range(3)] == [groups.next() for _ in range(3)]


def test_item_batches_may_end_with_short_batch() -> None:
    rows = ItemBatches(Numbers(7), 3, Stats())

    assert [numbers(rows.next()) for _ in range(4)] == [[0, 1, 2], [3, 4, 5], [6], []]


def test_item_batches_drop_last_drops_short_batch() -> None:
    rows = ItemBatches(Numbers(7), 3, Stats(), drop_last=True)

    assert [numbers(rows.next()) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], []]


def test_drop_last_keeps_groups_with_own_size() -> None:
    stage = GroupStage(lambda value: (value["n"] % 2, 2), default_size=4, max_waiting=99, drop_last=True)
    failures = failures_of()
    groups = stage.open(Numbers(7), failures, failures.stats)

    assert [numbers(groups.next()) for _ in range(4)] == [[0, 2], [1, 3], [4, 6], []]


def test_plain_sample_batches_have_origin_hashes_with_keys() -> None:
    def plain_batches(*, with_keys: bool) -> PlainSampleBatches:
        failures = failures_of()
        return PlainSampleBatches(
            SampleStage({}, (), 9).open(References(), failures, failures.stats), 3, with_keys=with_keys
        )

    with_keys, without = plain_batches(with_keys=True).next(), plain_batches(with_keys=False).next()

    assert numbers(with_keys) == numbers(without) == [0, 1, 2]
    assert len({item.origin_hash for item in with_keys}) == 3
    assert {item.origin_hash for item in without} == {0}
