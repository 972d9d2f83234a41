"""Stores as `validate` sees them: is there an entry of a name? The loader's stores (`wdsctl/loader/stores/`) read them;
these two agree on what a name means, which a test holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.blend_file.paths import is_blend_file
from wdsctl.core.catalog.quick import current_generation
from wdsctl.core.checks.kinds import MEDIA, kind_of
from wdsctl.core.errors import InputError, WdsctlError
from wdsctl.core.name_index import NameIndex, offsets_digest, open_name_index
from wdsctl.core.naming import shard_key, spellings
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place, locate
from wdsctl.core.shard_list import list_files
from wdsctl.core.urls import is_url, shown

FILESYSTEM = "filesystem://"

Marks = NDArray[np.uint64]  # numbers of entries that are referred to


class Looked(NamedTuple):
    """What became of a name. `mark` is the number of the entry; `near` one that differs in case alone."""

    how: Literal["there", "missing", "case", "twice", "outside"]
    mark: int = 0
    near: str = ""


class RefStore(Protocol):
    """Somewhere entries are, by name."""

    @property
    def shown(self) -> str: ...

    @property
    def digest(self) -> str:
        """Another one where anything in it may be another."""

    def look(self, name: str) -> Looked: ...

    def unused(self, used: Marks) -> tuple[int, str]:
        """How many media nobody refers to, and the first of them."""


@lru_cache(maxsize=64)
def open_ref_store(reference: str) -> RefStore:
    """By a path, a URL or `filesystem://DIR`, as in a blend file; once a process. Raises a WdsctlError."""
    if reference.startswith(FILESYSTEM):
        return FolderRefs(reference.removeprefix(FILESYSTEM))
    if is_blend_file(reference) or reference.startswith("filesystem+"):
        raise InputError(
            "references into this kind of store are not checked",
            where=shown(reference),
            hint="a store is a prepared dataset, or a folder of files that is mounted",
        )
    place = locate(reference)
    if os.path.exists(place.catalog):
        return PreparedRefs(place)
    if is_url(reference) or not os.path.isdir(reference):
        raise InputError(
            "the store has no catalog",
            where=place.shown,
            hint=f"`wdsctl prepare {place.shown}` makes it",
            code="WDS301",
        )
    return FolderRefs(place.root)


def forget_stores() -> None:
    """Open them anew: they may have changed since this process last looked."""
    open_ref_store.cache_clear()
    _names_in.cache_clear()


def leads_out(name: str) -> bool:
    """Whether a name is absolute or has `..` in it, on this system or another."""
    pieces = name.replace("\\", "/").split("/")
    return name.startswith(("/", "\\")) or ".." in pieces or "\0" in name or (len(name) > 1 and name[1] == ":")


class PreparedRefs:
    """A prepared dataset: `KEY.PART`, or `KEY` for a whole sample. Marks are rows of its offsets file."""

    def __init__(self, place: Place) -> None:
        self.shown = place.shown
        self._offsets = Offsets(place.offsets(current_generation(place.catalog)))
        self._names: NameIndex = open_name_index(place, self._offsets)
        self.digest = offsets_digest(self._offsets)

    def look(self, name: str) -> Looked:
        if leads_out(name):
            return Looked("outside")
        rows: list[int] = []
        near = ""
        for key, part in spellings(name):
            found = self._names.find(key)
            rows = [row for row in found.rows if part in self._layout(row)]
            near = near or next(self._near(part, found.rows, found.near), "")
            if rows:
                break
        if not rows:
            whole = self._names.find(name)
            rows = list(whole.rows or self._names.find(shard_key(name)).rows)
            near = near or (self._offsets.key(whole.near[0]) if whole.near else "")
        if len(rows) > 1:
            return Looked("twice")
        if rows:
            return Looked("there", rows[0])
        return Looked("case", near=near) if near else Looked("missing")

    def unused(self, used: Marks) -> tuple[int, str]:
        left = np.ones(self._offsets.samples, np.bool_)
        left[used.astype(np.int64)] = False
        rows = np.flatnonzero(left)
        return len(rows), self._offsets.key(int(rows[0])) if len(rows) else ""

    def _near(self, part: str, same: Sequence[int], others: Sequence[int]) -> Iterator[str]:
        small = part.lower()
        for row in (*same, *others):
            yield from (f"{self._offsets.key(row)}.{each}" for each in self._layout(row) if each.lower() == small)

    def _layout(self, row: int) -> tuple[str, ...]:
        which = self._offsets.checked_range(row, row + 1).layout
        return self._offsets.layouts[0 if which is None else int(which[row])]


class FolderRefs:
    """A folder of plain files. Marks are hashes of names."""

    def __init__(self, root: str) -> None:
        self.shown = root
        self._real = os.path.realpath(root)
        if not os.path.isdir(self._real):
            raise InputError("the store is no folder", where=root, hint="check the path")
        #: Files may come and go at any time: nothing that was found here is taken for granted later.
        self.digest = ""

    def look(self, name: str) -> Looked:
        if leads_out(name) or not name:
            return Looked("outside" if name else "missing")
        real = os.path.realpath(os.path.join(self._real, name))
        if os.path.commonpath((self._real, real)) != self._real:
            return Looked("outside")
        if os.path.isfile(real):
            return Looked("there", _mark(os.path.normpath(name)))
        near = self._near(os.path.normpath(name))
        return Looked("case", near=near) if near else Looked("missing")

    def unused(self, used: Marks) -> tuple[int, str]:
        known = set(used.tolist())
        names = [file.path for file in list_files(self._real).shards if kind_of(file.path) in MEDIA]
        left = [name for name in names if _mark(name) not in known]
        return len(left), left[0] if left else ""

    def _near(self, name: str) -> str:
        """A file of the same name in other letters, folder by folder; nothing where there is none."""
        found = ""
        for piece in name.split("/"):
            names, in_small = _names_in(os.path.join(self._real, found))
            match = piece if piece in names else in_small.get(piece.lower(), "")
            if not match:
                return ""
            found = f"{found}/{match}" if found else match
        return found if os.path.isfile(os.path.join(self._real, found)) else ""


@lru_cache(maxsize=256)
def _names_in(folder: str) -> tuple[frozenset[str], dict[str, str]]:
    """The names, and one of them by its small letters."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    return frozenset(names), {name.lower(): name for name in names}


def _mark(name: str) -> int:
    return int.from_bytes(blake2b(os.fsencode(name), digest_size=8).digest(), "little")


def trouble_of(reference: str) -> WdsctlError | None:
    """Why a store cannot be opened, if it cannot."""
    try:
        open_ref_store(reference)
    except WdsctlError as error:
        return error
    return None


def joined_marks(pieces: Sequence[Any]) -> Marks:
    return np.unique(np.concatenate(pieces)) if pieces else np.empty(0, np.uint64)
