"""Opens datasets by their roots. Here, and nowhere else, the published catalog of a dataset at a URL is fetched."""

from __future__ import annotations

from collections.abc import Sequence

from wdsctl.core.dataset.location import locate, shell_command_at
from wdsctl.core.dataset.view_root import RootAndView, split_root
from wdsctl.core.errors import UsageError
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url, redact_secrets


def open_dataset(
    root: str, catalog: str | None = None, *, writing: bool = False, takes_view: bool = False, real_root: str = ""
) -> OpenDataset:
    """Locate the dataset at `root` (`locate`, which explains the other arguments), and open no file.

    `takes_view`: `root` may be `ROOT@NAME`. For a URL, brings the mirror of the published catalog up to date: one
    request if nothing is new. Raises what `locate` and `wdsctl.core.remote_catalogs.pull` raise.
    """
    root, view = parse_root(root, catalog) if takes_view else (root, "")
    location = locate(root, catalog, writing=writing, real_root=real_root)
    if location.published_url:
        from wdsctl.core.remote_catalogs.pull import pull  # local datasets do not need the modules of stores

        pull(location.meta, location.published_url)
    return OpenDataset(location, view)


def parse_root(text: str, catalog: str | None = None) -> RootAndView:
    """Parse `ROOT` or `ROOT@NAME`.

    An existing local path takes precedence over a view, and so does a URL that has a catalog unless `catalog` is given.
    With a slash at the end, `@` is part of the path: `data@2024/`.
    """
    found = split_root(text)
    is_literal = bool(found.view) and catalog is None and is_url(text) and open_dataset(text).has_catalog()
    return RootAndView(text) if is_literal else found


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
