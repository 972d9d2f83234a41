"""What is wrong with a blend file: where it stands, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wdsctl.core.errors import DatasetError
from wdsctl.core.urls import shown

DOC = "docs/blend-files.md"


class Place(NamedTuple):
    """A line of a file; or, without a line, a key of a mapping that was made in code."""

    source: str
    line: int = 0  # from 1; 0: there are no lines

    def __str__(self) -> str:
        return shown(self.source) + f":{self.line}" * bool(self.line)

    @property
    def at(self) -> str:
        """To go on a sentence with: `at line 7`."""
        return f"at line {self.line}" if self.line else f"at {shown(self.source)}"


def wrong(message: str, place: Place, *, hint: str, code: str = "WDS600") -> DatasetError:
    return DatasetError(message, hint=hint, where=str(place), code=code)


def unknown_key(key: str, place: Place, known: Iterable[str]) -> DatasetError:
    names = list(known)
    return wrong(
        f"unknown key {key!r} {place.at}{suggestion(key, names)}",
        place,
        hint=f"the keys here are {', '.join(names)}" if names else "no key stands here",
    )


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'weight'?`, or nothing where no known word is like this one."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def called(value: object) -> str:
    """A value in a sentence."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value)[:60]
