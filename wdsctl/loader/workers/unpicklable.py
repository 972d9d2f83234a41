"""Which part of an object is it that cannot be pickled?"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

_DEEPEST = 12


def culprit(open_work: Any) -> str:
    """The path to the innermost part that does not pickle, such as "open_work.encoder.model (function <lambda>)"."""
    name, value = "open_work", open_work
    for _ in range(_DEEPEST):
        inner = next(((path, part) for path, part in _parts(value) if not _pickles(part)), None)
        if inner is None:
            break
        name, value = name + inner[0], inner[1]
    return f"{name} ({type(value).__name__} {getattr(value, '__qualname__', '')}".rstrip() + ")"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, partial):
        yield ".func", value.func
        yield from ((f".args[{i}]", part) for i, part in enumerate(value.args))
        yield from ((f".{key}", part) for key, part in value.keywords.items())
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))
    elif hasattr(value, "__self__") and not isinstance(value.__self__, type):
        yield ".__self__", value.__self__
    else:
        yield from _fields(value)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, type) or (callable(getattr(value, "__getstate__", None)) and _has_own_state(value)):
        return
    yield from ((f".{key}", part) for key, part in getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, slot):
                yield f".{slot}", getattr(value, slot)


def _has_own_state(value: Any) -> bool:
    return type(value).__getstate__ is not getattr(object, "__getstate__", None)


def _pickles(value: Any) -> bool:
    try:
        pickle.dumps(value, protocol=5)
    except Exception:  # noqa: BLE001 - the __reduce__ of anybody's objects runs here
        return False
    return True
