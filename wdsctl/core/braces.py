"""Brace ranges, as shells and webdataset have them: `shard-{000..999}.tar`, `{train,val}/*.tar`, `{00..98..2}`.

Source: GNU Bash manual, "Brace Expansion" (commas, ranges, steps, zeros kept where an end is written with them).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from wdsctl.core.errors import UsageError

MOST = 1_000_000  # names that one notation may stand for
MOST_LETTERS = 1 << 28  # of all these names together: the text around the braces is in each of them
MOST_BRACES = 64  # in one notation; each is gone through again for every name

_INNERMOST = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")


def has_braces(text: str) -> bool:
    """Whether there is anything to expand: a pair of braces with a comma or a range in it."""
    return any(_choices(match[1]) is not None for match in _INNERMOST.finditer(text))


def expanded(text: str, *, most: int | None = None) -> list[str]:
    """All names that a notation stands for, in its order. Braces without a comma or a range mean themselves.

    `most`: names; `MOST` where nothing is said. Raises UsageError where they are too many or too long together, or the
    braces are nested without end.
    """
    most = MOST if most is None else most
    if text.count("{") > MOST_BRACES and has_braces(text):
        raise UsageError(
            f"{text[:60]!r} cannot be expanded: it has more than {MOST_BRACES} braces",
            hint="name the folder, or a glob such as 'glob:DIR/*.tar'",
        )
    try:
        names = list(islice(_bounded(text), most + 1))
    except UsageError:
        raise
    except (RecursionError, ValueError) as error:  # numbers of thousands of digits
        raise UsageError(
            f"the braces of {text[:60]!r} cannot be expanded: {error}", hint="such as shard-{000..999}.tar"
        ) from error
    if len(names) > most:
        raise UsageError(
            f"{text[:60]!r} stands for more than {most:,} names",
            hint="name the folder, or a glob such as 'glob:DIR/*.tar'",
        )
    return names


def _bounded(text: str) -> Iterator[str]:
    letters = 0
    for name in _names(text):
        letters += len(name)
        if letters > MOST_LETTERS:
            raise UsageError(
                f"the names that {text[:60]!r} stands for have more than {MOST_LETTERS:,} letters together",
                hint="name the folder, or a glob such as 'glob:DIR/*.tar'",
            )
        yield name


def _names(text: str) -> Iterator[str]:
    """The innermost braces that say something are gone through last: those before them vary more slowly."""
    for match in _INNERMOST.finditer(text):
        choices = _choices(match[1])
        if choices is not None:
            head, tail = text[: match.start()], text[match.end() :]
            yield from (name for choice in choices for name in _names(f"{head}{choice}{tail}"))
            return
    yield text


def _choices(inside: str) -> Iterator[str] | None:
    match = _RANGE.fullmatch(inside)
    if match:
        return _range(match[1], match[2], abs(int(match[3] or 1)) or 1)
    return iter(inside.split(",")) if "," in inside else None


def _range(first: str, last: str, step: int) -> Iterator[str]:
    width = (
        max(len(first), len(last))
        if any(len(end.lstrip("-")) > 1 and end.lstrip("-")[0] == "0" for end in (first, last))
        else 0
    )
    start, stop = int(first), int(last)
    numbers = range(start, stop + 1, step) if start <= stop else range(start, stop - 1, -step)
    return (f"{number:0{width}d}" for number in numbers)
