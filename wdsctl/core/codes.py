"""Load the codes that wdsctl prints, with title, meaning and remedy, for `wdsctl explain`.

0xx requests · 1xx what a scan finds in shards · 2xx raw folders and splits · 3xx catalog · 4xx storage · 5xx loader ·
6xx blend files.
"""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

CODES_FILE = os.path.join(os.path.dirname(__file__), "codes.md")
REMEDY_LABEL = "What to do: "


class Code(NamedTuple):
    """Findings print `title`, `wdsctl explain` prints `meaning` and `remedy`. Each is one line."""

    title: str
    meaning: str
    remedy: str


@cache
def load_codes() -> dict[str, Code]:
    """Return all codes in order. The first call reads `codes.md` (70 kB, about 1 ms); later calls use a cache."""
    with open(CODES_FILE, encoding="utf-8") as file:
        sections = file.read().split("\n## ")[1:]
    codes = {}
    for section in sections:
        heading, meaning, remedy = section.rstrip("\n").replace("\n\n", "\0").replace("\n", " ").split("\0")
        code, _, title = heading.partition(": ")
        codes[code] = Code(title, meaning, remedy.removeprefix(REMEDY_LABEL))
    return codes
