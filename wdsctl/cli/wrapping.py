"""Lines that are longer than the terminal, broken between words; what may be copied stays in one piece."""

from __future__ import annotations

import re
import unicodedata

#: Commands in backticks, figures with their units, and arrows are not taken apart.
_WHOLE = re.compile(r"`[^`\n]*`|\d [kKMGTP]i?B\b|\d (?:ms|min|s|h|%)(?!\w)|--> \S")
#: Lines that begin so are commands, to be copied.
_COMMANDS = ("next: ", "wdsctl ")
_GLUE = "\ufdd0"  # no character of any text


def wrapped(text: str, columns: int) -> str:
    """The same lines, none wider than `columns` unless one word is; what is broken off stands two further right.

    Lines with escape sequences (pictures) are left as they are.
    """
    return "\n".join(_line(line, columns) for line in text.split("\n"))


def _line(line: str, columns: int) -> str:
    if _width(line) <= columns or "\x1b" in line or line.lstrip().startswith(_COMMANDS):
        return line
    rest = line.lstrip(" ")
    first = line[: len(line) - len(rest)]
    words = _WHOLE.sub(lambda found: found[0].replace(" ", _GLUE), rest).split(" ")
    lines, now = [], first + words[0]
    for word in words[1:]:
        if _width(f"{now} {word}") > columns:
            lines.append(now)
            now = f"{first}  {word}"
        else:
            now = f"{now} {word}"
    return "\n".join([*lines, now]).replace(_GLUE, " ")


def _width(text: str) -> int:
    """Columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
