"""Lists and dicts as LitData packs them: a type byte, 32-bit counts, and values, all little-endian; or JSON.

Source: https://github.com/Lightning-AI/litData (README), and files that its writer produces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from wdsctl.core.json_text import read_json

_MAX_TAG = 0x20  # tags are smaller; older files have JSON, whose first byte is larger


def parse_packed_json(data: bytes) -> Any:
    """Parse a packed value or JSON. Raises ValueError for damaged data."""
    if not data or data[0] > _MAX_TAG:
        return read_json(data)
    try:
        return _BinaryReader(data).value()
    except RecursionError as error:
        raise ValueError("lists and dicts are nested too deep") from error
    except struct.error as error:
        raise ValueError(f"a list or dict is truncated: {error}") from error


class _BinaryReader:
    """Reads packed values in sequence from the start of the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self) -> Any:
        tag = self._unpack_one("B")
        if tag not in _READER_OF_TAG:
            raise ValueError(f"the tag {tag} is not known")
        return _READER_OF_TAG[tag](self)

    def text(self) -> str:
        return self._take_bytes(self._unpack_one("I")).decode()

    def json(self) -> Any:
        return read_json(self._take_bytes(self._unpack_one("I")))

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self._unpack_one("I"))]

    def numbers(self, kind: str) -> list[Any]:
        count = self._unpack_one("I")
        if count * struct.calcsize(kind) > len(self._data):
            raise ValueError("a list is truncated")
        return list(self._unpack(f"{count}{kind}"))

    def mapping(self) -> dict[str, Any]:
        return {self.text(): self.value() for _ in range(self._unpack_one("I"))}

    def records(self) -> list[dict[str, Any]]:
        count, width = self._unpack("II")
        names = [self.text() for _ in range(width)]
        if width == 0 or count > len(self._data):
            raise ValueError("a list of records is damaged")
        return [{name: self.value() for name in names} for _ in range(count)]

    def read_one(self, kind: str) -> Any:
        return self._unpack_one(kind)

    def _unpack_one(self, kind: str) -> Any:
        return self._unpack(kind)[0]

    def _unpack(self, kinds: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{kinds}", self._data, self._at)
        self._at += struct.calcsize(f"<{kinds}")
        return values

    def _take_bytes(self, count: int) -> bytes:
        data = self._data[self._at : self._at + count]
        if len(data) != count:
            raise ValueError("a text is truncated")
        self._at += count
        return data


_READER_OF_TAG: dict[int, Callable[[_BinaryReader], Any]] = {
    0: _BinaryReader.json,
    1: _BinaryReader.texts,
    2: lambda reader: reader.numbers("q"),
    3: lambda reader: reader.numbers("d"),
    4: lambda reader: reader.numbers("?"),
    5: _BinaryReader.mapping,
    6: _BinaryReader.records,
    7: _BinaryReader.text,
    8: lambda reader: reader.read_one("q"),
    9: lambda reader: reader.read_one("d"),
    10: lambda reader: reader.read_one("?"),
    11: lambda _: None,
    # Tags of values in records.
    0x10: lambda _: None,
    0x11: _BinaryReader.text,
    0x12: lambda reader: reader.read_one("q"),
    0x13: lambda reader: reader.read_one("d"),
    0x14: lambda reader: reader.read_one("?"),
}
