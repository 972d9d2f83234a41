"""Keys of samples that are lines: the line's number among its like, or a field of its object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def numbered(prefix: bytes, count: int) -> tuple[bytes, NDArray[np.uint32]]:
    """The keys `prefix0`, `prefix1`, ... in one piece, and the size of each in bytes."""
    sizes = np.empty(count, np.uint32)
    runs = list(_runs(count))
    for low, high, width in runs:
        sizes[low:high] = len(prefix) + width
    keys = np.empty(sum((high - low) * (len(prefix) + width) for low, high, width in runs), np.uint8)
    at = 0
    for low, high, width in runs:
        end = at + (high - low) * (len(prefix) + width)
        _write(keys[at:end].reshape(high - low, -1), prefix, low, width)
        at = end
    return keys.tobytes(), sizes


def _runs(count: int) -> Iterator[tuple[int, int, int]]:
    """(low, high, digits) of the numbers below `count`, by how many digits they have."""
    low, width = 0, 1
    while low < count:
        high = min(count, 10**width)
        yield low, high, width
        low, width = high, width + 1


def _write(text: NDArray[np.uint8], prefix: bytes, low: int, width: int) -> None:
    """Write the numbers from `low` on, each of `width` digits and behind the prefix, into the rows of `text`.

    Thousands at a time, which share their first digits: a table of the last ones stays, and is copied row by row.
    """
    differing = min(width, _DIGITS)
    table = np.empty((10**differing, text.shape[1]), np.uint8)
    table[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    table[:, text.shape[1] - differing :] = _endings()[: len(table), _DIGITS - differing :]
    shared = slice(len(prefix), text.shape[1] - differing)
    row = 0
    while row < len(text):
        first = (low + row) % len(table)
        rows = min(len(text) - row, len(table) - first)
        table[:, shared] = np.frombuffer(str(low + row)[: width - differing].encode(), np.uint8)
        text[row : row + rows] = table[first : first + rows]
        row += rows


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
