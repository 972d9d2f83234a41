"""The causes of failures: a short text that is equal for failures with the same reason, whatever sample failed."""

from __future__ import annotations

import re
from pathlib import Path
from traceback import walk_tb

from wdsctl.core.errors import WdsctlError

_PACKAGE_FOLDER = str(Path(__file__).parents[2])
_MAX_MESSAGE_CHARS = 100

#: Values in messages, which differ between samples: what is quoted or in brackets, and words with digits or slashes.
_VALUES = re.compile(r"""(?<!\w)'[^']*'|"[^"]*"|<[^>]*>|[^\s;:()]*[\d/][^\s,;:()]*""")


def describe_cause(hook: str, error: BaseException) -> str:
    """The hook, and the code and the message without values; for other errors, their type and the line of the hook that
    raised. Costs 10 us."""
    if isinstance(error, WdsctlError):
        message = _VALUES.sub("...", error.message)
        return f"{hook}: {error.code}: {message[:_MAX_MESSAGE_CHARS]}"
    line = _find_user_line(error)
    return f"{hook}: {type(error).__name__}{f' at {line}' if line else ''}"


def _find_user_line(error: BaseException) -> str:
    """`train.py:31`: the last line in the file of the hook; "" if no code outside of wdsctl ran."""
    found = ""
    user_file = None
    for frame, line in walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if user_file is None and not file.startswith(_PACKAGE_FOLDER):
            user_file = file
        if file == user_file:
            found = f"{Path(file).name}:{line}"
    return found
