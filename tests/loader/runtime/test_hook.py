"""A hook by itself: seeded by its value, and what happens when it skips, fails, or gives several outputs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from operator import length_hint
from typing import Any

import numpy as np
import pytest
import torch

from tests.loader.pipeline.made_up import failures_of, hook_of
from wdsctl.core.errors import SampleFailed
from wdsctl.loader import FatalSampleError, SkipSample
from wdsctl.loader.runtime.failures import MAX_SKIP_REASONS, OTHER_REASONS, FailureTracker, reraise_exception
from wdsctl.loader.runtime.stage import NO_OUTPUT


def where(value: Any) -> str:
    return f"value {value}"


def outputs_of(call: Any, value: Any = 1, key: int = 7, failures: FailureTracker | None = None) -> list[Any]:
    return list(hook_of(call).outputs(value, key, failures or failures_of(reraise_exception), where))


def draws(_: Any) -> tuple[float, float, float]:
    return float(torch.rand(1)), float(np.random.rand()), random.random()  # noqa: NPY002 - as hooks do


def test_a_hook_draws_what_its_key_says_whoever_drew_before() -> None:
    first = outputs_of(draws)
    torch.rand(5)

    assert outputs_of(draws) == first
    assert outputs_of(draws, key=8) != first


def test_every_step_of_a_generator_draws_for_itself_whoever_draws_in_between() -> None:
    def several(value: Any) -> Iterator[Any]:
        for _ in range(3):
            yield draws(value)

    truth = outputs_of(several)
    found = []
    for output in hook_of(several).outputs(1, 7, failures_of(), where):
        found.append(output)
        torch.rand(2)
        random.random()

    assert found == truth
    assert len({number for output in truth for number in output}) == 9


def test_a_generator_of_nothing_gives_nothing_and_does_not_count_as_skipped() -> None:
    failures = failures_of(reraise_exception)

    assert outputs_of(lambda _: iter_nothing(), failures=failures) == []
    assert failures.stats.skipped == 0


def iter_nothing() -> Iterator[Any]:
    yield from ()


def test_a_hook_that_is_no_generator_gives_one_and_says_so() -> None:
    made = hook_of(lambda value: [value, value]).outputs(1, 7, failures_of(), where)

    assert length_hint(made, -1) == 1
    assert list(made) == [[1, 1]]
    assert length_hint(made, -1) == 0


def test_what_is_skipped_is_counted_and_gives_nothing() -> None:
    def skips(value: Any) -> Any:
        raise SkipSample

    def skips_then(value: Any) -> Iterator[Any]:
        yield 1
        raise SkipSample

    failures = failures_of(reraise_exception)

    assert hook_of(skips).run(1, 7, failures, where) is NO_OUTPUT
    assert outputs_of(skips, failures=failures) == []
    assert outputs_of(skips_then, failures=failures) == [1]
    assert failures.stats.skipped == 3


def test_skipped_samples_are_counted_by_reason_and_reasons_beyond_a_hundred_together() -> None:
    def skips(value: int) -> Any:
        raise SkipSample(f"reason {value}")

    failures = failures_of(reraise_exception)
    for value in [*range(MAX_SKIP_REASONS + 3), 0]:
        hook_of(skips).run(value, 7, failures, where)

    reasons = failures.stats.skip_reasons
    assert failures.stats.skipped == reasons.total() == MAX_SKIP_REASONS + 4
    assert (reasons["reason 0"], reasons[OTHER_REASONS]) == (2, 3)


@pytest.mark.parametrize("error", [ValueError("no good"), StopIteration(), KeyError("x")], ids=repr)
def test_what_fails_is_told_with_its_place_and_gives_nothing(error: Exception) -> None:
    told: list[Any] = []
    failures = failures_of(lambda *each: told.append(each))

    def fails(value: Any) -> Any:
        raise error

    assert outputs_of(fails, failures=failures) == []
    ((given, value, _),) = told
    assert isinstance(given, SampleFailed)
    assert (given.where, value, given.__cause__) == ("value 1", 1, error)


def test_what_a_generator_gave_before_it_failed_stays() -> None:
    def fails(value: Any) -> Iterator[Any]:
        yield 1
        raise ValueError("in the middle")

    failures = failures_of()

    assert outputs_of(fails, failures=failures) == [1]
    assert failures.stats.failed == 1


def test_none_is_no_output_and_a_generator_may_say_so() -> None:
    with pytest.raises(SampleFailed, match="returned None"):
        outputs_of(lambda _: None)


def test_a_generator_that_yields_none_has_failed() -> None:
    def forgets(value: Any) -> Iterator[Any]:
        yield 1
        yield None
        yield 2

    failures = failures_of()

    assert outputs_of(forgets, failures=failures) == [1]
    assert failures.stats.failed == 1
    with pytest.raises(SampleFailed, match="yielded None"):
        outputs_of(forgets)


def test_a_generator_that_always_fails_is_given_up_as_any_other_hook() -> None:
    def fails(value: Any) -> Iterator[Any]:
        yield 1 / value

    failures = failures_of(tolerance=2)

    assert outputs_of(fails, 0, failures=failures) == []
    with pytest.raises(FatalSampleError, match="division by zero"):
        outputs_of(fails, 0, failures=failures)


def test_failures_in_a_row_begin_anew_after_a_success() -> None:
    failures = failures_of(tolerance=2)

    def odd(value: Any) -> Any:
        if value % 2:
            raise ValueError("odd")
        return value

    for value in range(9):
        outputs_of(odd, value, failures=failures)
    assert failures.stats.failed == 4


def test_an_interrupt_passes_through() -> None:
    def interrupted(value: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outputs_of(interrupted)
