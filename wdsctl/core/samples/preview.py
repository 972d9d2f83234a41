"""Preview a part: text as text, JSON as a value, media as facts, arrays by shape and range, other content as bytes.

Returns values, or one line; the caller draws them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import MediumFacts, Unreadable, describe_facts
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import SniffedContent, sniff
from wdsctl.core.samples.array_facts import ArrayFacts, array_facts

PREVIEW_TEXT_CHARS = 60  # characters of text in a line
PREVIEW_HEAD_BYTES = 64 << 10  # bytes that hold most headers, and the beginning of a text


@dataclass(frozen=True, slots=True)
class PartPreview:
    line: str
    facts: MediumFacts | Unreadable | None = None  # None if the part is not image, audio or video


def preview_part(part: ByteRangeFile, name: str = "") -> PartPreview:
    """Describe `part` in a line, from its head and, for media, a few more pages. Raises what reading them raises."""
    content = sniff(part.head, part.size, name=name)
    if content.kind in ("image", "audio", "video"):
        return _preview_media(part, content)
    if content.kind == "empty":
        return PartPreview("empty")
    if content.kind in ("text", "integer", "number", "json"):
        return PartPreview(_preview_text(part.head))
    return PartPreview(
        f"{content.kind}, {content.format}" if content.format not in ("", content.kind) else content.kind
    )


def _preview_media(part: ByteRangeFile, content: SniffedContent) -> PartPreview:
    return preview_facts(probe_media(part, content), content.format)


def preview_facts(facts: MediumFacts | Unreadable, format_name: str = "") -> PartPreview:
    """Describe a medium with known facts. `format_name`: the format of an unreadable one, if known."""
    if isinstance(facts, Unreadable):
        return PartPreview(f"{format_name or 'unreadable'}: {facts.reason}", facts)
    return PartPreview(describe_facts(facts), facts)


def _preview_text(head: bytes) -> str:
    return preview_text(head[: 8 * PREVIEW_TEXT_CHARS].decode("utf-8", "replace").removeprefix("\ufeff"))


def preview_text(text: str) -> str:
    """The beginning of a text in one line of printable characters."""
    text = " ".join(text[: 8 * PREVIEW_TEXT_CHARS].split())
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= PREVIEW_TEXT_CHARS else shown[: PREVIEW_TEXT_CHARS - 1] + "…"


PART_HEAD_BYTES = 64 << 10  # bytes read of every part, and the most shown of a text
MAX_PREVIEW_JSON_BYTES = 1 << 20  # bytes; longer JSON is shown as text
MAX_PREVIEW_JSON_DEPTH = 100  # levels; deeper JSON is shown as text
MAX_HEX_BYTES = 64  # bytes shown of other content

_TEXT_KINDS = ("text", "integer", "number")


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedPart:
    """A part and its content: at most one of `facts`, `text`, `value`, `array` and `head_hex` is set.

    `has_value` distinguishes a JSON null from no value. `is_cut`: `text` is only the beginning. `problem`: why the part
    could not be read.
    """

    name: str
    offset: int  # of the data, in the shard
    size_bytes: int
    kind: str  # as `sniff` names the content: image, json, text, array, binary, empty, ...
    format: str
    facts: MediumFacts | Unreadable | None = None
    text: str | None = None
    is_cut: bool = False
    value: Any = None
    has_value: bool = False
    array: ArrayFacts | None = None
    head_hex: str | None = None
    problem: str = ""


def inspect_part(
    name: str, offset: int, source: ByteRangeFile, known: MediumFacts | Unreadable | None = None
) -> InspectedPart:
    """Inspect a part, of which `source.head` holds up to `PART_HEAD_BYTES` bytes. Raises what further reads raise.

    `known`: the media facts in the catalog, if any.
    """
    content = sniff(source.head, source.size, name=name)
    seen = _PartInspector(source, content, known).content_fields()
    if source.failure:
        raise source.failure
    return InspectedPart(
        name=name, offset=offset, size_bytes=source.size, kind=content.kind, format=content.format, **seen
    )


def unreadable_part(name: str, offset: int, size: int, error: StorageError | PermissionDenied) -> InspectedPart:
    """Return a part whose shard is missing or has changed, so that the other parts can still be shown."""
    return InspectedPart(name=name, offset=offset, size_bytes=size, kind="unknown", format="", problem=error.message)


@dataclass(frozen=True, slots=True)
class _PartInspector:
    source: ByteRangeFile
    content: SniffedContent
    known: MediumFacts | Unreadable | None

    def content_fields(self) -> dict[str, Any]:
        kind = self.content.kind
        if kind in ("image", "audio", "video"):
            return {"facts": self.known or self._probe()}
        if kind == "json":
            return self._json()
        if kind in _TEXT_KINDS:
            return self._text()
        if self.content.format == "npy":
            array = array_facts(self.source)
            return {"array": array} if array else self._bytes()
        return {} if kind == "empty" else self._bytes()

    def _probe(self) -> MediumFacts | Unreadable:
        return probe_media(self.source, self.content)

    def _json(self) -> dict[str, Any]:
        """Return JSON as a value; as text if it is too long or too deep, or Python cannot parse it."""
        data = self.source.head
        if len(data) < self.source.size <= MAX_PREVIEW_JSON_BYTES:
            self.source.seek(0)
            data = self.source.read(self.source.size) or b""
        try:
            value = json.loads(data, parse_constant=str, parse_float=_parse_float)
        except (ValueError, RecursionError):
            return self._text()
        return {"value": value, "has_value": True} if nesting_depth(value) <= MAX_PREVIEW_JSON_DEPTH else self._text()

    def _text(self) -> dict[str, Any]:
        encoding = "utf-16" if self.content.format == "utf-16" else "utf-8-sig"
        is_cut = len(self.source.head) < self.source.size
        text = self.source.head.decode(encoding, "replace")
        # Drop a character that was cut in two.
        return {"text": text.rstrip("\N{REPLACEMENT CHARACTER}") if is_cut else text, "is_cut": is_cut}

    def _bytes(self) -> dict[str, Any]:
        return {"head_hex": self.source.head[:MAX_HEX_BYTES].hex()}


def nesting_depth(value: Any) -> int:
    """Count the levels of lists and mappings in a value, up to `MAX_PREVIEW_JSON_DEPTH` + 1."""
    level, layer = 0, [value]
    while level <= MAX_PREVIEW_JSON_DEPTH:
        groups = [each for each in layer if isinstance(each, dict | list)]
        if not groups:
            break
        level += 1
        layer = [inner for each in groups for inner in (each.values() if isinstance(each, dict) else each)]
    return level


def _parse_float(text: str) -> float | str:
    """Parse a JSON number. Numbers beyond the range of a float, such as 1e999, stay text."""
    number = float(text)
    return number if math.isfinite(number) else text
