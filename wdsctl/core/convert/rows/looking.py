"""A cheap look into a folder or a file, for telling forms apart: it ends after so many names, and never raises."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from wdsctl.core.beneath import leads_outside
from wdsctl.core.regular_file import regular

MOST = 10_000  # names that are looked at


def head_of(path: str, size: int = 1 << 16) -> bytes:
    """The first bytes of a file; none where it cannot be read."""
    try:
        with open(path, "rb", opener=regular) as file:
            return file.read(size)
    except OSError:
        return b""


def first_below(root: str, is_wanted: Callable[[str], bool], *, depth: int) -> str | None:
    """The path of some file whose name is wanted, at most `depth` folders below `root`. Hidden names do not count."""
    folders = deque([(root, 0)])
    left = MOST
    while folders and left > 0:
        folder, level = folders.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if entry.name.startswith((".", "_")) or left < 0:
                        continue
                    if leads_outside(entry, root):
                        continue  # whoever reads the form says so
                    if is_wanted(entry.name) and entry.is_file():
                        return entry.path
                    if level < depth and entry.is_dir():
                        folders.append((entry.path, level + 1))
        except OSError:
            continue  # what it is, the form that opens it says
    return None
