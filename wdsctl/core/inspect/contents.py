"""Collect statistics of the content of parts: kinds of content, sizes of media and texts, and keys of JSON.

Detects the kind of a part by its content, never by its name. Takes media facts from the catalog if they are there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wdsctl.core.catalog.browse import CatalogBrowser
from wdsctl.core.inspect.histograms import Histogram
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.catalog_facts import MediaMeasures, facts_from_columns
from wdsctl.core.media.facts import AudioFacts, ImageFacts, MediumFacts, Unreadable, VideoFacts
from wdsctl.core.media.sniff import sniff
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.array_facts import array_facts
from wdsctl.core.samples.preview import MAX_PREVIEW_JSON_BYTES, inspect_part

MAX_JSON_PATHS = 200  # some JSON uses data as keys
MAX_KEY_DEPTH = 4  # levels of nested objects
MEDIA_BLOCK_ROWS = 100_000  # media per block


@dataclass(slots=True)
class JsonPathStats:
    """The values at one path. `lengths`: characters of strings, items of lists. `low`, `high`: range of numbers."""

    samples: int = 0
    types: Counter[str] = field(default_factory=Counter)
    lengths: Histogram = field(default_factory=Histogram)
    low: float | None = None
    high: float | None = None

    def add(self, value: Any) -> None:
        kind = json_type_name(value)
        self.types[kind] += 1
        if kind in ("string", "list"):
            self.lengths.add_one(len(value))
        elif kind in ("integer", "number"):
            self.low = value if self.low is None else min(self.low, value)
            self.high = value if self.high is None else max(self.high, value)


@dataclass(slots=True)
class JsonKeyStats:
    """Statistics by path: `meta.size` in an object, `boxes[].label` in objects of a list, `.` for the value itself."""

    values: int = 0
    paths: dict[str, JsonPathStats] = field(default_factory=dict)
    skipped_values: int = 0  # values at paths beyond MAX_JSON_PATHS

    def add(self, value: Any) -> None:
        """Add one sample's JSON. `samples` counts a path once per sample, `types` counts every value."""
        self.values += 1
        seen: set[str] = set()
        self._walk("." if not isinstance(value, dict) else "", value, 0, seen)
        for path in seen:
            self.paths[path].samples += 1

    def _walk(self, path: str, value: Any, depth: int, seen: set[str]) -> None:
        if path:
            if path not in self.paths:
                if len(self.paths) >= MAX_JSON_PATHS:
                    self.skipped_values += 1
                    return
                self.paths[path] = JsonPathStats()
            self.paths[path].add(value)
            seen.add(path)
        if depth > MAX_KEY_DEPTH:
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                self._walk(f"{path}.{key}" if path else key or '""', inner, depth + 1, seen)
        elif isinstance(value, list):
            for inner in value:
                if isinstance(inner, dict | list):
                    self._walk(f"{path}[]", inner, depth + 1, seen)


def json_type_name(value: Any) -> str:
    """Return the name of a value's JSON type, with `list` for an array."""
    if value is None:
        return "null"
    names = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "list"))
    return next((name for kind, name in names if isinstance(value, kind)), "object")


@dataclass(slots=True)
class PartContentStats:
    """The parts of one name: counts of content kinds, and histograms of `width`, `seconds`, `characters`..."""

    kinds: Counter[str] = field(default_factory=Counter)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    json_keys: JsonKeyStats = field(default_factory=JsonKeyStats)

    def add_number(self, name: str, value: float | None) -> None:
        if value is not None and value >= 0:
            self.histograms.setdefault(name, Histogram()).add_one(value)

    def add_medium(self, facts: MediumFacts | Unreadable, format_name: str = "") -> None:
        self.kinds[media_format_label(facts, format_name)] += 1
        if isinstance(facts, ImageFacts | VideoFacts):
            self.add_number("width", facts.display_width)
            self.add_number("height", facts.display_height)
        if isinstance(facts, AudioFacts | VideoFacts):
            self.add_number("seconds", facts.duration_s)


def count_part_content(
    stats: PartContentStats, name: str, source: ByteRangeFile, known_facts: MediumFacts | Unreadable | None
) -> None:
    """Add one part `name`, whose first bytes are in `source.head`. Raises storage errors if it reads more."""
    if known_facts is not None:
        stats.add_medium(known_facts)
        return
    content = sniff(source.head, source.size, name=name)
    if content.format == "npy":
        array = array_facts(source, values=False)
        shape = f" of {array.dtype}, {' x '.join(map(str, array.shape)) or 'one number'}" if array else ""
        stats.kinds[f"array{shape}"] += 1
        return
    if content.kind in ("text", "integer", "number") and len(source.head) < source.size <= MAX_PREVIEW_JSON_BYTES:
        source.head = source.read(source.size) or b""
    part = inspect_part(name, 0, source)
    if part.facts is not None:
        stats.add_medium(part.facts, part.format)
        return
    stats.kinds[f"{part.kind}, {part.format}" if part.format not in ("", part.kind) else part.kind] += 1
    if part.has_value:
        stats.json_keys.add(part.value)
    elif part.text is not None and not part.is_cut:
        stats.add_number("characters", len(part.text))
        stats.add_number("words", len(part.text.split()))


def count_catalog_media(browser: CatalogBrowser, progress: Progress = SILENT_PROGRESS) -> dict[str, PartContentStats]:
    """Count all media by part name from the facts in the catalog. Reads no media. Takes 1 µs per medium."""
    progress.phase("media facts", items=browser.catalog.media_reader.count())
    formats = browser.catalog.media_reader.formats()
    stats: dict[str, PartContentStats] = {}
    for block in browser.catalog.media_reader.blocks(MEDIA_BLOCK_ROWS):
        parts, format_ids = (np.array([row[i] for row in block], np.int64) for i in (0, 1))
        measures = [np.array([row[i] for row in block], np.float64) for i in (2, 3, 4)]  # None becomes NaN
        for part, format_id in {(row[0], row[1]) for row in block}:
            rows = (parts == part) & (format_ids == format_id)
            content = stats.setdefault(browser.part_name(part), PartContentStats())
            form = formats[format_id]
            content.kinds[media_format_label(facts_from_columns(form, MediaMeasures()))] += int(rows.sum())
            is_sideways = (form.orientation or 1) >= 5 or form.rotation in (90, 270)
            names = ("height", "width", "seconds") if is_sideways else ("width", "height", "seconds")
            for name, column in zip(names, measures, strict=True):
                values = column[rows & ~np.isnan(column)]
                if len(values):
                    content.histograms.setdefault(name, Histogram()).add(values)
        progress.advance(items=len(block))
    return stats


def media_format_label(facts: MediumFacts | Unreadable, format_name: str = "") -> str:
    """Return a label that many media share: `JPEG RGB`, `mp4 h264`, `flac 2 ch 44.1 kHz`."""
    if isinstance(facts, Unreadable):
        return f"{format_name or 'unreadable'}: {facts.reason}"
    if isinstance(facts, ImageFacts):
        return f"{facts.format} {facts.mode}"
    if isinstance(facts, VideoFacts):
        return f"{facts.format} {facts.codec}"
    return f"{facts.codec} {facts.channels} ch {facts.rate_hz / 1000:g} kHz"
