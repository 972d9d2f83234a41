"""Packs by the encoder's hooks: a buffer, what is selected of it, and what is made of that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.loader.pipeline.made_up import Numbers, failures_of, hook_of
from wdsctl.core.errors import LoaderError, SampleFailed
from wdsctl.loader import SkipSample
from wdsctl.loader.packing.hook_stage import HookPackCursor, HookPackStage
from wdsctl.loader.runtime.failures import log_exception, reraise_exception
from wdsctl.loader.runtime.stage import PipelineItem


def pairs(samples: list[Any]) -> list[list[Any]]:
    return [list(pair) for pair in zip(samples[::2], samples[1::2], strict=False)]


def together(samples: list[Any]) -> Any:
    return {"__key__": "pack", "__restore_key__": None, "of": [sample["n"] for sample in samples]}


def packs_of(
    select: Any = pairs,
    pack: Any = together,
    post: Any = None,
    upstream: Any = None,
    handler: Any = reraise_exception,
    **options: Any,
) -> HookPackCursor:
    failures = failures_of(handler)
    hooks = hook_of(select, "select_samples_to_pack"), hook_of(pack, "pack_selected_samples")
    posted = None if post is None else hook_of(post, "postencode_sample")
    return HookPackStage(5, *hooks, posted, **options).open(upstream or Numbers(), None, failures, failures.stats)


def made(cursor: HookPackCursor, count: int) -> list[Any]:
    items = [cursor.next() for _ in range(count)]
    return [None if item is None else item.value["of"] for item in items]


def test_packs_come_in_the_order_in_which_they_were_selected() -> None:
    cursor = packs_of(lambda samples: [samples[3:], samples[:2]])

    assert made(cursor, 4) == [[3, 4], [0, 1], [8, 9], [5, 6]]
    assert cursor._stats.left_out == 2


def test_what_is_not_selected_is_left_out_and_counted() -> None:
    cursor = packs_of()

    assert made(cursor, 4) == [[0, 1], [2, 3], [5, 6], [7, 8]]
    assert cursor._stats.left_out == 2


def test_a_sample_may_be_in_two_packs_and_empty_packs_do_not_come() -> None:
    cursor = packs_of(lambda samples: [samples[:2], [], samples[1:]])

    assert made(cursor, 3) == [[0, 1], [1, 2, 3, 4], [5, 6]]
    assert cursor._stats.left_out == 0


def test_the_last_buffer_of_a_finite_lane_may_be_smaller() -> None:
    assert made(packs_of(upstream=Numbers(7)), 4) == [[0, 1], [2, 3], [5, 6], None]


def test_a_restore_key_names_the_samples_and_the_step() -> None:
    def twice(samples: list[Any]) -> Iterator[Any]:
        for _ in range(2):
            yield together(samples)

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


def test_the_second_half_of_encoding_runs_on_the_samples_of_a_pack_only() -> None:
    seen: list[int] = []

    def post(sample: Any) -> Any:
        seen.append(sample["n"])
        if sample["n"] == 2:
            raise SkipSample
        return {**sample, "n": sample["n"] * 10}

    cursor = packs_of(post=post)

    assert made(cursor, 3) == [[0, 10], [30], [50, 60]]
    assert seen == [0, 1, 2, 3, 5, 6]


def test_what_hooks_draw_for_a_pack_is_the_same_when_it_is_made_again() -> None:
    def draws(samples: list[Any]) -> Any:
        return {**together(samples), "noise": float(torch.rand(1))}

    def late(sample: Any) -> Any:
        return {**sample, "late": float(torch.rand(1))}

    cursor = packs_of(pack=lambda samples: {**draws(samples), "late": [s["late"] for s in samples]}, post=late)
    items = [item for item in (cursor.next() for _ in range(6)) if item]

    assert [cursor.rebuild(item.address) for item in reversed(items)] == items[::-1]
    assert len({item.value["noise"] for item in items}) == 6


@pytest.mark.parametrize("place", range(8))
def test_a_restore_goes_on_in_the_middle_of_a_pack(place: int) -> None:
    def thrice(samples: list[Any]) -> Iterator[Any]:
        for step in range(3):
            yield {**together(samples), "step": step, "noise": float(torch.rand(1))}

    cursor = packs_of(pack=thrice)
    for _ in range(place):
        cursor.next()
    state = cursor.state()
    rest = [cursor.next() for _ in range(9)]
    restored = packs_of(pack=thrice)

    restored.load(state)

    assert restored.state() == state
    assert [restored.next() for _ in range(9)] == rest


def test_between_two_buffers_nothing_is_made_again() -> None:
    cursor = packs_of()
    made(cursor, 2)
    upstream = Numbers()
    restored = packs_of(upstream=upstream)

    restored.load(cursor.state())

    assert cursor.state() == {"upstream": 5, "packs": 0, "emitted": 0, "bans": 0}
    assert upstream.at == 5, "where it goes on; the buffer was not filled"
    assert made(restored, 2) == [[5, 6], [7, 8]]


def test_a_pack_that_has_left_is_not_made_again() -> None:
    cursor = packs_of()
    made(cursor, 1)
    packed: list[int] = []

    def noted(samples: list[Any]) -> Any:
        packed.append(samples[0]["n"])
        return together(samples)

    restored = packs_of(pack=noted)

    restored.load(cursor.state())

    assert made(restored, 1) == [[2, 3]]
    assert packed == [2]


def test_a_pack_that_waits_takes_its_samples_from_the_buffer_that_was_filled_again() -> None:
    upstream, undisturbed = Numbers(), packs_of()
    items = [item for item in (undisturbed.next() for _ in range(3)) if item]
    restored = packs_of(upstream=upstream)
    restored.load(undisturbed.state())

    assert [restored.rebuild(item.address) for item in items] == items
    assert upstream.made_again == [0, 1, 2, 3], "of the buffer before"
    assert made(restored, 2) == made(undisturbed, 2)


def test_once_it_goes_on_a_buffer_is_held_no_longer_for_what_waits() -> None:
    upstream, undisturbed = Numbers(), packs_of()
    first = undisturbed.next()
    restored = packs_of(upstream=upstream)
    restored.load(undisturbed.state())
    restored.next()

    assert first is not None
    assert restored.rebuild(first.address) == first
    assert upstream.made_again == [0, 1]


def test_a_buffer_whose_selection_fails_is_left_out() -> None:
    def select(samples: list[Any]) -> Any:
        if samples[0]["n"] == 0:
            raise ValueError("no")
        return pairs(samples)

    cursor = packs_of(select, handler=log_exception)

    assert made(cursor, 2) == [[5, 6], [7, 8]]
    assert cursor._stats.failed == 1
    with pytest.raises(SampleFailed, match="select_samples_to_pack failed: ValueError: no") as raised:
        packs_of(select).next()
    assert raised.value.where == "samples 0, 1, 2 and 2 more"


@pytest.mark.parametrize("answer", [7, [1, 2], [[1]]], ids=repr)
def test_a_selection_that_is_none_is_told_and_left_out(answer: Any) -> None:
    calls = iter([answer])

    cursor = packs_of(lambda samples: next(calls, pairs(samples)), handler=log_exception)

    assert cursor.next() is not None


def test_a_pack_that_fails_is_left_out() -> None:
    def pack(samples: list[Any]) -> Any:
        if samples[0]["n"] == 0:
            raise ValueError("no")
        return together(samples)

    assert made(packs_of(pack=pack, handler=log_exception), 2) == [[2, 3], [5, 6]]


def test_after_so_many_samples_without_a_pack_it_gives_up() -> None:
    def skips(samples: list[Any]) -> Any:
        raise SkipSample

    every: list[dict[str, Any]] = [{"select": lambda _: []}, {"select": skips}, {"pack": skips}, {"post": skips}]
    for hooks in every:
        with pytest.raises(LoaderError, match="no output from 15 consecutive samples") as raised:
            packs_of(**hooks, max_empty_draws=14).next()
        assert raised.value.code == "WDS505"


@pytest.mark.parametrize("banned", range(3))
def test_of_a_pack_that_is_half_out_the_rest_comes_as_it_was_begun(banned: int) -> None:
    def apart(samples: list[Any]) -> Iterator[Any]:
        for sample in samples:
            yield together([sample])

    class Banned(Numbers):
        def _item(self, number: int) -> PipelineItem:
            return super()._item(number)._replace(banned_by=2 if number == banned else 0)

    cursor = packs_of(lambda samples: [samples[:3], samples[:3]], apart)
    cursor.ban_count = 1
    items = [item for item in (cursor.next() for _ in range(3)) if item]
    state = {**cursor.state(), "emitted": 1}
    restored = packs_of(lambda samples: [samples[:3], samples[:3]], apart, upstream=Banned())
    restored.ban_count = 2

    restored.load(state)

    assert restored.state() == state
    assert made(restored, 4) == [[1], [2], *([n] for n in range(3) if n != banned)]
    assert [restored.rebuild(item.address).value["of"] for item in items] == [[0], [1], [2]], "what waits in a group"


def test_a_pack_of_one_output_that_waits_is_made_again_without_what_is_banned() -> None:
    class Banned(Numbers):
        def _item(self, number: int) -> PipelineItem:
            return super()._item(number)._replace(banned_by=int(number < 3))

    cursor = packs_of(upstream=Banned())

    assert cursor.rebuild({"samples": [2, 3], "step": 0}).value["of"] == [3]
    assert cursor.rebuild({"samples": [0, 1], "step": 0}).banned_by
    assert cursor._stats.banned == 3


def test_a_pack_that_gives_nothing_any_more_says_so() -> None:
    with pytest.raises(LoaderError, match="has no output any more") as raised:
        packs_of().rebuild({"samples": [0, 1], "step": 1})

    assert raised.value.code == "WDS502"
