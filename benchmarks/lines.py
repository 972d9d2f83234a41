"""Files of lines as they come for training: an object a line, of a caption or of a conversation of several turns.

Texts are drawn from a pool, and only the number of a line is its own: a million lines take seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

_POOL = 1000  # different texts
_WORDS = (
    "the",
    "a",
    "small",
    "red",
    "photograph",
    "of",
    "two",
    "people",
    "who",
    "walk",
    "along",
    "Zürich",
    "at",
    "dusk",
)
_AT_ONCE = 10_000  # lines written at a time


def write_lines(path: Path, first: int, lines: int, text: Callable[[Random], str]) -> None:
    """The lines first, first + 1, ...: `{"id": NUMBER, ` and what `text` draws."""
    random = Random(20_260_101)
    pool = [text(random) for _ in range(_POOL)]
    with path.open("w", encoding="utf-8") as file:
        for start in range(first, first + lines, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, first + lines))
            file.write("".join(f'{{"id": {number}, {pool[number * 7919 % _POOL]}\n' for number in numbers))


def caption(random: Random) -> str:
    """Of a line of 300 to 500 bytes, the rest."""
    return _rest({"image": f"images/{random.randrange(10**9):09d}.jpg", "caption": _random_text(random, 250, 450)})


def conversation(random: Random) -> str:
    """Of a line of 1.6 to 2.4 KB, the rest: four turns."""
    speakers = ("human", "gpt", "human", "gpt")
    turns = [{"from": speaker, "value": _random_text(random, 350, 550)} for speaker in speakers]
    return _rest({"image": f"images/{random.randrange(10**9):09d}.jpg", "conversations": turns})


def _rest(fields: dict[str, object]) -> str:
    return json.dumps(fields, ensure_ascii=False)[1:]


def _random_text(random: Random, least: int, most: int) -> str:
    size = random.randint(least, most)
    text = " ".join(random.choices(_WORDS, k=size // 3))
    return text[:size]
