"""Stores for the level `refs`, which look names up without reading entries.

The loader reads entries (`wdsctl/loader/stores/`). A test checks that both resolve names in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.dataset.location import DatasetLocation, shell_command
from wdsctl.core.dataset.view_root import is_blend_file
from wdsctl.core.errors import InputError
from wdsctl.core.media.kinds import MEDIA_KINDS, part_kind
from wdsctl.core.offsets.key_index import KeyIndex, offsets_digest, open_key_index
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.samples.naming import dotless_key, possible_keys
from wdsctl.core.shards.list import list_files
from wdsctl.core.urls import is_url, redact_secrets

FILESYSTEM_PREFIX = "filesystem://"

EntryIds = NDArray[np.uint64]  # ids that a store assigns to its entries


class LookupResult(NamedTuple):
    """The result of looking up a name. `near_name`: an entry that differs only in case."""

    status: Literal["found", "missing", "other case", "ambiguous", "outside"]
    entry_id: int = 0
    near_name: str = ""


class RefStore(Protocol):
    """A store of entries by name."""

    @property
    def display_path(self) -> str: ...

    @property
    def digest(self) -> str:
        """A digest that changes when an entry may have changed; empty if the store cannot detect changes."""

    def lookup(self, name: str) -> LookupResult: ...

    def find_unused(self, used_ids: EntryIds) -> tuple[int, str]:
        """Count the media that are not in `used_ids`, and return the name of the first."""


@lru_cache(maxsize=64)
def open_ref_store(reference: str) -> RefStore:
    """Open a store by path, URL or `filesystem://DIR`, as in a blend file. Caches it. Raises a WdsctlError."""
    if reference.startswith(FILESYSTEM_PREFIX):
        return FolderRefStore(reference.removeprefix(FILESYSTEM_PREFIX))
    if is_blend_file(reference) or reference.startswith("filesystem+"):
        raise InputError(
            "validate cannot check references into this kind of store",
            where=redact_secrets(reference),
            hint="use a prepared dataset, or a local or mounted folder of files",
        )
    location = open_dataset(reference).location
    if os.path.exists(location.catalog_path):
        return PreparedRefStore(location)
    if is_url(reference) or not os.path.isdir(reference):
        raise InputError(
            "the store has no catalog",
            where=location.display_path,
            hint=f"create the catalog: {shell_command('prepare', location.display_path)}",
            code="WDS301",
        )
    return FolderRefStore(location.root)


def clear_store_cache() -> None:
    """Clear the cache of open stores, since they may have changed."""
    open_ref_store.cache_clear()
    _list_names.cache_clear()


def is_outside_name(name: str) -> bool:
    """Whether a name is absolute or contains `..`, on this system or another."""
    path = name.replace("\\", "/")
    return path.startswith("/") or path[1:3] == ":/" or ".." in path.split("/") or "\0" in name


class PreparedRefStore:
    """A prepared dataset. Names are `KEY.PART`, or a key for a sample; an entry's id is its row of the offsets file."""

    def __init__(self, location: DatasetLocation) -> None:
        self.display_path = location.display_path
        with OpenDataset(location) as dataset:
            self._offsets = dataset.offsets()
        self._key_index: KeyIndex = open_key_index(location, self._offsets)
        self.digest = offsets_digest(self._offsets)

    def lookup(self, name: str) -> LookupResult:
        if is_outside_name(name):
            return LookupResult("outside")
        rows: list[int] = []
        near = ""
        for key, part in possible_keys(name):
            found = self._key_index.find(key)
            rows = [row for row in found.rows if part in self._part_names(row)]
            near = near or next(self._near_names(part, (*found.rows, *found.case_variants)), "")
            if rows:
                break
        if not rows:
            sample = self._key_index.find(name)
            rows = list(sample.rows or self._key_index.find(dotless_key(name)).rows)
            near = near or (self._offsets.key(sample.case_variants[0]) if sample.case_variants else "")
        if len(rows) > 1:
            return LookupResult("ambiguous")
        if rows:
            return LookupResult("found", rows[0])
        return LookupResult("other case", near_name=near) if near else LookupResult("missing")

    def find_unused(self, used_ids: EntryIds) -> tuple[int, str]:
        is_unused = np.ones(self._offsets.samples, np.bool_)
        is_unused[used_ids.astype(np.int64)] = False
        rows = np.flatnonzero(is_unused)
        return len(rows), self._offsets.key(int(rows[0])) if len(rows) else ""

    def _near_names(self, part: str, rows: Sequence[int]) -> Iterator[str]:
        for row in rows:
            for name in self._part_names(row):
                if name.lower() == part.lower():
                    yield f"{self._offsets.key(row)}.{name}"

    def _part_names(self, row: int) -> tuple[str, ...]:
        layout = self._offsets.check_range(row, row + 1).layout
        return self._offsets.layouts[0 if layout is None else int(layout[row])]


class FolderRefStore:
    """A folder of plain files. An entry's id is a hash of its name."""

    digest = ""  # files can change at any time

    def __init__(self, root: str) -> None:
        self.display_path = root
        self._real_root = os.path.realpath(root)
        if not os.path.isdir(self._real_root):
            raise InputError("the store is not a folder", where=root, hint="check the path")

    def lookup(self, name: str) -> LookupResult:
        if is_outside_name(name) or not name:
            return LookupResult("outside" if name else "missing")
        real = os.path.realpath(os.path.join(self._real_root, name))
        if os.path.commonpath((self._real_root, real)) != self._real_root:
            return LookupResult("outside")
        if os.path.isfile(real):
            return LookupResult("found", _hash_name(os.path.normpath(name)))
        near = self._find_other_case(os.path.normpath(name))
        return LookupResult("other case", near_name=near) if near else LookupResult("missing")

    def find_unused(self, used_ids: EntryIds) -> tuple[int, str]:
        used = set(used_ids.tolist())
        names = [file.path for file in list_files(self._real_root).shards if part_kind(file.path) in MEDIA_KINDS]
        unused = [name for name in names if _hash_name(name) not in used]
        return len(unused), unused[0] if unused else ""

    def _find_other_case(self, name: str) -> str:
        """Return a file whose path differs only in case; empty if there is none."""
        found = ""
        for step in name.split("/"):
            names, by_lower_case = _list_names(os.path.join(self._real_root, found))
            match = step if step in names else by_lower_case.get(step.lower(), "")
            if not match:
                return ""
            found = f"{found}/{match}" if found else match
        return found if os.path.isfile(os.path.join(self._real_root, found)) else ""


@lru_cache(maxsize=256)
def _list_names(folder: str) -> tuple[frozenset[str], dict[str, str]]:
    """Return the names, and one name for each lower-case form."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    return frozenset(names), {name.lower(): name for name in names}


def _hash_name(name: str) -> int:
    return int.from_bytes(blake2b(os.fsencode(name), digest_size=8).digest(), "little")
