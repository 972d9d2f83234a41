"""LitData's packed lists and dicts: a byte that says what comes, counts of 32 bits, values little-endian.

Source: what https://github.com/Lightning-AI/litData writes for lists and dicts of a row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from wdsctl.core.json_text import read_json

_AS_JSON = 0x20  # tags are below; older files have JSON, which begins above


def nested(data: bytes) -> Any:
    """The value. Raises ValueError or struct.error where the bytes are none."""
    if not data or data[0] > _AS_JSON:
        return read_json(data)
    try:
        return _Reader(data).value()
    except RecursionError as error:
        raise ValueError("lists and dicts are nested too deep") from error
    except struct.error as error:
        raise ValueError(f"a list or dict is cut short: {error}") from error


class _Reader:
    """Stands at a byte of the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self) -> Any:
        tag = self._one("B")
        if tag not in _TAGS:
            raise ValueError(f"the tag {tag} is not known")
        return _TAGS[tag](self)

    def text(self) -> str:
        return self._bytes(self._one("I")).decode()

    def json(self) -> Any:
        return read_json(self._bytes(self._one("I")))

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self._one("I"))]

    def numbers(self, kind: str) -> list[Any]:
        count = self._one("I")
        if count * struct.calcsize(kind) > len(self._data):
            raise ValueError("a list is cut short")
        return list(self._some(f"{count}{kind}"))

    def mapping(self) -> dict[str, Any]:
        return {self.text(): self.value() for _ in range(self._one("I"))}

    def records(self) -> list[dict[str, Any]]:
        count, width = self._some("II")
        names = [self.text() for _ in range(width)]
        if width == 0 or count > len(self._data):
            raise ValueError("a list of records is broken")
        return [{name: self.value() for name in names} for _ in range(count)]

    def one(self, kind: str) -> Any:
        return self._one(kind)

    def _one(self, kind: str) -> Any:
        return self._some(kind)[0]

    def _some(self, kinds: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{kinds}", self._data, self._at)
        self._at += struct.calcsize(f"<{kinds}")
        return values

    def _bytes(self, count: int) -> bytes:
        data = self._data[self._at : self._at + count]
        if len(data) != count:
            raise ValueError("a text is cut short")
        self._at += count
        return data


_TAGS: dict[int, Callable[[_Reader], Any]] = {
    0: _Reader.json,
    1: _Reader.texts,
    2: lambda reader: reader.numbers("q"),
    3: lambda reader: reader.numbers("d"),
    4: lambda reader: reader.numbers("?"),
    5: _Reader.mapping,
    6: _Reader.records,
    7: _Reader.text,
    8: lambda reader: reader.one("q"),
    9: lambda reader: reader.one("d"),
    10: lambda reader: reader.one("?"),
    11: lambda _: None,
    # The same in records.
    0x10: lambda _: None,
    0x11: _Reader.text,
    0x12: lambda reader: reader.one("q"),
    0x13: lambda reader: reader.one("d"),
    0x14: lambda reader: reader.one("?"),
}
