"""A hook alone: its random seed, and what happens when it skips, fails or yields several outputs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from operator import length_hint
from typing import Any

import numpy as np
import pytest
import torch

from tests.loader.pipeline.fake_stages import failures_of, hook_of
from wdsctl.core.errors import SampleFailed
from wdsctl.loader import FatalSampleError, SkipSample
from wdsctl.loader.runtime.failures import FailureTracker, reraise_exception
from wdsctl.loader.runtime.stage import NO_OUTPUT
from wdsctl.loader.runtime.stats import MAX_SKIP_REASONS, OTHER_REASONS


def where(value: Any) -> str:
    return f"value {value}"


def outputs_of(call: Any, value: Any = 1, key: int = 7, failures: FailureTracker | None = None) -> list[Any]:
    return list(hook_of(call).outputs(value, key, failures or failures_of(reraise_exception), where))


def draws(_: Any) -> tuple[float, float, float]:
    return float(torch.rand(1)), float(np.random.rand()), random.random()  # noqa: NPY002 - as hooks do


def test_hook_random_numbers_depend_only_on_key() -> None:
    first = outputs_of(draws)
    torch.rand(5)

    assert outputs_of(draws) == first
    assert outputs_of(draws, key=8) != first


def test_generator_hook_random_numbers_are_independent_of_draws_between_steps() -> None:
    def several(value: Any) -> Iterator[Any]:
        for _ in range(3):
            yield draws(value)

    expected = outputs_of(several)
    actual = []
    for output in hook_of(several).outputs(1, 7, failures_of(), where):
        actual.append(output)
        torch.rand(2)
        random.random()

    assert actual == expected
    assert len({number for output in expected for number in output}) == 9


def test_empty_generator_is_not_counted_as_skipped() -> None:
    failures = failures_of(reraise_exception)

    assert outputs_of(lambda _: iter_nothing(), failures=failures) == []
    assert failures.stats.skipped == 0


def iter_nothing() -> Iterator[Any]:
    yield from ()


def test_plain_hook_has_one_output_and_length_hint() -> None:
    outputs = hook_of(lambda value: [value, value]).outputs(1, 7, failures_of(), where)

    assert length_hint(outputs, -1) == 1
    assert list(outputs) == [[1, 1]]
    assert length_hint(outputs, -1) == 0


def test_skip_sample_is_counted_and_has_no_output() -> None:
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


def test_skip_reasons_are_counted_up_to_limit() -> None:
    def skips(value: int) -> Any:
        raise SkipSample(f"reason {value}")

    failures = failures_of(reraise_exception)
    for value in [*range(MAX_SKIP_REASONS + 3), 0]:
        hook_of(skips).run(value, 7, failures, where)

    reasons = failures.stats.skip_reasons
    assert failures.stats.skipped == reasons.total() == MAX_SKIP_REASONS + 4
    assert (reasons["reason 0"], reasons[OTHER_REASONS]) == (2, 3)


@pytest.mark.parametrize("error", [ValueError("no good"), StopIteration(), KeyError("x")], ids=repr)
def test_failing_hook_is_reported_with_location_and_has_no_output(error: Exception) -> None:
    reports: list[Any] = []
    failures = failures_of(lambda *each: reports.append(each))

    def fails(value: Any) -> Any:
        raise error

    assert outputs_of(fails, failures=failures) == []
    ((failure, value, _),) = reports
    assert isinstance(failure, SampleFailed)
    assert (failure.where, value, failure.__cause__) == ("value 1", 1, error)


def test_outputs_before_generator_failure_are_kept() -> None:
    def fails(value: Any) -> Iterator[Any]:
        yield 1
        raise ValueError("in the middle")

    failures = failures_of()

    assert outputs_of(fails, failures=failures) == [1]
    assert failures.stats.failed == 1


def test_hook_that_returns_none_fails() -> None:
    with pytest.raises(SampleFailed, match="returned None"):
        outputs_of(lambda _: None)


def test_generator_that_yields_none_fails() -> None:
    def yields_none(value: Any) -> Iterator[Any]:
        yield 1
        yield None
        yield 2

    failures = failures_of()

    assert outputs_of(yields_none, failures=failures) == [1]
    assert failures.stats.failed == 1
    with pytest.raises(SampleFailed, match="yielded None"):
        outputs_of(yields_none)


def test_generator_failures_count_toward_tolerance() -> None:
    def fails(value: Any) -> Iterator[Any]:
        yield 1 / value

    failures = failures_of(tolerance=2)

    assert outputs_of(fails, 0, failures=failures) == []
    with pytest.raises(FatalSampleError, match="division by zero"):
        outputs_of(fails, 0, failures=failures)


def test_success_resets_consecutive_failures() -> None:
    failures = failures_of(tolerance=2)

    def odd(value: Any) -> Any:
        if value % 2:
            raise ValueError("odd")
        return value

    for value in range(9):
        outputs_of(odd, value, failures=failures)
    assert failures.stats.failed == 4


def test_keyboard_interrupt_passes_through() -> None:
    def interrupted(value: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outputs_of(interrupted)
