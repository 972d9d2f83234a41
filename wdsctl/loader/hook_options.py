"""`@stateless`, as Energon's code has it on its hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = "__hook_options__"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """What its author said about a hook. `failure_tolerance`: failures in a row before the loader gives up."""

    is_stateless: bool = False
    restore_seeds: bool = False
    failure_tolerance: int | None = None


@overload
def stateless(fn: F) -> F: ...


@overload
def stateless(*, restore_seeds: bool = False, failure_tolerance: int | None = None) -> Callable[[F], F]: ...


def stateless(
    fn: F | None = None, *, restore_seeds: bool = False, failure_tolerance: int | None = None
) -> F | Callable[[F], F]:
    """Mark a hook as a function of its sample alone, with or without brackets.

    The mark itself is needed for nothing: every hook that is overridden gets its generators seeded from the sample,
    whether marked or not, so a resumed run draws what the first one drew. `failure_tolerance`: failures of this hook in
    a row that end the run, instead of 100; 0 is any number.
    """

    def mark(hook: F) -> F:
        options = HookOptions(is_stateless=True, restore_seeds=restore_seeds, failure_tolerance=failure_tolerance)
        setattr(hook, _OPTIONS, options)
        return hook

    return mark if fn is None else mark(fn)


def hook_options(fn: Callable[..., Any]) -> HookOptions:
    """What a function or a bound method was marked with; the defaults where it was not."""
    options: HookOptions = getattr(fn, _OPTIONS, HookOptions())
    return options
