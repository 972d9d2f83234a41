"""Keys of samples that are lines: the line's number among its like, or a field of its object."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.plain_members import Ints

_DIGITS = 4  # of numbers that are written together: the others are the same
_AT_ONCE = 10**_DIGITS


@dataclass(frozen=True, slots=True)
class LineKeys:
    """How lines get their keys. `field`: a key of the object, or `a.b` of one inside it; empty for numbers.

    `is_alone`: the dataset is this one file, and the number alone is the key. Elsewhere it is `path/number`, the path
    without its ending.
    """

    field: str = ""
    is_alone: bool = False

    def prefix(self, shard: str) -> str:
        return "" if self.is_alone else f"{shard[: shard.rindex('.')]}/"


#: `path/number`, as in a folder.
NUMBERS = LineKeys()


def numbered(prefix: bytes, count: int) -> tuple[bytes, Ints]:
    """The keys `prefix0`, `prefix1`, ... in one piece, and the size of each in bytes."""
    pieces: list[bytes] = []
    sizes = np.empty(count, np.int64)
    low = 0
    while low < count:
        width = len(str(low))
        high = min(count, 10**width, low - low % _AT_ONCE + _AT_ONCE)
        pieces.append(_written(prefix, low, high, width))
        sizes[low:high] = len(prefix) + width
        low = high
    return b"".join(pieces), sizes


def _written(prefix: bytes, low: int, high: int, width: int) -> bytes:
    """Numbers of `width` digits that differ in the last ones alone, each behind the prefix."""
    differing = min(width, _DIGITS)
    head = prefix + str(low)[: width - differing].encode()
    text = np.empty((high - low, len(head) + differing), np.uint8)
    text[:, : len(head)] = np.frombuffer(head, np.uint8)
    first = low % _AT_ONCE
    text[:, len(head) :] = _endings()[first : first + high - low, _DIGITS - differing :]
    return text.tobytes()


@cache
def _endings() -> NDArray[np.uint8]:
    """(10^_DIGITS, _DIGITS): 0000, 0001, ... as text."""
    numbers = np.arange(_AT_ONCE)
    places = [numbers // 10**place % 10 for place in reversed(range(_DIGITS))]
    return (np.stack(places, axis=1) + ord("0")).astype(np.uint8)


def key_of(line: bytes, field: str) -> str | None:
    """The field of a line's object as a key: text, or a whole number. None where there is no such thing."""
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    for name in field.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value and _is_storable(value) else None


def _is_storable(text: str) -> bool:
    """Half of a surrogate pair is no text that a file can hold, and a zero byte ends one for half of all programs."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
