"""The stores of a polylithic dataset, for conversions: a name leads to the range of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from wdsctl.core.catalog.quick import current_generation
from wdsctl.core.convert.importers.shards import files_mark
from wdsctl.core.convert.source import LargePart
from wdsctl.core.errors import DatasetError
from wdsctl.core.name_index import open_name_index
from wdsctl.core.naming import spellings, split_name
from wdsctl.core.offsets import Offsets
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place, locate


class Store(Protocol):
    @property
    def place(self) -> Place | None:
        """The dataset that it is; None of a plain folder."""

    def find(self, name: str) -> LargePart:
        """The entry of this name. Raises DatasetError WDS343 where there is none, or more than one."""

    def parts(self, key: str) -> tuple[tuple[str, int], ...]:
        """All parts of a sample, with their bytes; nothing where there is none of this key."""

    def mark(self) -> bytes:
        """Names what its files are like now."""


class PreparedStore:
    """A prepared dataset: `KEY.PART`."""

    def __init__(self, path: str) -> None:
        self._place = place = locate(path)
        self._root = place.root
        self._offsets = Offsets(place.offsets(current_generation(place.catalog)))
        self._names = open_name_index(place, self._offsets)

    @property
    def place(self) -> Place:
        return self._place

    @property
    def offsets(self) -> Offsets:
        return self._offsets

    def rows(self, key: str) -> Iterator[int]:
        """The sample of this key, by its row of `offsets`, if there is one. Raises DatasetError WDS343 for several."""
        return self._rows(key, key)

    def find(self, name: str) -> LargePart:
        for key, part in spellings(name):
            for row in self._rows(key, name):
                for found, offset, size in self._offsets.parts(row):
                    if found == part:
                        shard = self._offsets.shards[self._offsets.shard_of(row)]
                        return LargePart(part, os.path.join(self._root, shard.path), offset, size, self._root)
        raise _missing(name, self._root)

    def parts(self, key: str) -> tuple[tuple[str, int], ...]:
        return tuple((name, size) for row in self._rows(key, key) for name, _, size in self._offsets.parts(row))

    def mark(self) -> bytes:
        return files_mark(self._place, self._offsets)

    def _rows(self, key: str, name: str) -> Iterator[int]:
        rows = self._names.find(key).rows
        if len(rows) > 1:
            raise DatasetError(
                f"{len(rows)} samples of the store have the key {key!r}",
                where=f"{self._root}, entry {name}",
                hint="give each a key of its own: `wdsctl convert STORE DEST --on-collision prefix`",
                code="WDS343",
            )
        yield from rows


class FolderStore:
    """Plain files, by their path below a folder. Nothing outside of it is read, also not through links."""

    place: None = None

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)

    def find(self, name: str) -> LargePart:
        path = os.path.realpath(os.path.join(self._root, name))
        if os.path.isabs(name) or ".." in name.split("/") or os.path.commonpath([path, self._root]) != self._root:
            raise DatasetError(
                "a reference leads out of its folder",
                where=f"{self._root}, entry {name}",
                hint="references are paths below the folder, without `..`",
                code="WDS552",
            )
        if not os.path.isfile(path):
            raise _missing(name, self._root)
        with translated(path, "read"):
            return LargePart((split_name(name) or ("", ""))[1], path, 0, os.path.getsize(path), self._root)

    def parts(self, key: str) -> tuple[tuple[str, int], ...]:  # noqa: ARG002
        return ()

    def mark(self) -> bytes:
        return b"folder"


def open_store(path: str) -> Store:
    """`filesystem://DIR`, a folder that was not prepared, or a prepared dataset."""
    if path.startswith("filesystem://"):
        return FolderStore(path.removeprefix("filesystem://"))
    place = locate(path)
    return PreparedStore(path) if os.path.exists(place.catalog) else FolderStore(path)


def _missing(name: str, root: str) -> DatasetError:
    return DatasetError(
        f"there is no {name!r} in the store",
        where=root,
        hint="look at its names: `wdsctl ls STORE`",
        code="WDS343",
    )
