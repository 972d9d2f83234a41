"""Patterns of shards' paths: brace ranges, `glob:` and `re:`, the last matching whole paths.

shard-{000..799}.tar   names, one by one
train/*.tar            a glob: `*` and `?` stay within a folder, `**` goes through any number (also as glob:...)
re:shard-\\d+[02468]\\.tar
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from functools import lru_cache

from wdsctl.core.bounded_match import whole_path
from wdsctl.core.braces import expanded, has_braces
from wdsctl.core.errors import UsageError
from wdsctl.core.selected_shards import regex_of

Matches = Callable[[str], bool]

MOST_GLOBS = 100_000  # that the braces of one may stand for: they are one expression
_GLOB = re.compile(r"[*?\[]")


@lru_cache(maxsize=64)
def matcher(pattern: str) -> Matches:
    """Whether a path matches. Raises UsageError where the pattern cannot be understood."""
    if pattern.startswith("re:"):
        return _matching(pattern[3:], pattern)
    is_glob = pattern.startswith("glob:")
    text = _said(pattern.removeprefix("glob:"))
    if is_glob or _GLOB.search(text):
        alternatives = expanded(text, most=MOST_GLOBS) if has_braces(text) else [text]
        return _matching("|".join(f"(?:{regex_of(each)})" for each in alternatives), pattern)
    names = frozenset(expanded(text))
    return names.__contains__


class Patterns:
    """Patterns as one table: those that name paths one by one cost a look-up a path, however many they are.

    Raises UsageError where one of them cannot be understood.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._named: dict[str, list[int]] = {}
        self._open: list[tuple[int, Matches]] = []
        for number, pattern in enumerate(patterns):
            names = named_by(pattern)
            if names is None:
                self._open.append((number, matcher(pattern)))
            for name in set(names or ()):
                self._named.setdefault(name, []).append(number)

    def find(self, path: str) -> list[int]:
        """Which of the patterns match a path, by their places."""
        return [*self._named.get(path, ()), *(number for number, matches in self._open if matches(path))]


def named_by(pattern: str) -> list[str] | None:
    """The paths that a pattern names one by one; None where it is a glob or a regular expression."""
    if pattern.startswith(("re:", "glob:")) or _GLOB.search(pattern):
        return None
    return expanded(_said(pattern))


def shard_and_key(name: str, shards: Container[str]) -> tuple[str, str]:
    """SHARD and KEY of a sample's name: either may have `/`, so a shard is looked for that there is."""
    pieces = name.split("/")
    for end in range(1, len(pieces)):
        path = "/".join(pieces[:end])
        if path in shards:
            return path, "/".join(pieces[end:])
    path, _, key = name.rpartition("/")
    return path, key


def _said(text: str) -> str:
    if not text:
        raise UsageError("a pattern of shards is empty", hint="such as 'shard-{000..799}.tar' or 'glob:train/*.tar'")
    return text


def _matching(expression: str, pattern: str) -> Matches:
    import regex

    try:
        return whole_path(expression, pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"{pattern[:60]!r} is no pattern of shards: {error}",
            hint="'shard-{000..799}.tar', 'glob:train/*.tar', or 're:' and a regular expression of the whole path",
        ) from error
