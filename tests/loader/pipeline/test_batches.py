"""Batches of items that are made up: the hooks of batches, their ends, and what is made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.loader.pipeline.made_up import Numbers, failures_of, hook_of
from wdsctl.core.errors import LoaderError
from wdsctl.loader import SkipSample
from wdsctl.loader.pipeline.batches import END, BatchCursor, BatchStage
from wdsctl.loader.pipeline.grouping import ItemBatches
from wdsctl.loader.runtime.failures import log_exception


def numbers(samples: list[Any]) -> Any:
    return {"n": [sample["n"] for sample in samples]}


def halves(samples: list[Any]) -> Iterator[Any]:
    for half in (samples[:2], samples[2:]):
        yield {**numbers(half), "noise": float(torch.rand(1))}


def marked(batch: Any) -> Any:
    return {**batch, "level": float(torch.rand(1))}


def cursor_of(
    batch: Any = None,
    encode: Any = None,
    size: int | None = 3,
    most: int | None = None,
    upstream: Any = None,
    **given: Any,
) -> BatchCursor:
    failures = failures_of(log_exception)
    stage = BatchStage(
        batch_size=size,
        is_batched=size is not None,
        make_batch=numbers,
        batch_hook=None if batch is None else hook_of(batch, "batch"),
        encode_batch=None if encode is None else hook_of(encode, "encode_batch"),
        memories=(),
        **given,
    )
    return stage.open(ItemBatches(upstream or Numbers(most), size or 1, failures.stats), failures, failures.stats)


def drawn(cursor: BatchCursor, count: int) -> list[Any]:
    return [cursor.draw() for _ in range(count)]


def test_so_many_items_make_a_batch_and_the_last_may_be_smaller() -> None:
    cursor = cursor_of(most=7)

    assert drawn(cursor, 4) == [{"n": [0, 1, 2]}, {"n": [3, 4, 5]}, {"n": [6]}, END]
    assert (cursor._stats.batches, cursor._stats.samples) == (3, 7)


def test_without_a_size_samples_go_out_as_they_are() -> None:
    assert [sample["n"] for sample in drawn(cursor_of(size=None), 3)] == [0, 1, 2]


def test_a_batch_hook_may_make_several_and_the_other_hook_sees_each() -> None:
    cursor = cursor_of(halves, marked)
    batches = drawn(cursor, 4)

    assert [batch["n"] for batch in batches] == [[0, 1], [2], [3, 4], [5]]
    assert len({number for batch in batches for number in (batch["noise"], batch["level"])}) == 8


def test_the_restore_keys_are_those_of_the_batch_that_was_drawn_last() -> None:
    cursor = cursor_of()
    drawn(cursor, 2)

    assert cursor.origins() == [(0, 0, 3), (0, 0, 4), (0, 0, 5)]


@pytest.mark.parametrize("hooks", [{}, {"batch": numbers}, {"batch": numbers, "encode": marked}], ids=" ".join)
def test_a_batch_that_is_over_is_not_made_again(hooks: Any) -> None:
    cursor = cursor_of(**hooks)
    drawn(cursor, 2)
    state = cursor.state()
    restored = cursor_of(**hooks)

    restored.load(state)

    assert state == {"upstream": 6, "emitted": 0}
    assert restored._stats.samples == 0
    assert drawn(restored, 3) == drawn(cursor, 3)


@pytest.mark.parametrize("place", range(7))
def test_a_restore_goes_on_between_two_outputs_of_a_batch(place: int) -> None:
    def both(batch: Any) -> Iterator[Any]:
        for half in range(2):
            yield {**batch, "half": half, "level": float(torch.rand(1))}

    cursor = cursor_of(halves, both)
    drawn(cursor, place)
    state = cursor.state()
    rest = drawn(cursor, 9)
    restored = cursor_of(halves, both)

    restored.load(state)

    assert restored.state() == state
    assert drawn(restored, 9) == rest


def test_another_size_after_a_restore_loses_nothing() -> None:
    cursor = cursor_of(numbers, marked)
    drawn(cursor, 2)
    restored = cursor_of(numbers, marked, size=5)

    restored.load(cursor.state())

    assert [batch["n"] for batch in drawn(restored, 2)] == [[6, 7, 8, 9, 10], [11, 12, 13, 14, 15]]


@pytest.mark.parametrize("hook", ["batch", "encode"])
def test_a_batch_that_fails_is_left_out_and_told_with_its_samples(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    def fails(value: Any) -> Any:
        first = value[0]["n"] if hook == "batch" else value["n"][0]
        if first == 3:
            raise ValueError("no")
        return numbers(value) if hook == "batch" else value

    cursor = cursor_of(fails) if hook == "batch" else cursor_of(encode=fails)

    assert drawn(cursor, 2) == [{"n": [0, 1, 2]}, {"n": [6, 7, 8]}]
    assert "samples 3, 4, 5" in caplog.text
    assert cursor._stats.failed == 1


def test_after_so_many_samples_without_a_batch_it_gives_up() -> None:
    def skips(value: Any) -> Any:
        raise SkipSample

    every: list[dict[str, Any]] = [{"batch": skips}, {"encode": skips}]
    for hooks in every:
        with pytest.raises(LoaderError, match="no output from 9 consecutive samples") as raised:
            cursor_of(**hooks, max_empty_draws=8).draw()
        assert raised.value.code == "WDS505"


def test_the_default_batch_that_fails_is_left_out_too() -> None:
    class Odd(Numbers):
        def _item(self, number: int) -> Any:
            item = super()._item(number)
            return item._replace(value={"m": 1}) if number == 1 else item

    cursor = cursor_of(upstream=Odd())

    assert cursor.draw() == {"n": [3, 4, 5]}
    assert cursor._stats.failed == 1
