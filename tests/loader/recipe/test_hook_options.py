from __future__ import annotations

import inspect
from collections.abc import Iterator

from wdsctl.loader.recipe.hooks import HookOptions, hook_options, stateless


class Hooks:
    @stateless
    def bare(self, sample: int) -> int:
        return sample + 1

    @stateless(restore_seeds=True, failure_tolerance=7)
    def with_options(self, sample: int) -> Iterator[int]:
        yield sample

    def unmarked(self, sample: int) -> int:
        return sample


def test_stateless_records_its_options() -> None:
    assert hook_options(Hooks().bare) == HookOptions(is_stateless=True)
    assert hook_options(Hooks.with_options) == HookOptions(is_stateless=True, restore_seeds=True, failure_tolerance=7)
    assert hook_options(Hooks().unmarked) == HookOptions()


def test_failure_tolerance_is_attribute_of_energon() -> None:
    """Megatron-Bridge sets it itself on hooks of older versions, and reads it."""

    @stateless
    def hook(sample: int) -> int:
        return sample

    hook.__failure_tolerance__ = 9  # type: ignore[attr-defined]

    assert hook_options(hook) == HookOptions(is_stateless=True, failure_tolerance=9)
    assert Hooks.with_options.__failure_tolerance__ == 7  # type: ignore[attr-defined]


def test_stateless_leaves_function_unchanged() -> None:
    assert Hooks().bare(1) == 2
    assert inspect.isgeneratorfunction(Hooks.with_options)
    assert list(Hooks().with_options(3)) == [3]
