"""`ROOT@NAME`: a dataset, or one of its views. A path that is really there is always meant as it stands."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from wdsctl.core.command_line import command_at
from wdsctl.core.errors import UsageError
from wdsctl.core.place import Place, locate
from wdsctl.core.urls import is_url, plain, shown

_VIEW = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class RootName(NamedTuple):
    """`root` is a path or a URL; `view` the name of a view of it, empty where all of it is meant."""

    root: str
    view: str = ""


def parse_root(text: str, catalog: str | None = None) -> RootName:
    """What `ROOT` or `ROOT@NAME` names.

    A local path that exists wins over a view, and so does a URL that has a catalog, where `catalog` names none. A slash
    at the end keeps any `@` before it in the path: `data@2024/`.
    """
    root, _, view = text.rpartition("@")
    if not root or not _VIEW.fullmatch(view):
        return RootName(text)
    if is_url(text):
        is_literal = "/" not in root.partition("://")[2] or (catalog is None and os.path.exists(locate(text).catalog))
        return RootName(text) if is_literal else RootName(root, view)
    if os.path.lexists(plain(text)) or not os.path.lexists(plain(root)):
        return RootName(text)  # what does not exist either way is complained of as it was written
    return RootName(root, view)


def located(text: str, catalog: str | None = None, *, writing: bool = False) -> tuple[Place, str]:
    """The place of `ROOT` or `ROOT@NAME`, and the view's name or nothing. Raises what `locate` raises."""
    root, view = parse_root(text, catalog)
    return locate(root, catalog, writing=writing), view


def named_views(text: str, names: Sequence[str], catalog: str | None = None, *, most: int = 1) -> tuple[str, list[str]]:
    """The root, and the views of it that are named: by `ROOT@NAME`, which comes first, and behind it.

    Empty names are none. Raises UsageError where no view is named, or more than `most` are; what `locate` raises.
    """
    root, view = parse_root(text, catalog)
    named = [name for name in (view, *names) if name]
    if 1 <= len(named) <= most:
        return root, named
    place = locate(root, catalog)
    raise UsageError(
        f"more views are named than it takes: {', '.join(named)}" if named else "no view is named",
        where=shown(text),
        hint=f"name one behind the dataset, or as ROOT@NAME; {command_at(place, 'view list')} lists them",
    )


def check_view_name(name: str) -> str:
    """The name, where a view can have it. Raises UsageError."""
    if not _VIEW.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a view",
            hint="at most 64 letters, digits, '_', '.' and '-', of which the first is a letter, a digit or '_'",
        )
    return name
