"""Reads and parses each blend file once, from a disk or a store."""

from __future__ import annotations

import os

from wdsctl.core.blend.yaml_tree import (
    BLEND_DOC_PATH,
    Node,
    NodeLocation,
    blend_error,
    folder_of,
    from_yaml,
    resolve_blend_path,
)
from wdsctl.core.errors import InputError, StorageError
from wdsctl.core.file_limits import check_whole_size
from wdsctl.core.storage.open import storage_for
from wdsctl.core.urls import redact_secrets

#: A few lines can expand to any number of references, through aliases and files that are named repeatedly.
MAX_REFERENCES = 100_000
MAX_SUBFLAVORS = 4_000_000  # of all references: each has those of all nodes around it


class BlendFileCache:
    """The parsed files of one `read_blend`."""

    def __init__(self, max_references: int = MAX_REFERENCES) -> None:
        self._max_references = max_references
        self._parsed: dict[str, Node] = {}
        self._references = 0
        self._subflavors = 0

    def read_node(self, path: str, location: NodeLocation) -> Node:
        """The parsed file. `location`: of the reference. Raises InputError, StorageError, PermissionDenied, or
        DatasetError as `from_yaml` does."""
        if path not in self._parsed:
            self._parsed[path] = from_yaml(_read(path, location), path)
        return self._parsed[path]

    def count_reference(self, location: NodeLocation, subflavors: int) -> None:
        """Raise DatasetError WDS600 if the references, or their subflavors, become too many."""
        self._references += 1
        self._subflavors += subflavors
        if self._subflavors > MAX_SUBFLAVORS:
            raise blend_error(
                f"the references of the blend have more than {MAX_SUBFLAVORS:,} subflavors in total",
                location,
                hint="write fewer subflavors at nodes with many references",
            )
        if self._references > self._max_references:
            hint = "use fewer aliases and nested files"
            raise blend_error(
                f"the blend has more than {self._max_references:,} references to datasets", location, hint=hint
            )


def _read(path: str, location: NodeLocation) -> str:
    storage = storage_for(folder_of(path))
    try:
        size = storage.size(path)
        check_whole_size(size, path)
        data = storage.read(path, 0, size)
    except StorageError as error:
        if storage.exists(path):
            raise
        if not location.line and resolve_blend_path(location.source, os.getcwd()) == path:
            hint = f"write the path of a blend file ({BLEND_DOC_PATH}), a folder of shards, or a .jsonl file"
            raise InputError(
                "the blend file does not exist", hint=hint, where=redact_secrets(location.source)
            ) from error
        hint = "correct the path: paths are relative to the folder of the blend file"
        raise InputError(f"path: {redact_secrets(path)} does not exist", hint=hint, where=str(location)) from error
    finally:
        storage.close()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"not UTF-8: {error.reason} at byte {error.start}"
        raise blend_error(message, NodeLocation(path), hint="save the file as UTF-8") from error
