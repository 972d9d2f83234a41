"""Names of values, classes and functions for plans and states. They must not change when code moves between files."""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import Any


def value_digest(value: Any) -> str:
    """32 hex digits, of strings, whole numbers, None, and lists and tuples of these.

    States hold the digests and seeds are derived from them, so the digest of a value must never change: it hashes the
    value's repr.
    """
    return blake2b(repr(value).encode(), digest_size=16).hexdigest()


def qualified_name(code: Any, separator: str = ".") -> str:
    """Module and name of a class or function; of an instance those of its class, of a partial those of its function.

    The module of our own code is its package, `wdsctl.loader`, whichever file it is in. `separator`: between module and
    name; ":" as in `module:name`.
    """
    while isinstance(code, partial):
        code = code.func
    module = str(getattr(code, "__module__", ""))
    if module.startswith("wdsctl."):
        module = ".".join(module.split(".")[:2])
    return f"{module}{separator}{getattr(code, '__qualname__', type(code).__qualname__)}"
