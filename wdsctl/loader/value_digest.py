"""Names for the values that decide an order, as plans and states have them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any


def value_digest(value: Any) -> str:
    """32 hex digits, of strings, whole numbers, None and lists and tuples of these.

    States hold them and seeds are made of them: what a value is called must never change, nor that it is by its repr.
    """
    return blake2b(repr(value).encode(), digest_size=16).hexdigest()
