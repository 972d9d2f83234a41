"""Split `ROOT@NAME`, which names a view of a dataset, and tell blend files from datasets."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from wdsctl.core.errors import UsageError
from wdsctl.core.urls import is_url, normalize_root, without_query

_VIEW_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class RootAndView(NamedTuple):
    """`root`: a path or a URL. `view`: the name of a view, empty for the whole dataset."""

    root: str
    view: str = ""


def is_blend_file(path: str) -> bool:
    """Whether the name is that of a blend file, which names datasets, rather than of a dataset."""
    return without_query(path).lower().endswith((".yaml", ".yml"))


def split_root(text: str) -> RootAndView:
    """`wdsctl.core.opened.opening.parse_root` without a request: a URL with a valid name after `@` counts as a view."""
    root, _, view = text.rpartition("@")
    if not root or not _VIEW_NAME.fullmatch(view):
        return RootAndView(text)
    if is_url(text):
        return RootAndView(root, view) if "/" in root.partition("://")[2] else RootAndView(text)
    if os.path.lexists(normalize_root(text)) or not os.path.lexists(normalize_root(root)):
        return RootAndView(text)  # if neither exists, errors name the text as written
    return RootAndView(root, view)


def check_view_name(name: str) -> str:
    """Return the name. Raises UsageError if it is not a valid view name."""
    if not _VIEW_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid view name",
            hint="use at most 64 letters, digits, '_', '.' and '-'; start with a letter, a digit or '_'",
        )
    return name
