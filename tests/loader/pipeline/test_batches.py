"""BatchStage on fake items: batch hooks, ends of lanes, and restores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.loader.pipeline.fake_stages import Numbers, failures_of, hook_of
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


def add_level(batch: Any) -> Any:
    return {**batch, "level": float(torch.rand(1))}


def cursor_of(
    batch: Any = None,
    encode: Any = None,
    size: int | None = 3,
    most: int | None = None,
    upstream: Any = None,
    **options: Any,
) -> BatchCursor:
    failures = failures_of(log_exception)
    stage = BatchStage(
        batch_size=size,
        is_batched=size is not None,
        make_batch=numbers,
        batch_hook=None if batch is None else hook_of(batch, "batch"),
        encode_batch=None if encode is None else hook_of(encode, "encode_batch"),
        memories=(),
        **options,
    )
    return stage.open(ItemBatches(upstream or Numbers(most), size or 1, failures.stats), failures, failures.stats)


def draw_batches(cursor: BatchCursor, count: int) -> list[Any]:
    return [cursor.draw() for _ in range(count)]


def test_batches_have_batch_size_and_last_may_be_smaller() -> None:
    cursor = cursor_of(most=7)

    assert draw_batches(cursor, 4) == [{"n": [0, 1, 2]}, {"n": [3, 4, 5]}, {"n": [6]}, END]
    assert (cursor._stats.batches, cursor._stats.samples) == (3, 7)


def test_samples_are_returned_unbatched_without_batch_size() -> None:
    assert [sample["n"] for sample in draw_batches(cursor_of(size=None), 3)] == [0, 1, 2]


def test_batch_hook_may_yield_several_batches_for_encode_batch() -> None:
    cursor = cursor_of(halves, add_level)
    batches = draw_batches(cursor, 4)

    assert [batch["n"] for batch in batches] == [[0, 1], [2], [3, 4], [5]]
    assert len({number for batch in batches for number in (batch["noise"], batch["level"])}) == 8


def test_origins_are_restore_keys_of_last_batch() -> None:
    cursor = cursor_of()
    draw_batches(cursor, 2)

    assert cursor.origins() == [(0, 0, 3), (0, 0, 4), (0, 0, 5)]


@pytest.mark.parametrize("hooks", [{}, {"batch": numbers}, {"batch": numbers, "encode": add_level}], ids=" ".join)
def test_restore_does_not_rebuild_finished_batch(hooks: Any) -> None:
    cursor = cursor_of(**hooks)
    draw_batches(cursor, 2)
    state = cursor.state()
    restored = cursor_of(**hooks)

    restored.load(state)

    assert state == {"upstream": 6, "emitted": 0}
    assert restored._stats.samples == 0
    assert draw_batches(restored, 3) == draw_batches(cursor, 3)


@pytest.mark.parametrize("place", range(7))
def test_restored_cursor_continues_between_outputs_of_batch(place: int) -> None:
    def encode_halves(batch: Any) -> Iterator[Any]:
        for half in range(2):
            yield {**batch, "half": half, "level": float(torch.rand(1))}

    cursor = cursor_of(halves, encode_halves)
    draw_batches(cursor, place)
    state = cursor.state()
    rest = draw_batches(cursor, 9)
    restored = cursor_of(halves, encode_halves)

    restored.load(state)

    assert restored.state() == state
    assert draw_batches(restored, 9) == rest


def test_batch_size_may_change_on_restore_without_loss() -> None:
    cursor = cursor_of(numbers, add_level)
    draw_batches(cursor, 2)
    restored = cursor_of(numbers, add_level, size=5)

    restored.load(cursor.state())

    assert [batch["n"] for batch in draw_batches(restored, 2)] == [[6, 7, 8, 9, 10], [11, 12, 13, 14, 15]]


@pytest.mark.parametrize("hook", ["batch", "encode"])
def test_failing_batch_is_skipped_and_reported_with_samples(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(value: Any) -> Any:
        first = value[0]["n"] if hook == "batch" else value["n"][0]
        if first == 3:
            raise ValueError("no")
        return numbers(value) if hook == "batch" else value

    cursor = cursor_of(fail) if hook == "batch" else cursor_of(encode=fail)

    assert draw_batches(cursor, 2) == [{"n": [0, 1, 2]}, {"n": [6, 7, 8]}]
    assert "samples 3, 4, 5" in caplog.text
    assert cursor._stats.failed == 1


def test_too_many_samples_without_batch_raise_error() -> None:
    def skip(value: Any) -> Any:
        raise SkipSample

    cases: list[dict[str, Any]] = [{"batch": skip}, {"encode": skip}]
    for hooks in cases:
        with pytest.raises(LoaderError, match="no output from 9 consecutive samples") as raised:
            cursor_of(**hooks, max_empty_draws=8).draw()
        assert raised.value.code == "WDS505"


def test_failing_default_batch_is_skipped() -> None:
    class Odd(Numbers):
        def _item(self, number: int) -> Any:
            item = super()._item(number)
            return item._replace(value={"m": 1}) if number == 1 else item

    cursor = cursor_of(upstream=Odd())

    assert cursor.draw() == {"n": [3, 4, 5]}
    assert cursor._stats.failed == 1
