"""A folder of files at a URL that nobody prepared: one question for the size of a file, and one read."""

from __future__ import annotations

from typing import Any

from wdsctl.core.errors import StorageError
from wdsctl.core.media.facts import Facts
from wdsctl.core.storage import Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.urls import shown
from wdsctl.loader.asking import heard
from wdsctl.loader.decoding import SampleDecoder
from wdsctl.loader.stores.entry import Entry
from wdsctl.loader.stores.folder import checked_name, part_of
from wdsctl.loader.stores.known_facts import no_facts
from wdsctl.loader.stores.missing import missing
from wdsctl.loader.stores.store import FileStore


class FarFolderStore(FileStore):
    """Entries are the files below `url`, by their path below it. Nothing of it is known beforehand."""

    def __init__(self, url: str, decoder: SampleDecoder | None) -> None:
        super().__init__(shown(url), "", decoder)
        self._url = url.rstrip("/")

    def find(self, name: str) -> Entry:
        clean = checked_name(self.path, name)
        path = f"{self._url}/{clean}"
        try:
            size = self.storage.size(path)
        except StorageError as error:
            if error.code == StorageError.code and not self.storage.exists(path):
                raise missing(self.path, name) from error
            raise
        return Entry(clean, part_of(clean), path, clean, 0, size, 0, size)

    def get_media_metadata(self, name: str) -> Facts:
        raise no_facts(self.path, name)

    def _new_storage(self) -> Storage:
        return storage_for(self._url, hear=heard)

    def _is_gone(self) -> bool:
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return FarFolderStore, (self._url, self.decoder)
