"""Indexing on first use: datasets that Energon prepared and that have no catalog yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.polylithic import find_polylithic_folder
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.urls import is_url
from wdsctl.loader.runtime.logs import logger

T = TypeVar("T")

#: No catalog, or no such split in it: a run may have been killed before it wrote the splits.
_NOT_INDEXED_CODES = ("WDS301", "WDS211")


def read_or_index(
    dataset: OpenDataset, catalog: str | None, read: Callable[[OpenDataset], T], *, divides: bool = True
) -> T:
    """`read(dataset)`, after indexing a dataset that was never used before.

    Logs warnings about the indexing. Raises what `read` and `index_on_first_use` raise.
    """
    if not divides and not dataset.has_config():  # written after the catalog
        index_if_first_use(dataset, catalog, divides=False)
    try:
        return read(dataset)
    except (CatalogError, InputError) as error:
        if error.code not in _NOT_INDEXED_CODES:
            raise
        not_indexed = error
    # Outside of `except`: an error of the indexing is not one of the missing catalog.
    if not index_if_first_use(dataset, catalog, divides=divides):
        _raise_cause(dataset.location)
        raise not_indexed
    return read(dataset)


def check_dataset_exists(path: str, catalog: str | None) -> None:
    """Raise what opening a dataset would raise if it does not exist, or has no catalog and cannot be indexed on first
    use. Costs a few file system calls. Does nothing for a URL, which is requested when the loader opens it."""
    from wdsctl.core.energon.meta import energon_meta

    polylithic = find_polylithic_folder(path)
    path = path if polylithic is None else polylithic.primary
    if is_url(path):
        return
    dataset = open_dataset(path, catalog, takes_view=True)
    location = dataset.location
    if dataset.has_catalog():
        return
    with energon_meta(location.root, location.single_file) as meta:
        if meta.is_prepared():
            return
    _raise_cause(location)


def _raise_cause(location: DatasetLocation) -> None:
    """Raise the reason why there is no catalog, if it is known: raw files, for example, or no shards."""
    from wdsctl.core.index.first_use import ensure_catalog_exists

    ensure_catalog_exists(location)


def index_if_first_use(dataset: OpenDataset, catalog: str | None = None, *, divides: bool) -> bool:
    """`index_on_first_use`, imported only when it is needed."""
    from wdsctl.core.index.first_use import index_on_first_use

    return index_on_first_use(dataset, catalog, logger.warning, with_splits=divides)
