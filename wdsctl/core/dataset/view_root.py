"""Parse `ROOT@NAME`, which names a view of a dataset, and tell blend files from datasets."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from wdsctl.core.dataset.location import DatasetLocation, locate, shell_command_at
from wdsctl.core.errors import UsageError
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url, normalize_root, redact_secrets, without_query

_VIEW_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class RootAndView(NamedTuple):
    """`root`: a path or a URL. `view`: the name of a view, empty for the whole dataset."""

    root: str
    view: str = ""


def is_blend_file(path: str) -> bool:
    """Whether the name is that of a blend file, which names datasets, rather than of a dataset."""
    return without_query(path).lower().endswith((".yaml", ".yml"))


def parse_root(text: str, catalog: str | None = None) -> RootAndView:
    """Parse `ROOT` or `ROOT@NAME`.

    An existing local path takes precedence over a view, and so does a URL that has a catalog unless `catalog` is given.
    With a slash at the end, `@` is part of the path: `data@2024/`.
    """
    root, _, view = text.rpartition("@")
    if not root or not _VIEW_NAME.fullmatch(view):
        return RootAndView(text)
    if is_url(text):
        is_literal = "/" not in root.partition("://")[2] or (
            catalog is None and os.path.exists(locate(text).catalog_path)
        )
        return RootAndView(text) if is_literal else RootAndView(root, view)
    if os.path.lexists(normalize_root(text)) or not os.path.lexists(normalize_root(root)):
        return RootAndView(text)  # if neither exists, errors name the text as written
    return RootAndView(root, view)


def locate_view(text: str, catalog: str | None = None, *, writing: bool = False) -> tuple[DatasetLocation, str]:
    """Return the location of `ROOT` or `ROOT@NAME`, and the view's name or "". Raises like `locate`."""
    root, view = parse_root(text, catalog)
    return locate(root, catalog, writing=writing), view


def parse_views(
    text: str, names: Sequence[str], catalog: str | None = None, *, max_views: int = 1
) -> tuple[str, list[str]]:
    """Return the root, and the names of views: the one of `ROOT@NAME` first, then `names`.

    Ignores empty names. Raises UsageError if there is no name, or more than `max_views`; otherwise like `locate`.
    """
    root, view = parse_root(text, catalog)
    named = [name for name in (view, *names) if name]
    if 1 <= len(named) <= max_views:
        return root, named
    location = locate(root, catalog)
    raise UsageError(
        f"expected {pluralize(max_views, 'view')}, found {len(named)}: {', '.join(named)}"
        if named
        else "missing view name",
        where=redact_secrets(text),
        hint=f"write the name after the dataset, or as ROOT@NAME; {shell_command_at(location, 'view list')} lists "
        "the views",
    )


def check_view_name(name: str) -> str:
    """Return the name. Raises UsageError if it is not a valid view name."""
    if not _VIEW_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid view name",
            hint="use at most 64 letters, digits, '_', '.' and '-'; start with a letter, a digit or '_'",
        )
    return name
