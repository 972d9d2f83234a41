"""Packing by the task encoder's hooks: buffers, selection and packs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.loader.pipeline.fake_stages import Numbers, failures_of, hook_of
from wdsctl.core.errors import LoaderError, SampleFailed
from wdsctl.loader import SkipSample
from wdsctl.loader.packing.hook_stage import HookPackCursor, HookPackStage
from wdsctl.loader.runtime.failures import log_exception, reraise_exception
from wdsctl.loader.runtime.stage import PipelineItem


def pairs(samples: list[Any]) -> list[list[Any]]:
    return [list(pair) for pair in zip(samples[::2], samples[1::2], strict=False)]


def merge_samples(samples: list[Any]) -> Any:
    return {"__key__": "pack", "__restore_key__": None, "of": [sample["n"] for sample in samples]}


def packs_of(
    select: Any = pairs,
    pack: Any = merge_samples,
    post: Any = None,
    upstream: Any = None,
    handler: Any = reraise_exception,
    **options: Any,
) -> HookPackCursor:
    failures = failures_of(handler)
    hooks = hook_of(select, "select_samples_to_pack"), hook_of(pack, "pack_selected_samples")
    post_hook = None if post is None else hook_of(post, "postencode_sample")
    return HookPackStage(5, *hooks, post_hook, **options).open(upstream or Numbers(), None, failures, failures.stats)


def read_packs(cursor: HookPackCursor, count: int) -> list[Any]:
    items = [cursor.next() for _ in range(count)]
    return [None if item is None else item.value["of"] for item in items]


def test_packs_keep_order_of_selection() -> None:
    cursor = packs_of(lambda samples: [samples[3:], samples[:2]])

    assert read_packs(cursor, 4) == [[3, 4], [0, 1], [8, 9], [5, 6]]
    assert cursor._stats.left_out == 2


def test_unselected_samples_are_counted_as_left_out() -> None:
    cursor = packs_of()

    assert read_packs(cursor, 4) == [[0, 1], [2, 3], [5, 6], [7, 8]]
    assert cursor._stats.left_out == 2


def test_sample_may_be_in_two_packs_and_empty_packs_are_dropped() -> None:
    cursor = packs_of(lambda samples: [samples[:2], [], samples[1:]])

    assert read_packs(cursor, 3) == [[0, 1], [1, 2, 3, 4], [5, 6]]
    assert cursor._stats.left_out == 0


def test_last_buffer_of_finite_lane_may_be_smaller() -> None:
    assert read_packs(packs_of(upstream=Numbers(7)), 4) == [[0, 1], [2, 3], [5, 6], None]


def test_restore_key_of_pack_has_samples_and_step() -> None:
    def twice(samples: list[Any]) -> Iterator[Any]:
        for _ in range(2):
            yield merge_samples(samples)

    cursor = packs_of(pack=twice)
    items = [item for item in (cursor.next() for _ in range(3)) if item]

    assert [item.value["__restore_key__"] for item in items] == [
        ("pack", 0, (0, 0, 0), (0, 0, 1)),
        ("pack", 1, (0, 0, 0), (0, 0, 1)),
        ("pack", 0, (0, 0, 2), (0, 0, 3)),
    ]
    assert [item.address for item in items] == [
        {"samples": [0, 1], "step": 0},
        {"samples": [0, 1], "step": 1},
        {"samples": [2, 3], "step": 0},
    ]
    assert len({item.origin_hash for item in items}) == 3


def test_postencode_runs_only_on_packed_samples() -> None:
    encoded: list[int] = []

    def post(sample: Any) -> Any:
        encoded.append(sample["n"])
        if sample["n"] == 2:
            raise SkipSample
        return {**sample, "n": sample["n"] * 10}

    cursor = packs_of(post=post)

    assert read_packs(cursor, 3) == [[0, 10], [30], [50, 60]]
    assert encoded == [0, 1, 2, 3, 5, 6]


def test_rebuilt_pack_has_same_random_values() -> None:
    def add_noise(samples: list[Any]) -> Any:
        return {**merge_samples(samples), "noise": float(torch.rand(1))}

    def late(sample: Any) -> Any:
        return {**sample, "late": float(torch.rand(1))}

    cursor = packs_of(pack=lambda samples: {**add_noise(samples), "late": [s["late"] for s in samples]}, post=late)
    items = [item for item in (cursor.next() for _ in range(6)) if item]

    assert [cursor.rebuild(item.address) for item in reversed(items)] == items[::-1]
    assert len({item.value["noise"] for item in items}) == 6


@pytest.mark.parametrize("place", range(8))
def test_restored_cursor_continues_within_pack(place: int) -> None:
    def thrice(samples: list[Any]) -> Iterator[Any]:
        for step in range(3):
            yield {**merge_samples(samples), "step": step, "noise": float(torch.rand(1))}

    cursor = packs_of(pack=thrice)
    for _ in range(place):
        cursor.next()
    state = cursor.state()
    rest = [cursor.next() for _ in range(9)]
    restored = packs_of(pack=thrice)

    restored.load(state)

    assert restored.state() == state
    assert [restored.next() for _ in range(9)] == rest


def test_restore_between_buffers_rebuilds_nothing() -> None:
    cursor = packs_of()
    read_packs(cursor, 2)
    upstream = Numbers()
    restored = packs_of(upstream=upstream)

    restored.load(cursor.state())

    assert cursor.state() == {"upstream": 5, "selected": 0, "packs": 0, "emitted": 0, "bans": 0}
    assert upstream.at == 5, "where it goes on; the buffer was not filled"
    assert read_packs(restored, 2) == [[5, 6], [7, 8]]


def test_restore_does_not_rebuild_emitted_pack() -> None:
    cursor = packs_of()
    read_packs(cursor, 1)
    packed: list[int] = []

    def record_pack(samples: list[Any]) -> Any:
        packed.append(samples[0]["n"])
        return merge_samples(samples)

    restored = packs_of(pack=record_pack)

    restored.load(cursor.state())

    assert read_packs(restored, 1) == [[2, 3]]
    assert packed == [2]


def test_rebuild_after_restore_reuses_refilled_buffer() -> None:
    upstream, uninterrupted = Numbers(), packs_of()
    items = [item for item in (uninterrupted.next() for _ in range(3)) if item]
    restored = packs_of(upstream=upstream)
    restored.load(uninterrupted.state())

    assert [restored.rebuild(item.address) for item in items] == items
    assert upstream.rebuilt == [0, 1, 2, 3], "of the buffer before"
    assert read_packs(restored, 2) == read_packs(uninterrupted, 2)


def test_refilled_buffer_is_released_after_next_draw() -> None:
    upstream, uninterrupted = Numbers(), packs_of()
    first = uninterrupted.next()
    restored = packs_of(upstream=upstream)
    restored.load(uninterrupted.state())
    restored.next()

    assert first is not None
    assert restored.rebuild(first.address) == first
    assert upstream.rebuilt == [0, 1]


def test_buffer_with_failing_selection_is_skipped() -> None:
    def select(samples: list[Any]) -> Any:
        if samples[0]["n"] == 0:
            raise ValueError("no")
        return pairs(samples)

    cursor = packs_of(select, handler=log_exception)

    assert read_packs(cursor, 2) == [[5, 6], [7, 8]]
    assert cursor._stats.failed == 1
    with pytest.raises(SampleFailed, match="select_samples_to_pack failed: ValueError: no") as raised:
        packs_of(select).next()
    assert raised.value.where == "samples 0, 1, 2 and 2 more"


@pytest.mark.parametrize(
    ("selection", "failed_hook"),
    [(7, "select_samples_to_pack"), ([1, 2], "select_samples_to_pack"), ([[1]], "pack_selected_samples")],
    ids=repr,
)
def test_invalid_selection_is_reported_and_buffer_skipped(selection: Any, failed_hook: str) -> None:
    calls, errors = iter([selection]), list[Exception]()

    cursor = packs_of(lambda samples: next(calls, pairs(samples)), handler=lambda error, *_: errors.append(error))

    assert read_packs(cursor, 2) == [[5, 6], [7, 8]]
    (error,) = errors
    assert isinstance(error, SampleFailed)
    assert error.message.startswith(f"{failed_hook} failed: TypeError: 'int' object")
    (cause,) = cursor._stats.causes
    assert cause.startswith(f"{failed_hook}: TypeError")


def test_failing_pack_is_skipped() -> None:
    def pack(samples: list[Any]) -> Any:
        if samples[0]["n"] == 0:
            raise ValueError("no")
        return merge_samples(samples)

    assert read_packs(packs_of(pack=pack, handler=log_exception), 2) == [[2, 3], [5, 6]]


def test_too_many_samples_without_pack_raise_error() -> None:
    def skip(samples: list[Any]) -> Any:
        raise SkipSample

    cases: list[dict[str, Any]] = [{"select": lambda _: []}, {"select": skip}, {"pack": skip}, {"post": skip}]
    for hooks in cases:
        with pytest.raises(LoaderError, match="no output from 15 consecutive samples") as raised:
            packs_of(**hooks, max_empty_draws=14).next()
        assert raised.value.code == "WDS505"


@pytest.mark.parametrize("banned", range(3))
def test_half_emitted_pack_keeps_samples_banned_later(banned: int) -> None:
    def split_pack(samples: list[Any]) -> Iterator[Any]:
        for sample in samples:
            yield merge_samples([sample])

    class Banned(Numbers):
        def _item(self, number: int) -> PipelineItem:
            return super()._item(number)._replace(banned_by=2 if number == banned else 0)

    cursor = packs_of(lambda samples: [samples[:3], samples[:3]], split_pack)
    cursor.ban_count = 1
    items = [item for item in (cursor.next() for _ in range(3)) if item]
    state = {**cursor.state(), "emitted": 1}
    restored = packs_of(lambda samples: [samples[:3], samples[:3]], split_pack, upstream=Banned())
    restored.ban_count = 2

    restored.load(state)

    assert restored.state() == state
    assert read_packs(restored, 4) == [[1], [2], *([n] for n in range(3) if n != banned)]
    assert [restored.rebuild(item.address).value["of"] for item in items] == [[0], [1], [2]], "what waits in a group"


def test_rebuilt_single_output_pack_omits_banned_samples() -> None:
    class Banned(Numbers):
        def _item(self, number: int) -> PipelineItem:
            return super()._item(number)._replace(banned_by=int(number < 3))

    cursor = packs_of(upstream=Banned())

    assert cursor.rebuild({"samples": [2, 3], "step": 0}).value["of"] == [3]
    assert cursor.rebuild({"samples": [0, 1], "step": 0}).banned_by
    assert cursor._stats.banned == 3


def test_rebuild_of_pack_without_output_raises_error() -> None:
    with pytest.raises(LoaderError, match="has no output any more") as raised:
        packs_of().rebuild({"samples": [0, 1], "step": 1})

    assert raised.value.code == "WDS502"
