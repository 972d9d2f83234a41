"""Datasets that Energon has prepared and nobody has indexed are indexed when they are first used."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.place import Place
from wdsctl.core.root_name import located
from wdsctl.core.urls import is_url
from wdsctl.loader.logs import log

T = TypeVar("T")

#: There is no catalog, or it has no such split: a run may have been killed before there were any.
_UNUSED = ("WDS301", "WDS211")


def after_first_use(
    place: Place, catalog: str | None, opened: Callable[[Place], T], *, divides: bool = True
) -> tuple[Place, T]:
    """What `opened` makes of a dataset; where it was never used before, after it is indexed.

    What the user should know is logged as warnings. Raises what `opened` and `index_on_first_use` raise.
    """
    if not divides and not os.path.exists(place.dataset_yaml):  # a catalog comes before it
        place = first_use(place.path, catalog, divides=False) or place
    try:
        return place, opened(place)
    except (CatalogError, InputError) as error:
        if error.code not in _UNUSED:
            raise
        used = first_use(place.path, catalog, divides=divides)
        if used is None:
            _tell_why(place)
            raise
    return used, opened(used)


def check_there(path: str, catalog: str | None) -> None:
    """Raise what opening a dataset would raise where it is not there, or has no catalog and cannot get one by itself: a
    few questions to the file system. What lies at a URL is not asked for, its catalog here is."""
    place, _ = located(path, catalog)
    if os.path.exists(place.catalog) or is_url(place.root) or _is_energons(place):
        return
    _tell_why(place)


def _is_energons(place: Place) -> bool:
    from wdsctl.core.formats.energon_meta import energon_meta

    with energon_meta(place.root, place.only) as meta:
        return meta.is_prepared()


def _tell_why(place: Place) -> None:
    """Raise what helps more than that there is no catalog, if that is what is wrong: raw files, say, or no shards."""
    from wdsctl.core.verbs.presence import check_made

    check_made(place)


def first_use(root: str, catalog: str | None = None, *, divides: bool) -> Place | None:
    """`index_on_first_use`, which is imported where it is needed: hardly ever."""
    from wdsctl.core.verbs.first_use import index_on_first_use

    return index_on_first_use(root, catalog, log.warning, divides=divides)
