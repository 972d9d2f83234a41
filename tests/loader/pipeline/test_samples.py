"""The stage of samples, by itself: over references that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.loader.pipeline.made_up import Memory, References, failures_of, hook_of
from wdsctl.core.errors import LoaderError, SampleFailed
from wdsctl.loader import SkipSample
from wdsctl.loader.pipeline.samples import SampleCursor, SampleStage
from wdsctl.loader.runtime.failures import FatalSampleError, Stats, reraise_exception


def cursor_of(
    *hooks: Any, refs: Any = None, patience: int = 100, handler: Any = None, cook: Any = None
) -> SampleCursor:
    failures = failures_of(handler or reraise_exception)
    cooks = {} if cook is None else {0: hook_of(cook, "cook")}
    return SampleStage(cooks, tuple(map(hook_of, hooks)), patience).open(refs or References(), failures, failures.stats)


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


def test_a_sample_that_is_skipped_is_replaced_by_the_next_one() -> None:
    cursor = cursor_of(even)

    assert numbers(cursor, 5) == [0, 2, 4, 6, 8]
    assert stats_of(cursor).skipped == 4


def test_a_generator_goes_on_where_it_was() -> None:
    cursor = cursor_of(copies)

    found = [cursor.next() for _ in range(6)]

    assert [(item.value["n"], item.value["copy"]) for item in found if item] == [
        (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2),
    ]  # fmt: skip


def test_addresses_keys_and_restore_keys_tell_the_outputs_of_a_sample_apart() -> None:
    cursor = cursor_of(copies)
    items = [item for item in (cursor.next() for _ in range(6)) if item]

    assert [item.address for item in items] == [1, 2, [2, 1], 3, [3, 1], [3, 2]]
    assert [item.value["__restore_key__"] for item in items[3:]] == [(0, 0, 3), (0, 0, 3, 1), (0, 0, 3, 2)]
    assert [item.restore_keys for item in items[3:]] == [((0, 0, 3),), ((0, 0, 3, 1),), ((0, 0, 3, 2),)]
    assert len({item.origin_hash for item in items}) == 6


def test_hooks_run_one_after_the_other_and_a_cooker_before_them() -> None:
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


def test_a_finite_lane_ends() -> None:
    assert numbers(cursor_of(even, refs=References(most=5)), 4) == [0, 2, 4, None]
    assert [sample["n"] for sample in cursor_of(refs=References(most=5)).take(9)] == [0, 1, 2, 3, 4]


def test_after_so_many_that_gave_nothing_it_gives_up() -> None:
    def nothing(sample: Any) -> Any:
        raise SkipSample

    cursor = cursor_of(nothing, patience=7)

    with pytest.raises(LoaderError, match="no output from 8 consecutive samples") as raised:
        cursor.next()

    assert raised.value.code == "WDS505"
    assert stats_of(cursor).skipped == 8


def test_patience_counts_anew_after_each_output() -> None:
    def rare(sample: Any) -> Any:
        if sample["n"] % 8 != 7:
            raise SkipSample
        return sample

    assert numbers(cursor_of(rare, patience=7), 4) == [7, 15, 23, 31]


def test_a_restore_reads_the_sample_under_way_again_and_no_other() -> None:
    cursor = cursor_of(copies)
    numbers(cursor, 5)
    state = cursor.state()
    rest = [cursor.next() for _ in range(6)]
    source = Memory()
    restored = cursor_of(copies, refs=References(source))

    restored.load(state)

    assert source.loaded == [3]
    assert [restored.next() for _ in range(6)] == rest


def test_of_a_hook_that_gives_fewer_than_before_nothing_more_is_thrown_away() -> None:
    cursor = cursor_of(copies)
    numbers(cursor, 6)  # all three of sample 3
    restored = cursor_of(even)

    restored.load(cursor.state())

    assert numbers(restored, 2) == [4, 6]


@pytest.mark.parametrize("take", [lambda cursor: [s["n"] for s in cursor.take(5)], lambda cursor: numbers(cursor, 5)])
def test_what_cannot_be_loaded_is_told_and_left_out(take: Any) -> None:
    told: list[Any] = []
    refs = References(Memory({1, 3}))
    cursor = cursor_of(refs=refs, handler=lambda *each: told.append(each))

    assert take(cursor) == [0, 2, 4, 5, 6]
    assert [error.where for error, _, _ in told] == ["dataset memory, key 1", "dataset memory, key 3"]
    assert stats_of(cursor).failed == 2


@pytest.mark.parametrize("take", [lambda cursor: [s["n"] for s in cursor.take(4)], lambda cursor: numbers(cursor, 4)])
def test_what_is_banned_is_counted_and_neither_loaded_nor_told(take: Any) -> None:
    source = Memory()
    cursor = cursor_of(refs=References(source))
    cursor.ban_check = lambda _, pick: pick in {1, 2}

    assert take(cursor) == [0, 3, 4, 5]
    assert set(source.loaded) == {0, 3, 4, 5}
    assert stats_of(cursor).banned == 2


def test_all_that_one_reference_becomes_is_made_beside_what_is_under_way() -> None:
    cursor, undisturbed = cursor_of(copies), cursor_of(copies)
    numbers(cursor, 2)

    items = cursor.make_items(References().lookup(7), 7)

    assert [item.address for item in items] == [7, [7, 1], [7, 2]]
    assert [cursor.next() for _ in range(4)] == [undisturbed.next() for _ in range(6)][2:]


def test_what_is_told_is_the_dataset_the_key_and_the_hook() -> None:
    cursor = cursor_of(even)
    told: list[str] = []
    cursor.report_sample = told.append

    cursor.next()

    assert told == ["dataset memory, key 0, reading or decoding it", "key 0, in encode_sample"]


def test_an_address_that_gives_nothing_any_more_says_so() -> None:
    for address, cursor in ((1, cursor_of(even)), ([2, 1], cursor_of(even)), (None, cursor_of(even))):
        with pytest.raises(LoaderError) as raised:
            cursor.rebuild(address)
        assert raised.value.code == "WDS502"
        assert raised.value.hint


def test_outputs_of_one_sample_that_were_foreseen_are_made_together() -> None:
    source = Memory()
    cursor = cursor_of(copies, refs=References(source))
    items = {str(item.address): item for item in (cursor.next() for _ in range(12)) if item}
    again = cursor_of(copies, refs=References(source))
    wanted = [[7, 2], 5, 7, [7, 2], [3, 1]]
    source.loaded.clear()

    again.prefetch(wanted)

    assert [again.rebuild(address) for address in wanted] == [items[str(address)] for address in wanted]
    assert source.loaded == [7, 5, 3]


def test_no_more_of_a_generator_is_run_than_what_waits() -> None:
    def endless(sample: Any) -> Iterator[Any]:
        while True:
            yield dict(sample)

    cursor = cursor_of(endless)
    cursor.prefetch([[4, 2], 4])

    assert [cursor.rebuild(address).address for address in ([4, 2], 4)] == [[4, 2], 4]


def test_what_was_foreseen_and_not_asked_for_is_let_go() -> None:
    cursor = cursor_of(copies)
    cursor.prefetch([[2, 1], 2])
    cursor.rebuild(2)

    cursor.next()

    assert cursor._rebuilt_items == {}


def test_a_hook_that_changed_the_sample_before_it_failed_is_named_all_the_same() -> None:
    def breaks(sample: Any) -> Any:
        sample.clear()
        raise ValueError("gone")

    with pytest.raises(SampleFailed, match="gone"):
        cursor_of(breaks).next()


def test_a_source_that_is_broken_throughout_ends_the_run() -> None:
    cursor = cursor_of(refs=References(Memory(set(range(1000)))), handler=lambda *_: None, patience=500)

    with pytest.raises(FatalSampleError, match="100 consecutive samples failed in load"):
        cursor.take(3)
