"""Methods whose names are almost those of hooks: misspelt, they are not called, and the default would quietly run."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakSet

from wdsctl.loader.task_encoder import HOOKS, AugmentTaskEncoder, DefaultTaskEncoder, TaskEncoder

# Above `encode_patch`, below `encode_batches`, of `encode_batch`.
CLOSE = 0.915

_OURS = frozenset(name for kind in (AugmentTaskEncoder, DefaultTaskEncoder) for name in dir(kind))
_told: WeakSet[type] = WeakSet()


def warn_of_near_hooks(encoder: TaskEncoder[Any, Any, Any, Any], *, stacklevel: int) -> None:
    """Warn (WDS515), once for a class, of its methods that are almost hooks. `stacklevel` as of `warnings.warn`."""
    kind = type(encoder)
    if kind in _told:
        return
    _told.add(kind)
    for owner, name, hook in near_hooks(kind):
        warnings.warn(
            f"WDS515: {owner}.{name} is no hook, and is not called; did you mean {hook}? "
            f"If it is no hook, call it _{name}",
            stacklevel=stacklevel + 1,
        )


def near_hooks(kind: type) -> Iterator[tuple[str, str, str]]:
    """(class, method, hook) for each public method of a user's task encoder that is almost a hook, where its class does
    not override that hook and no method of a user's mentions it: what is called so is a helper."""
    own = [each for each in kind.__mro__ if each.__module__.partition(".")[0] != "wdsctl" and each is not object]
    mentioned = {name for each in own for value in vars(each).values() for name in _names_in(_function(value))}
    for each in own:
        for name, value in vars(each).items():
            is_public = not name.startswith("_") and name not in _OURS and name not in mentioned
            hook = near(name) if is_public and isinstance(_function(value), FunctionType) else None
            if hook is not None and hook not in vars(each):
                yield each.__qualname__, name, hook


def near(name: str) -> str | None:
    """The hook that a name is almost: `_` and capitals aside it is the same, has the same letters in another order, or
    most of them. Typing errors seldom begin a word, and `decode_sample` is another one: the first letter is the hook's.
    """
    plain = _plain(name)
    found = [(_likeness(plain, _plain(hook)), hook) for hook in HOOKS if plain[:1] == hook[0]]
    likeness, hook = max(found, default=(0.0, ""))
    return hook if likeness >= CLOSE else None


def _likeness(name: str, hook: str) -> float:
    return 1.0 if sorted(name) == sorted(hook) else difflib.SequenceMatcher(None, name, hook).ratio()


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _function(value: Any) -> Any:
    """What a class defines under a name, out of what decorators made of it."""
    inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    try:
        return inspect.unwrap(inner)
    except ValueError:  # what answers to any name has a `__wrapped__` without end, and is no function
        return inner


def _names_in(function: Any) -> Iterator[str]:
    function = function.fget if isinstance(function, property) else function
    code = function.__code__ if isinstance(function, FunctionType) else function
    if isinstance(code, CodeType):
        yield from code.co_names
        for each in code.co_consts:
            yield from _names_in(each)
