"""The levels of `validate`, the cheapest first, and what each stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from wdsctl.core.errors import UsageError

Level = Literal["structure", "headers", "content", "schema", "refs", "hashes"]

LEVELS: tuple[Level, ...] = get_args(Level)
ALL = "all"

#: Who looks into the content of media has looked at their headers, and all but hashes need to know where parts are.
_STANDS_ON: dict[Level, tuple[Level, ...]] = {"content": ("headers",)}


def parse_levels(words: Sequence[str]) -> tuple[Level, ...]:
    """`["content,schema"]`, `["all"]`: the levels that are meant, with those that they stand on, the cheapest first.

    Structure is always one of them. Raises UsageError for a word that is no level.
    """
    meant: set[str] = {"structure"}
    for word in (piece.strip() for text in words for piece in text.split(",")):
        if word != ALL and word not in LEVELS:
            raise UsageError(
                f"--level {word}: there is no such level", hint=f"the levels are {', '.join(LEVELS)}, and all"
            )
        meant |= {*LEVELS} if word == ALL else {word}
    for level in LEVELS:
        if level in meant:
            meant |= {*_STANDS_ON.get(level, ())}
    return tuple(level for level in LEVELS if level in meant)


def not_checked(levels: Sequence[Level]) -> str:
    """What these levels leave out, for whoever takes their answer for all there is to say; empty where nothing is."""
    if "content" in levels:
        return ""
    return f"{', '.join(levels)} only: media were not decoded; --level content does that"
