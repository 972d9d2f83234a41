"""Regular expressions and globs on whole paths, with an end to the time that they take.

Some try for years, and those that datasets and catalogs bring may be made for it. Python's own `re` ends for nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from wdsctl.core.errors import UsageError

SECONDS = 10.0  # of one pattern on all paths that it is slow with: a path takes microseconds
_SLOW = 0.001  # seconds; what takes less does not count
_LEAST = 0.001  # seconds; the library takes none for no limit


def whole_path(expression: str, said: str) -> Callable[[str], bool]:
    """Whether a path matches as a whole; `said`: the pattern as it is written, for the error.

    Raises `regex.error`, RecursionError or OverflowError where it is no expression. The function raises UsageError once
    the pattern has taken too long.
    """
    import regex

    compiled = regex.compile(expression, regex.DOTALL)
    left = SECONDS

    def matches(path: str) -> bool:
        nonlocal left
        began = time.monotonic()
        try:
            found = compiled.fullmatch(path, timeout=max(_LEAST, left)) is not None
        except TimeoutError as error:
            raise UsageError(
                f"the pattern {said[:60]!r} takes more than {SECONDS:g} s, such as for {path[:60]!r}",
                hint="write it with fewer `*` and `+`, one inside of the other above all",
            ) from error
        if (took := time.monotonic() - began) > _SLOW:
            left -= took
        return found

    return matches
