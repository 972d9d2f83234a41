"""SampleStage alone, on fake references."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.loader.pipeline.fake_stages import Memory, References, failures_of, hook_of
from wdsctl.core.errors import LoaderError, SampleFailed
from wdsctl.loader import SkipSample
from wdsctl.loader.pipeline.samples import SampleCursor, SampleStage
from wdsctl.loader.runtime.failures import FatalSampleError, reraise_exception
from wdsctl.loader.runtime.stats import Stats


def cursor_of(
    *hooks: Any, refs: Any = None, max_empty_draws: int = 100, handler: Any = None, cook: Any = None
) -> SampleCursor:
    failures = failures_of(handler or reraise_exception)
    cooks = {} if cook is None else {0: hook_of(cook, "cook")}
    return SampleStage(cooks, tuple(map(hook_of, hooks)), max_empty_draws).open(
        refs or References(), failures, failures.stats
    )


def numbers(cursor: SampleCursor, count: int) -> list[Any]:
    items = [cursor.next() for _ in range(count)]
    return [None if item is None else item.value["n"] for item in items]


def stats_of(cursor: SampleCursor) -> Stats:
    return cursor._stats


def even(sample: Any) -> Any:
    if sample["n"] % 2:
        raise SkipSample
    return sample


def copies(sample: Any) -> Iterator[Any]:
    for copy in range(sample["n"] % 4):
        yield {**sample, "copy": copy, "noise": float(torch.rand(1))}


def test_skipped_sample_is_replaced_by_next_one() -> None:
    cursor = cursor_of(even)

    assert numbers(cursor, 5) == [0, 2, 4, 6, 8]
    assert stats_of(cursor).skipped == 4


def test_generator_hook_continues_across_calls() -> None:
    cursor = cursor_of(copies)

    items = [cursor.next() for _ in range(6)]

    assert [(item.value["n"], item.value["copy"]) for item in items if item] == [
        (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2),
    ]  # fmt: skip


def test_outputs_of_one_sample_have_distinct_addresses_and_restore_keys() -> None:
    cursor = cursor_of(copies)
    items = [item for item in (cursor.next() for _ in range(6)) if item]

    assert [item.address for item in items] == [1, 2, [2, 1], 3, [3, 1], [3, 2]]
    assert [item.value["__restore_key__"] for item in items[3:]] == [(0, 0, 3), (0, 0, 3, 1), (0, 0, 3, 2)]
    assert [item.restore_keys for item in items[3:]] == [((0, 0, 3),), ((0, 0, 3, 1),), ((0, 0, 3, 2),)]
    assert len({item.origin_hash for item in items}) == 6


def test_cooker_runs_before_hooks_in_order() -> None:
    def cook(sample: Any) -> Iterator[Any]:
        yield {**sample, "path": "a"}
        yield {**sample, "path": "b"}

    def first(sample: Any) -> Any:
        return {**sample, "path": sample["path"] + "1"}

    def second(sample: Any) -> Iterator[Any]:
        yield {**sample, "path": sample["path"] + "x"}
        yield {**sample, "path": sample["path"] + "y"}

    cursor = cursor_of(first, second, cook=cook)
    items = [item for item in (cursor.next() for _ in range(5)) if item]

    assert [item.value["path"] for item in items] == ["a1x", "a1y", "b1x", "b1y", "a1x"]


def test_finite_lane_ends_with_none() -> None:
    assert numbers(cursor_of(even, refs=References(most=5)), 4) == [0, 2, 4, None]
    assert [sample["n"] for sample in cursor_of(refs=References(most=5)).take(9)] == [0, 1, 2, 3, 4]


def test_too_many_empty_draws_raise_error() -> None:
    def skip_all(sample: Any) -> Any:
        raise SkipSample

    cursor = cursor_of(skip_all, max_empty_draws=7)

    with pytest.raises(LoaderError, match="no output from 8 consecutive samples") as raised:
        cursor.next()

    assert raised.value.code == "WDS505"
    assert stats_of(cursor).skipped == 8


def test_max_empty_draws_restarts_after_each_output() -> None:
    def rare(sample: Any) -> Any:
        if sample["n"] % 8 != 7:
            raise SkipSample
        return sample

    assert numbers(cursor_of(rare, max_empty_draws=7), 4) == [7, 15, 23, 31]


def test_restore_reloads_only_unfinished_sample() -> None:
    cursor = cursor_of(copies)
    numbers(cursor, 5)
    state = cursor.state()
    rest = [cursor.next() for _ in range(6)]
    source = Memory()
    restored = cursor_of(copies, refs=References(source))

    restored.load(state)

    assert source.loaded == [3]
    assert [restored.next() for _ in range(6)] == rest


def test_restore_with_fewer_outputs_skips_no_other_sample() -> None:
    cursor = cursor_of(copies)
    numbers(cursor, 6)  # all three of sample 3
    restored = cursor_of(even)

    restored.load(cursor.state())

    assert numbers(restored, 2) == [4, 6]


@pytest.mark.parametrize("take", [lambda cursor: [s["n"] for s in cursor.take(5)], lambda cursor: numbers(cursor, 5)])
def test_unloadable_sample_is_reported_and_skipped(take: Any) -> None:
    reports: list[Any] = []
    refs = References(Memory({1, 3}))
    cursor = cursor_of(refs=refs, handler=lambda *each: reports.append(each))

    assert take(cursor) == [0, 2, 4, 5, 6]
    assert [error.where for error, _, _ in reports] == ["dataset memory, key 1", "dataset memory, key 3"]
    assert stats_of(cursor).failed == 2


@pytest.mark.parametrize("take", [lambda cursor: [s["n"] for s in cursor.take(4)], lambda cursor: numbers(cursor, 4)])
def test_banned_sample_is_counted_and_not_loaded(take: Any) -> None:
    source = Memory()
    cursor = cursor_of(refs=References(source))
    cursor.ban_check = lambda _, pick: pick in {1, 2}

    assert take(cursor) == [0, 3, 4, 5]
    assert set(source.loaded) == {0, 3, 4, 5}
    assert stats_of(cursor).banned == 2


def test_make_items_does_not_disturb_cursor() -> None:
    cursor, uninterrupted = cursor_of(copies), cursor_of(copies)
    numbers(cursor, 2)

    items = cursor.make_items(References().lookup(7), 7)

    assert [item.address for item in items] == [7, [7, 1], [7, 2]]
    assert [cursor.next() for _ in range(4)] == [uninterrupted.next() for _ in range(6)][2:]


def test_report_sample_gets_dataset_key_and_hook() -> None:
    cursor = cursor_of(even)
    reports: list[str] = []
    cursor.report_sample = reports.append

    cursor.next()

    assert reports == ["dataset memory, key 0, reading or decoding it", "key 0, in encode_sample"]


def test_rebuild_of_address_without_output_raises_error() -> None:
    for address, cursor in ((1, cursor_of(even)), ([2, 1], cursor_of(even)), (None, cursor_of(even))):
        with pytest.raises(LoaderError) as raised:
            cursor.rebuild(address)
        assert raised.value.code == "WDS502"
        assert raised.value.hint


def test_prefetch_builds_outputs_of_one_sample_together() -> None:
    source = Memory()
    cursor = cursor_of(copies, refs=References(source))
    items = {str(item.address): item for item in (cursor.next() for _ in range(12)) if item}
    restored = cursor_of(copies, refs=References(source))
    addresses = [[7, 2], 5, 7, [7, 2], [3, 1]]
    source.loaded.clear()

    restored.prefetch(addresses)

    assert [restored.rebuild(address) for address in addresses] == [items[str(address)] for address in addresses]
    assert source.loaded == [7, 5, 3]


def test_prefetch_runs_generator_only_as_far_as_needed() -> None:
    def endless(sample: Any) -> Iterator[Any]:
        while True:
            yield dict(sample)

    cursor = cursor_of(endless)
    cursor.prefetch([[4, 2], 4])

    assert [cursor.rebuild(address).address for address in ([4, 2], 4)] == [[4, 2], 4]


def test_unused_prefetched_items_are_released_on_next() -> None:
    cursor = cursor_of(copies)
    cursor.prefetch([[2, 1], 2])
    cursor.rebuild(2)

    cursor.next()

    assert cursor._rebuilt_items == {}


def test_hook_that_clears_sample_before_failing_raises_sample_failed() -> None:
    def fail_after_clear(sample: Any) -> Any:
        sample.clear()
        raise ValueError("gone")

    with pytest.raises(SampleFailed, match="gone"):
        cursor_of(fail_after_clear).next()


def test_source_without_loadable_samples_is_fatal() -> None:
    cursor = cursor_of(refs=References(Memory(set(range(1000)))), handler=lambda *_: None, max_empty_draws=500)

    with pytest.raises(FatalSampleError, match="100 consecutive samples failed in load"):
        cursor.take(3)
