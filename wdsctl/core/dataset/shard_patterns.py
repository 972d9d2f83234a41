"""Patterns for the paths of shards, which match whole paths.

shard-{000..799}.tar   a brace range
train/*.tar            a glob: `*` and `?` match within a folder, `**` matches any number of folders; also glob:...
re:shard-\\d+[02468]\\.tar   a regular expression
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from functools import lru_cache

from wdsctl.core.dataset.root_spec import glob_to_regex
from wdsctl.core.dataset.shard_names import expand_braces, has_braces
from wdsctl.core.dataset.timed_regex import compile_path_regex
from wdsctl.core.errors import UsageError

PathMatcher = Callable[[str], bool]

MAX_GLOBS = 100_000  # limit for the braces of one pattern: all globs become one expression
_GLOB = re.compile(r"[*?\[]")


@lru_cache(maxsize=64)
def compile_shard_pattern(pattern: str) -> PathMatcher:
    """Return a function that tells whether a path matches. Raises UsageError for an invalid pattern."""
    if pattern.startswith("re:"):
        return _compile_regex(pattern[3:], pattern)
    is_glob = pattern.startswith("glob:")
    text = _check_not_empty(pattern.removeprefix("glob:"))
    if is_glob or _GLOB.search(text):
        alternatives = expand_braces(text, max_names=MAX_GLOBS) if has_braces(text) else [text]
        return _compile_regex("|".join(f"(?:{glob_to_regex(each)})" for each in alternatives), pattern)
    names = frozenset(expand_braces(text))
    return names.__contains__


class ShardPatterns:
    """A list of patterns. A lookup of a path in all names and brace ranges takes constant time.

    Raises UsageError for an invalid pattern.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._by_path: dict[str, list[int]] = {}
        self._matchers: list[tuple[int, PathMatcher]] = []
        for number, pattern in enumerate(patterns):
            names = paths_named_by(pattern)
            if names is None:
                self._matchers.append((number, compile_shard_pattern(pattern)))
            for name in set(names or ()):
                self._by_path.setdefault(name, []).append(number)

    def find(self, path: str) -> list[int]:
        """Return the indexes of the patterns that match a path."""
        return [*self._by_path.get(path, ()), *(number for number, matches in self._matchers if matches(path))]


def paths_named_by(pattern: str) -> list[str] | None:
    """Return the paths that a name or brace range expands to; None for a glob or a regular expression."""
    if pattern.startswith(("re:", "glob:")) or _GLOB.search(pattern):
        return None
    return expand_braces(_check_not_empty(pattern))


def split_shard_and_key(name: str, shards: Container[str]) -> tuple[str, str]:
    """Divide SHARD/KEY. Both may contain `/`: the shortest prefix that is a shard is taken."""
    pieces = name.split("/")
    for end in range(1, len(pieces)):
        path = "/".join(pieces[:end])
        if path in shards:
            return path, "/".join(pieces[end:])
    path, _, key = name.rpartition("/")
    return path, key


def _check_not_empty(text: str) -> str:
    if not text:
        raise UsageError(
            "empty shard pattern", hint="write a pattern such as 'shard-{000..799}.tar' or 'glob:train/*.tar'"
        )
    return text


def _compile_regex(expression: str, pattern: str) -> PathMatcher:
    import regex

    try:
        return compile_path_regex(expression, pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"invalid shard pattern {pattern[:60]!r}: {error}",
            hint="write 'shard-{000..799}.tar', 'glob:train/*.tar', or 're:' with a regular expression for the path",
        ) from error
