"""What the media of a dataset are on the whole, a line a part and kind: values alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

MediaKind = Literal["image", "audio", "video", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaLine:
    """The media of one kind in one part. Ranges are (least, greatest); None where nothing has such a number.

    `forms`: how many there are of each, in words: `JPEG RGB`, `mp4 h264`, `flac 2 ch 44.1 kHz`; of unreadable media,
    of each reason.
    """

    part: str
    kind: MediaKind
    media: int
    size_bytes: int
    forms: dict[str, int]
    width: tuple[int, int] | None = None  # pixels, as stored
    height: tuple[int, int] | None = None
    seconds: float | None = None  # in total
    seconds_range: tuple[float, float] | None = None


def media_counts(lines: Sequence[MediaLine]) -> Mapping[str, int]:
    """How many media there are of each kind."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts[line.kind] += line.media
    return counts
