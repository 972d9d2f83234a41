"""A part in one line, as a person wants to see it: text as text, a medium as its facts, the rest by kind."""

from __future__ import annotations

from dataclasses import dataclass

from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.media.probe import probe
from wdsctl.core.media.words import in_words
from wdsctl.core.sniff import Content, sniff

WIDTH = 60  # characters of text
HEAD = 64 << 10  # bytes that are enough: most headers, the beginning of a text


@dataclass(frozen=True, slots=True)
class Preview:
    line: str
    facts: Facts | Unreadable | None = None  # None: the part is no image, sound or video


def preview(part: ByteRange) -> Preview:
    """What `part` is, from its head, and of a medium from a few more pages. Raises what reading them raises."""
    content = sniff(part.head, part.size)
    if content.kind in ("image", "audio", "video"):
        return _medium(part, content)
    if content.kind == "empty":
        return Preview("empty")
    if content.kind in ("text", "integer", "number", "json"):
        return Preview(_text(part.head))
    return Preview(f"{content.kind}, {content.format}" if content.format not in ("", content.kind) else content.kind)


def _medium(part: ByteRange, content: Content) -> Preview:
    return preview_of(probe(part, content), content.format)


def preview_of(facts: Facts | Unreadable, format_name: str = "") -> Preview:
    """A medium whose facts are known already. `format_name`: of one that is unreadable, where it is known."""
    if isinstance(facts, Unreadable):
        return Preview(f"{format_name or 'unreadable'}: {facts.reason}", facts)
    return Preview(in_words(facts), facts)


def _text(head: bytes) -> str:
    text = " ".join(head[: 8 * WIDTH].decode("utf-8", "replace").split())
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= WIDTH else shown[: WIDTH - 1] + "…"
