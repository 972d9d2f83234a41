"""What a conversion does to every sample, as plain values: workers get it with their units, plans are named by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wdsctl.core.transcode.options import AudioOptions, ImageOptions

OnError = Literal["error", "skip", "keep"]
Layout = Literal["", "monolithic", "polylithic"]
Stream = Literal["", "primary", "media"]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source: which importer opens which path how. `name` stands before keys where they are prefixed."""

    importer: str
    path: str
    options: Pairs = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class PartRules:
    """Which parts are taken (empty: all), which are left out, and what they are called then. Names or patterns."""

    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    rename: Pairs = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """`media`: the parts that a polylithic layout keeps apart; `primary`: how it writes the others, tar or jsonl."""

    sources: tuple[SourceSpec, ...]
    target: str = "shards"
    target_options: Pairs = ()
    parts: PartRules = PartRules()
    image: ImageOptions | None = None
    audio: AudioOptions | None = None
    on_error: OnError = "skip"
    media: tuple[str, ...] = ()
    primary: Literal["tar", "jsonl"] = "tar"
