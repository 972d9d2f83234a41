"""The objects of a published catalog in their store: the pointer, and the files that it names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from wdsctl.core.errors import CatalogError, PreconditionFailed, StorageError, WdsctlError, translate_os_errors
from wdsctl.core.files import remove_file
from wdsctl.core.remote_catalogs.pointer import (
    FILES_FOLDER,
    MAX_POINTER_BYTES,
    POINTER_NAME,
    Pointer,
    PublishedFile,
    damaged_pointer_error,
    parse_pointer,
)
from wdsctl.core.storage.objects import ObjectStore, StoredObject
from wdsctl.core.storage.remote import FsspecStorage
from wdsctl.core.storage.remote_errors import is_missing_error
from wdsctl.core.storage.storage import FileRange
from wdsctl.core.urls import redact_secrets

_FETCH_BYTES = 32 << 20  # per step of a download: the storage divides it into concurrent requests


class FoundPointer(NamedTuple):
    """A pointer, and the store's tag of it."""

    pointer: Pointer
    tag: str


class CatalogStore:
    """The catalog at `url`, such as `s3://bucket/shards/.wdsctl`. Opens nothing before its first request."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._objects = ObjectStore(url)
        self._storage = FsspecStorage(url)

    @property
    def pointer_url(self) -> str:
        return f"{self.url}/{POINTER_NAME}"

    @property
    def display_url(self) -> str:
        """The URL for messages."""
        return redact_secrets(self.url)

    def read_pointer(self) -> FoundPointer | None:
        """The pointer; None if no catalog is published. One request.

        Raises CatalogError WDS302 and WDS303 for a pointer that cannot be used, and what the store raises.
        """
        try:
            data, tag = self._objects.get(self.pointer_url)
        except WdsctlError as error:
            if is_missing(error):
                return None
            raise
        where = redact_secrets(self.pointer_url)
        if len(data) > MAX_POINTER_BYTES:
            raise damaged_pointer_error(where, "it is too large")
        return FoundPointer(parse_pointer(data, where), tag)

    def put_pointer(self, pointer: Pointer, base_tag: str | None) -> str:
        """Replace the pointer with the tag `base_tag`; None: create it. Returns the tag of the new pointer.

        Raises PreconditionFailed if another publisher was first.
        """
        data = pointer.encode()
        if base_tag is None:
            return self._objects.put(self.pointer_url, data, if_absent=True).tag
        return self._objects.put(self.pointer_url, data, if_tag=base_tag).tag

    def put_file(self, file: PublishedFile, path: str) -> None:
        """Upload a file, unless another publisher has. Raises StorageError WDS419 if the store has no conditions."""
        url = f"{self.url}/{file.object_name}"
        found = self._objects.stat(url)
        if found is not None and found.size != file.size:  # damaged: the name states the content
            self._objects.delete([url])
        with suppress(PreconditionFailed):
            self._objects.put_file(path, url, if_absent=True)

    def list_objects(self) -> list[StoredObject]:
        """The pointer, all files, and whatever else there is below the URL."""
        return self._objects.list(self.url)

    def delete(self, urls: Sequence[str]) -> None:
        self._objects.delete(urls)

    def abort_pending(self, files: Sequence[PublishedFile]) -> None:
        """Abort uploads of these files that a killed publisher left unfinished."""
        urls = {f"{self.url}/{file.object_name}" for file in files}
        self._objects.abort_pending(f"{self.url}/{FILES_FOLDER}", is_own=urls.__contains__)

    def read_ranges(self, file: PublishedFile, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read byte ranges, (start, stop), of a file with concurrent requests."""
        url = f"{self.url}/{file.object_name}"
        return self._storage.read_many([FileRange(url, start, stop - start) for start, stop in ranges])

    def fetch(self, file: PublishedFile, path: str) -> None:
        """Download a file to a new path. Checks its content, and fetches it once more if that is wrong.

        Raises CatalogError WDS302 if the object is missing, or does not match the checksum in its name.
        """
        for _ in range(2):
            try:
                found = self._download(file, path)
            except StorageError as error:
                if is_missing(error) or error.code == "WDS403":
                    raise self.damaged_error(file, "is missing or too short") from error
                raise
            if found == file.sha256:
                return
            remove_file(path)
        raise self.damaged_error(file, "does not match the checksum in its name")

    def _download(self, file: PublishedFile, path: str) -> str:
        """Returns the SHA-256 of what was downloaded."""
        digest = hashlib.sha256()
        url = f"{self.url}/{file.object_name}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with translate_os_errors(path), open(os.open(path, flags, 0o666), "wb") as draft:
            for start in range(0, file.size, _FETCH_BYTES):
                data = self._storage.read(url, start, min(_FETCH_BYTES, file.size - start))
                digest.update(data)
                draft.write(data)
            draft.flush()
            os.fsync(draft.fileno())
        return digest.hexdigest()

    def damaged_error(self, file: PublishedFile, what: str) -> CatalogError:
        return CatalogError(
            f"the published catalog is damaged: {file.name} {what}",
            where=f"{self.display_url}/{file.object_name}",
            hint="remove this object and current.json, and run `wdsctl index` on the dataset, which publishes a "
            "catalog again",
            code="WDS302",
        )


def is_missing(error: WdsctlError) -> bool:
    """Whether the store has no such object."""
    return error.__cause__ is not None and is_missing_error(error.__cause__)
