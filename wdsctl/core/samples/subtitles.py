"""Subtitles: from SubRip (.srt) and WebVTT (.vtt) to what is spoken, and when.

Sources: https://www.w3.org/TR/webvtt1 (WebVTT); https://matroska.org/technical/subtitles.html (SubRip).
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from wdsctl.core.errors import DatasetError

SUBTITLE_EXTENSIONS = ("srt", "vtt")

_TIME = r"(?:(\d+):)?([0-5]?\d):([0-5]?\d)[.,](\d{1,3})"
_TIMING = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_BEGINNING = re.compile(rf"\s*(?:WEBVTT(?:[ \t\r\n]|\Z)|(?:\d+\s*\n)?\s*{_TIME}\s*-->)")
#: Markup in a cue: <i>, <c.yellow>, <00:01.500> and {\an8}.
_MARKUP = re.compile(r"</?[A-Za-z][^<>\n]*>|<[0-9:.]+>|\{\\[^{}\n]*\}")


def is_subtitles(text: str) -> bool:
    """Whether a text is SubRip or WebVTT, by its beginning."""
    return bool(_BEGINNING.match(text.removeprefix("\ufeff")))


def has_subtitle_extension(part: str) -> bool:
    """Whether a part is subtitles by the extension of its name, such as `en.vtt`."""
    return part.lower().rpartition(".")[2] in SUBTITLE_EXTENSIONS


def read_subtitles(text: str) -> list[dict[str, Any]]:
    """The cues with their text: `start` and `end` in seconds, and `text` without markup.

    Cues without text are left out. Raises DatasetError WDS232 for a line with `-->` that is no timing.
    """
    cues: list[dict[str, Any]] = []
    is_cue = False
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if "-->" in line:
            timing = _TIMING.fullmatch(line)
            if timing is None:
                raise DatasetError(
                    f"the subtitles cannot be read: line {number} is no timing",
                    hint="write it as 00:00:01,000 --> 00:00:02,500",
                    code="WDS232",
                )
            groups = timing.groups()
            cues.append({"start": _seconds(*groups[:4]), "end": _seconds(*groups[4:]), "text": ""})
            is_cue = True
        elif not line.strip():
            is_cue = False
        elif is_cue:
            words = " ".join(unescape(_MARKUP.sub("", line)).split())
            cues[-1]["text"] = f"{cues[-1]['text']} {words}".strip()
    return [cue for cue in cues if cue["text"]]


def spoken_text(cues: list[dict[str, Any]]) -> str:
    """The text of all cues, in one line."""
    return " ".join(cue["text"] for cue in cues)


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str) -> float:
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + int(fraction.ljust(3, "0")) / 1000
