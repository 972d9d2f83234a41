"""What is in the parts of some samples: texts, JSON, media, arrays. Each part is told by its content, never by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from wdsctl.core.array_facts import array_facts
from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import AudioFacts, Facts, ImageFacts, Unreadable, VideoFacts
from wdsctl.core.part_view import WHOLE, view_part
from wdsctl.core.sniff import sniff
from wdsctl.core.stats_histogram import Histogram
from wdsctl.core.stats_keys import Keys


@dataclass(slots=True)
class Content:
    """Of one part name: what it is how often, and its numbers by their names (`width`, `seconds`, `characters`)."""

    kinds: Counter[str] = field(default_factory=Counter)
    numbers: dict[str, Histogram] = field(default_factory=dict)
    keys: Keys = field(default_factory=Keys)

    def note(self, name: str, value: float | None) -> None:
        if value is not None and value >= 0:
            self.numbers.setdefault(name, Histogram()).add_one(value)

    def add_medium(self, facts: Facts | Unreadable, format_name: str = "") -> None:
        self.kinds[form_of(facts, format_name)] += 1
        if isinstance(facts, ImageFacts | VideoFacts):
            self.note("width", facts.display_width)
            self.note("height", facts.display_height)
        if isinstance(facts, AudioFacts | VideoFacts):
            self.note("seconds", facts.duration_s)


def look_at(content: Content, source: ByteRange, known: Facts | Unreadable | None) -> None:
    """Count in one part, of which `source.head` has the first bytes. Raises what reading more of it raises."""
    if known is not None:
        content.add_medium(known)
        return
    found = sniff(source.head, source.size)
    if found.format == "npy":
        array = array_facts(source, values=False)
        words = f"array of {array.dtype}, {' x '.join(map(str, array.shape)) or 'one number'}" if array else "array"
        content.kinds[words] += 1
        return
    if found.kind in ("text", "integer", "number") and len(source.head) < source.size <= WHOLE:
        source.head = source.read(source.size) or b""
    view = view_part("", 0, source)
    if view.facts is not None:
        content.add_medium(view.facts, view.format)
        return
    content.kinds[_called(view.kind, view.format)] += 1
    if view.has_value:
        content.keys.add(view.value)
    elif view.text is not None and not view.is_cut:
        content.note("characters", len(view.text))
        content.note("words", len(view.text.split()))


def form_of(facts: Facts | Unreadable, format_name: str = "") -> str:
    """`JPEG RGB`, `mp4 h264`, `flac 2 ch 44.1 kHz`: what many media have in common."""
    if isinstance(facts, Unreadable):
        return f"{format_name or 'unreadable'}: {facts.reason}"
    if isinstance(facts, ImageFacts):
        return f"{facts.format} {facts.mode}"
    if isinstance(facts, VideoFacts):
        return f"{facts.format} {facts.codec}"
    return f"{facts.codec} {facts.channels} ch {facts.rate_hz / 1000:g} kHz"


def _called(kind: Any, format_name: str) -> str:
    return f"{kind}, {format_name}" if format_name not in ("", kind) else str(kind)
