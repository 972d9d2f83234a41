"""From a reference in a blend file to the store that it means."""

from __future__ import annotations

import os
from functools import lru_cache

from wdsctl.core.blend_file.paths import is_blend_file
from wdsctl.core.catalog.by_name import Names
from wdsctl.core.catalog.quick import current_generation
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, StateMismatch, UsageError
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place, locate
from wdsctl.core.urls import is_url, plain, shown
from wdsctl.loader.decoding import SampleDecoder
from wdsctl.loader.first_use import first_use
from wdsctl.loader.stores.far_folder import FarFolderStore
from wdsctl.loader.stores.folder import FolderStore
from wdsctl.loader.stores.prepared import PreparedStore
from wdsctl.loader.stores.store import FileStore

FILESYSTEM = "filesystem://"
_FAR = "filesystem+"
_SHARDS = (".tar", ".tgz", ".tar.gz", ".jsonl", ".ndjson")
_HELD_OPEN = 32  # stores that a process keeps which came to it by reference


def open_store(
    reference: str, decoder: SampleDecoder | None = None, *, generation: int | None = None, where: str = ""
) -> FileStore:
    """The store of a prepared dataset (a path, a URL, a `.jsonl`), of a folder (`filesystem://PATH`, or the path of one
    that was not prepared), or of a folder at a URL (`filesystem+s3://...`).

    `generation`: that of a prepared dataset, by default the present one. `where`: the place in the blend file. Raises
    InputError, UsageError, PermissionDenied; CatalogError where the catalog cannot be used, StateMismatch where the
    generation is gone. A dataset on a disk that Energon has prepared is indexed where nobody has done that.
    """
    if reference.startswith(_FAR):
        return FarFolderStore(plain(reference.removeprefix(_FAR)), decoder)
    if reference.startswith(FILESYSTEM):
        return _folder(reference.removeprefix(FILESYSTEM), decoder, where)
    if is_blend_file(reference):
        raise UsageError(
            "a store is one dataset or folder, and this is a blend file",
            where=where or reference,
            hint="name each of its datasets under a name of its own",
        )
    place = locate(reference)
    if not is_url(reference) and not os.path.exists(place.catalog):
        place = first_use(reference, divides=False) or place
    if os.path.exists(place.catalog):
        return _catalogued(place, decoder, generation)
    if is_url(reference):
        raise InputError(
            "nothing is known of the files at this URL",
            where=where or shown(reference),
            hint=f"`wdsctl index {shown(reference)}` makes a catalog of its shards; plain files are meant by "
            f"{_FAR}{shown(reference)}",
        )
    if _looks_like_shards(place.root) or not os.path.isdir(reference):
        raise InputError(
            "the store has shards, and no catalog of them",
            where=where or reference,
            hint=f"`wdsctl prepare {reference}` makes it; a folder of plain files is meant by {FILESYSTEM}{reference}",
            code="WDS301",
        )
    return _folder(place.root, decoder, where)


def prepared_again(place: Place, generation: int, digest: str, decoder: SampleDecoder | None) -> PreparedStore:
    """A store in another process. Raises StateMismatch where its dataset has gone on without keeping what it was."""
    try:
        store = _kept_open(place, generation, decoder)
    except CatalogError as error:
        raise _gone(place, generation) from error
    if store.digest != digest:
        raise _gone(place, generation)
    return store


@lru_cache(maxsize=_HELD_OPEN)
def _kept_open(place: Place, generation: int, decoder: SampleDecoder | None) -> PreparedStore:
    return PreparedStore(place, Offsets(place.offsets(generation)), decoder)


def _catalogued(place: Place, decoder: SampleDecoder | None, generation: int | None) -> FileStore:
    current = current_generation(place.catalog)
    with Names(place.catalog) as names:
        is_folder = names.is_media_folder
    if is_folder:
        return FolderStore(place.root, decoder, place.catalog, f"folder-{current}")
    wanted = current if generation is None else generation
    try:
        store = PreparedStore(place, Offsets(place.offsets(wanted)), decoder)
    except CatalogError as error:
        if wanted == current:
            raise
        raise _gone(place, wanted) from error
    return store


def _folder(path: str, decoder: SampleDecoder | None, where: str) -> FolderStore:
    root = os.path.abspath(path)
    if not os.path.isdir(root):
        raise InputError(
            "the folder of a store does not exist" if not os.path.exists(root) else "a store is a folder, no file",
            where=f"{where}, {root}" if where else root,
            hint="a path in a blend file is beside that file, unless it is absolute",
        )
    if not os.access(root, os.R_OK | os.X_OK):
        raise PermissionDenied("the folder of a store cannot be read", where=root, hint="check its owner and its mode")
    place = locate(root)
    if os.path.exists(place.catalog):
        with Names(place.catalog) as names:
            if names.is_media_folder:
                return FolderStore(root, decoder, place.catalog, f"folder-{current_generation(place.catalog)}")
    return FolderStore(root, decoder)


def _looks_like_shards(root: str) -> bool:
    """Whether there are shards at the top of a folder: a walk through millions of plain files would take minutes."""
    with os.scandir(root) as entries:
        return any(entry.name.lower().endswith(_SHARDS) for entry in entries)


def _gone(place: Place, generation: int) -> StateMismatch:
    return StateMismatch(
        f"generation {generation} of an auxiliary store is no longer kept",
        where=place.shown,
        hint="save, and begin again from the state: the store is then taken as it is now",
    )
