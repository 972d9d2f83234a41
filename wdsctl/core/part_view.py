"""A part as a person wants to see it: text as text, JSON as a value, a medium as its facts, an array by shape and
range, the rest as its first bytes. Values; drawing them is others' work.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from wdsctl.core.array_facts import ArrayFacts, array_facts
from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.sniff import Content, sniff

HEAD = 64 << 10  # bytes read of every part; a text is told that far
WHOLE = 1 << 20  # bytes up to which JSON is read and parsed
DEEPEST = 100  # levels of JSON that are told as a value
HEX = 64  # first bytes of what is nothing else

_TEXTS = ("text", "integer", "number")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """One of `facts`, `text`, `value`, `array` and `head_hex` says what is in it.

    `has_value` tells a JSON null from none. `problem`: why it could not be read. `is_cut`: there is more of the text.
    """

    name: str
    offset: int  # in the shard
    size_bytes: int
    kind: str  # as `sniff` tells it from the content: image, json, text, array, binary, empty, ...
    format: str
    facts: Facts | Unreadable | None = None
    text: str | None = None
    is_cut: bool = False
    value: Any = None
    has_value: bool = False
    array: ArrayFacts | None = None
    head_hex: str | None = None
    problem: str = ""


def view_part(name: str, offset: int, source: ByteRange, known: Facts | Unreadable | None = None) -> PartView:
    """Look at a part of which `source.head` has up to HEAD bytes. `known`: what the catalog has of a medium.

    Raises what reading more of it raises.
    """
    content = sniff(source.head, source.size)
    seen = _Told(source, content, known).facts()
    if source.failure:
        raise source.failure
    return PartView(name=name, offset=offset, size_bytes=source.size, kind=content.kind, format=content.format, **seen)


def unreadable_part(name: str, offset: int, size: int, error: StorageError | PermissionDenied) -> PartView:
    """One whose shard is gone or has changed: the others are shown all the same."""
    return PartView(name=name, offset=offset, size_bytes=size, kind="unknown", format="", problem=error.message)


@dataclass(frozen=True, slots=True)
class _Told:
    source: ByteRange
    content: Content
    known: Facts | Unreadable | None

    def facts(self) -> dict[str, Any]:
        kind = self.content.kind
        if kind in ("image", "audio", "video"):
            return {"facts": self.known or self._probed()}
        if kind == "json":
            return self._json()
        if kind in _TEXTS:
            return self._text()
        if self.content.format == "npy":
            array = array_facts(self.source)
            return {"array": array} if array else self._bytes()
        return {} if kind == "empty" else self._bytes()

    def _probed(self) -> Facts | Unreadable:
        from wdsctl.core.media.probe import probe

        return probe(self.source, self.content)

    def _json(self) -> dict[str, Any]:
        """As a value; as text where it is too long, too deep, or has numbers that nothing holds."""
        data = self.source.head
        if len(data) < self.source.size <= WHOLE:
            self.source.seek(0)
            data = self.source.read(self.source.size) or b""
        try:
            value = json.loads(data, parse_constant=str, parse_float=_number)
        except (ValueError, RecursionError):
            return self._text()
        return {"value": value, "has_value": True} if depth(value) <= DEEPEST else self._text()

    def _text(self) -> dict[str, Any]:
        encoding = "utf-16" if self.content.format == "utf-16" else "utf-8-sig"
        is_cut = len(self.source.head) < self.source.size
        text = self.source.head.decode(encoding, "replace")
        # A letter that was cut in two is none of the text.
        return {"text": text.rstrip("\N{REPLACEMENT CHARACTER}") if is_cut else text, "is_cut": is_cut}

    def _bytes(self) -> dict[str, Any]:
        return {"head_hex": self.source.head[:HEX].hex()}


def depth(value: Any) -> int:
    """How many levels of lists and mappings a value has; counting ends behind DEEPEST."""
    level, layer = 0, [value]
    while level <= DEEPEST:
        groups = [each for each in layer if isinstance(each, dict | list)]
        if not groups:
            break
        level += 1
        layer = [inner for each in groups for inner in (each.values() if isinstance(each, dict) else each)]
    return level


def _number(text: str) -> float | str:
    """1e999 is JSON, and no number that anything here holds: it stays a text."""
    number = float(text)
    return number if math.isfinite(number) else text
