"""The blend files that are open: each read and parsed once, from a disk or a store."""

from __future__ import annotations

import os

from wdsctl.core.blend_file.nodes import Node, from_yaml
from wdsctl.core.blend_file.paths import folder_of, meant
from wdsctl.core.blend_file.problems import DOC, Place, wrong
from wdsctl.core.errors import InputError, StorageError
from wdsctl.core.stores import storage_for
from wdsctl.core.urls import shown

#: Aliases and files that are named twice can make a few lines endlessly many references.
MOST_REFERENCES = 100_000


class Texts:
    """Lives as long as one reading."""

    def __init__(self, most_references: int = MOST_REFERENCES) -> None:
        self._most = most_references
        self._parsed: dict[str, Node] = {}
        self._references = 0

    def node(self, path: str, place: Place) -> Node:
        """The parsed file. `place`: where it is asked for. Raises InputError, StorageError, PermissionDenied, or
        DatasetError as `from_yaml` does."""
        if path not in self._parsed:
            self._parsed[path] = from_yaml(_read(path, place), path)
        return self._parsed[path]

    def count_reference(self, place: Place) -> None:
        self._references += 1
        if self._references > self._most:
            hint = "write it with fewer aliases and nested files"
            raise wrong(f"there are more than {self._most:,} references to datasets", place, hint=hint)


def _read(path: str, place: Place) -> str:
    storage = storage_for(folder_of(path))
    try:
        data = storage.read(path, 0, storage.size(path))
    except StorageError as error:
        if storage.exists(path):
            raise
        if not place.line and meant(place.source, os.getcwd()) == path:
            hint = f"name a blend file that there is ({DOC}), a folder that holds shards, or a .jsonl file"
            raise InputError("the blend file does not exist", hint=hint, where=shown(place.source)) from error
        hint = "a path is meant from the folder of the file that it stands in"
        raise InputError(f"path: there is no {shown(path)}", hint=hint, where=str(place)) from error
    finally:
        storage.close()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"not UTF-8: {error.reason} at byte {error.start}"
        raise wrong(message, Place(path), hint="save it as UTF-8") from error
