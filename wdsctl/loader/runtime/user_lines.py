"""The lines of the user's code: where a hook raised an error, and where the user called the loader."""

from __future__ import annotations

import os
import warnings
from inspect import currentframe
from pathlib import Path
from traceback import walk_tb

_PACKAGE_FOLDER = str(Path(__file__).parents[2]) + os.sep


def find_raising_line(error: BaseException) -> str:
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


def warn_at_user_line(message: str) -> None:
    """Warn with the line outside of wdsctl that called it, however deep the call is."""
    level, frame = 1, currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
