"""Keys of samples in JSONL: the number of the line, or a field of its object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.json_text import read_json

_DIGITS = 4  # last digits, which come from a table; numbers that are copied together share the others
_TABLE_NUMBERS = 10**_DIGITS


@dataclass(frozen=True, slots=True)
class JsonlKeyRule:
    """How lines get their keys.

    `field`: a key of the line's object, or `a.b` for a key inside a nested object; empty for line numbers.
    `is_single_file`: the dataset is this one file, and the number alone is the key. Otherwise the key is `path/number`,
    with the path without its extension.
    """

    field: str = ""
    is_single_file: bool = False

    def prefix(self, shard: str) -> str:
        return "" if self.is_single_file else f"{shard[: shard.rindex('.')]}/"


#: Keys of the form `path/number`, as in a folder of JSONL files.
LINE_NUMBER_KEYS = JsonlKeyRule()


def build_numbered_keys(prefix: bytes, count: int) -> tuple[bytes, NDArray[np.uint32]]:
    """Return the keys `prefix0`, `prefix1`, ... joined without separators, and the size of each in bytes."""
    sizes = np.empty(count, np.uint32)
    runs = list(_ranges_by_digits(count))
    for low, high, width in runs:
        sizes[low:high] = len(prefix) + width
    keys = np.empty(sum((high - low) * (len(prefix) + width) for low, high, width in runs), np.uint8)
    at = 0
    for low, high, width in runs:
        end = at + (high - low) * (len(prefix) + width)
        _write(keys[at:end].reshape(high - low, -1), prefix, low, width)
        at = end
    return keys.tobytes(), sizes


def _ranges_by_digits(count: int) -> Iterator[tuple[int, int, int]]:
    """Yield (low, high, digits): the ranges of numbers below `count` that have the same number of digits."""
    low, width = 0, 1
    while low < count:
        high = min(count, 10**width)
        yield low, high, width
        low, width = high, width + 1


def _write(text: NDArray[np.uint8], prefix: bytes, low: int, width: int) -> None:
    """Write the numbers from `low` on, each of `width` digits and after the prefix, into the rows of `text`.

    A table holds all values of the last four digits, so that numbers with the same other digits are copied in one step.
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
    """Return an array of shape (10^_DIGITS, _DIGITS): 0000, 0001, ... as text."""
    numbers = np.arange(_TABLE_NUMBERS)
    digits = [numbers // 10**exponent % 10 for exponent in reversed(range(_DIGITS))]
    return (np.stack(digits, axis=1) + ord("0")).astype(np.uint8)


def read_key_field(line: bytes, field: str) -> str | None:
    """Return a field of a line's object as a key, or None if the field is neither text nor a whole number.

    Also returns None if the line is not JSON, or the text is empty or unsafe as a key (`_is_storable`).
    """
    try:
        value: Any = read_json(line)
    except ValueError:
        return None
    for name in field.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value and _is_storable(value) else None


def _is_storable(text: str) -> bool:
    """Whether a key can be stored: UTF-8 cannot encode a lone surrogate, and many programs end text at a zero byte."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
