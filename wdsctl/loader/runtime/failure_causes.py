"""The causes of failures: a short text that is equal for failures with the same reason, whatever sample failed."""

from __future__ import annotations

import re

from wdsctl.core.errors import WdsctlError
from wdsctl.loader.runtime.user_lines import find_raising_line

_MAX_MESSAGE_CHARS = 100

#: Values in messages, which differ between samples: what is quoted or in brackets, and words with digits or slashes.
_VALUES = re.compile(r"""(?<!\w)'[^']*'|"[^"]*"|<[^>]*>|[^\s;:()]*[\d/][^\s,;:()]*""")


def describe_cause(hook: str, error: BaseException) -> str:
    """The hook, and the code and the message without values; for other errors, their type and the line of the hook that
    raised. Costs 10 us."""
    if isinstance(error, WdsctlError):
        message = _VALUES.sub("...", error.message)
        return f"{hook}: {error.code}: {message[:_MAX_MESSAGE_CHARS]}"
    line = find_raising_line(error)
    return f"{hook}: {type(error).__name__}{f' at {line}' if line else ''}"
