"""Match regular expressions and globs against whole paths, with a time limit.

Some patterns would take years, and a dataset or catalog may contain one on purpose. Python's `re` cannot be
interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from wdsctl.core.errors import UsageError

MATCH_TIMEOUT_SECONDS = 10.0  # per pattern, summed over slow paths: a path normally takes microseconds
_SLOW = 0.001  # seconds; faster matches do not count
_MIN_TIMEOUT_SECONDS = 0.001  # seconds; the library reads 0 as no limit


def compile_path_regex(expression: str, pattern_text: str) -> Callable[[str], bool]:
    """Return a function that tells whether a whole path matches. `pattern_text`: the pattern for errors.

    Raises `regex.error`, RecursionError or OverflowError for an invalid pattern. The function raises UsageError when
    the pattern has taken too long.
    """
    import regex

    compiled = regex.compile(expression, regex.DOTALL)
    left = MATCH_TIMEOUT_SECONDS

    def matches(path: str) -> bool:
        nonlocal left
        began = time.monotonic()
        try:
            found = compiled.fullmatch(path, timeout=max(_MIN_TIMEOUT_SECONDS, left)) is not None
        except TimeoutError as error:
            raise UsageError(
                f"the pattern {pattern_text[:60]!r} takes more than {MATCH_TIMEOUT_SECONDS:g} s to match, for example "
                f"{path[:60]!r}",
                hint="avoid nested `*` and `+`, such as `(a+)+`",
            ) from error
        if (took := time.monotonic() - began) > _SLOW:
            left -= took
        return found

    return matches
