"""`@stateless`, Energon's decorator of hooks, and warnings about methods whose names look like misspelt hooks.

A misspelt hook is never called, and the default would run without any message.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import Any, TypeVar, overload
from weakref import WeakSet

from wdsctl.loader.recipe.task_encoder import HOOKS, AugmentTaskEncoder, DefaultTaskEncoder, TaskEncoder

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = "__hook_options__"
_FAILURE_TOLERANCE = "__failure_tolerance__"  # Energon's attribute, which programs set and read themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """Options that `@stateless` set on a hook. `failure_tolerance`: consecutive failures that end the run."""

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
    """Mark a hook as a function of its sample alone: `@stateless` or `@stateless(failure_tolerance=10)`.

    The mark has no effect and is accepted for compatibility with Energon: the loader seeds the random generators of
    every hook from its sample, so that a resumed run draws the same numbers. `failure_tolerance`: consecutive failures
    of this hook that end the run, 100 by default; 0: no limit.
    """

    def mark(hook: F) -> F:
        options = HookOptions(is_stateless=True, restore_seeds=restore_seeds, failure_tolerance=failure_tolerance)
        setattr(hook, _OPTIONS, options)
        if failure_tolerance is not None:
            setattr(hook, _FAILURE_TOLERANCE, failure_tolerance)
        return hook

    return mark if fn is None else mark(fn)


def hook_options(fn: Callable[..., Any]) -> HookOptions:
    """The options of a function or bound method that `@stateless` marked, or that has `__failure_tolerance__`; else the
    defaults."""
    options: HookOptions = getattr(fn, _OPTIONS, HookOptions())
    return replace(options, failure_tolerance=getattr(fn, _FAILURE_TOLERANCE, options.failure_tolerance))


# To `encode_batch`, between that of `encode_patch` and that of `encode_batches`.
MIN_SIMILARITY = 0.915

_BASE_ATTRIBUTES = frozenset(name for kind in (AugmentTaskEncoder, DefaultTaskEncoder) for name in dir(kind))
_warned_classes: WeakSet[type] = WeakSet()


def warn_of_misspelled_hooks(encoder: TaskEncoder[Any, Any, Any, Any], *, stacklevel: int) -> None:
    """Warn (WDS515) once per class of methods that look like misspelt hooks. `stacklevel`: as of `warnings.warn`."""
    kind = type(encoder)
    if kind in _warned_classes:
        return
    _warned_classes.add(kind)
    for owner, name, hook in misspelled_hooks(kind):
        warnings.warn(
            f"WDS515: {owner}.{name} is not a hook and is not called; did you mean {hook}? "
            f"If it is a helper, name it _{name}",
            stacklevel=stacklevel + 1,
        )


def misspelled_hooks(kind: type) -> Iterator[tuple[str, str, str]]:
    """(class, method, hook) for each public method of a user's task encoder whose name is almost that of a hook.

    Methods are left out if their class overrides that hook, or if a user's method calls them: those are helpers.
    """
    user_classes = [
        each for each in kind.__mro__ if each.__module__.partition(".")[0] != "wdsctl" and each is not object
    ]
    mentioned = {
        name
        for each in user_classes
        for value in vars(each).values()
        for name in _names_used(_unwrapped_function(value))
    }
    for each in user_classes:
        for name, value in vars(each).items():
            is_public = not name.startswith("_") and name not in _BASE_ATTRIBUTES and name not in mentioned
            hook = closest_hook(name) if is_public and isinstance(_unwrapped_function(value), FunctionType) else None
            if hook is not None and hook not in vars(each):
                yield each.__qualname__, name, hook


def closest_hook(name: str) -> str | None:
    """The hook whose name is almost `name`: the same without `_` and case, an anagram, or with most letters the same.

    The first letter must be the same: it is seldom mistyped, and `decode_sample` is another word.
    """

    def similarity(plain_hook: str) -> float:
        is_anagram = sorted(plain) == sorted(plain_hook)
        return 1.0 if is_anagram else difflib.SequenceMatcher(None, plain, plain_hook).ratio()

    plain = _normalized(name)
    candidates = [(similarity(_normalized(hook)), hook) for hook in HOOKS if plain[:1] == hook[0]]
    best, hook = max(candidates, default=(0.0, ""))
    return hook if best >= MIN_SIMILARITY else None


def _normalized(name: str) -> str:
    return name.replace("_", "").lower()


def _unwrapped_function(value: Any) -> Any:
    """The function that a class defines, without its decorators."""
    inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    try:
        return inspect.unwrap(inner)
    except ValueError:  # an object with any attribute has endless `__wrapped__`, and is no function
        return inner


def _names_used(function: Any) -> Iterator[str]:
    function = function.fget if isinstance(function, property) else function
    code = function.__code__ if isinstance(function, FunctionType) else function
    if isinstance(code, CodeType):
        yield from code.co_names
        for each in code.co_consts:
            yield from _names_used(each)
