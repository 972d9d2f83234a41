"""Decoders of the user's own: which part they are for, and what they are called in a fingerprint."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.decoding.parts import extension

Decode = Callable[[bytes], Any]

#: By name or content type, or a function that is asked once for every name of a part, and returns None for the rest.
Decoders = Mapping[str, Decode] | Callable[[str], Decode | None]


def check(decoders: Decoders | None) -> None:
    """Raises UsageError where there is something that cannot be called."""
    given: Any = decoders  # whatever a caller without a type checker gives
    if isinstance(given, Mapping):
        wrong = [str(name) for name, function in given.items() if not (isinstance(name, str) and callable(function))]
    else:
        wrong = [] if given is None or callable(given) else [repr(given)]
    if wrong:
        raise UsageError(
            f"decoders={', '.join(wrong)}: there is no function",
            hint="give functions by part or content type: decoders={'seg.png': read_mask, 'audio': read_sound}",
        )


def by_name(decoders: Decoders | None, part: str) -> Decode | None:
    """For the whole name of a part, or else for its last extension. Upper and lower case are the same."""
    if decoders is None:
        return None
    if not isinstance(decoders, Mapping):
        return decoders(part)
    functions = {name.lower(): function for name, function in decoders.items()}
    return functions.get(part.lower()) or functions.get(extension(part))


def by_content(decoders: Decoders | None, content: str) -> Decode | None:
    """For a content type: image, video, audio, text, json or array; in lower case."""
    return decoders.get(content) if isinstance(decoders, Mapping) else None


def config(decoders: Decoders | None) -> Any:
    """The functions by name, for the fingerprint of a plan."""
    if not isinstance(decoders, Mapping):
        return None if decoders is None else _name(decoders)
    return {name: _name(decoders[name]) for name in sorted(decoders)}


def _name(function: Any) -> str:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return f"{inner.__module__}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"
