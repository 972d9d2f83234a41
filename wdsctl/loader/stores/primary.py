"""The dataset that a crude sample is from, as a store: `.jpg` is a part of this sample, any other name an entry."""

from __future__ import annotations

from typing import Any

from wdsctl.core.media.facts import Facts
from wdsctl.core.storage import Storage
from wdsctl.loader.lazy_part import LazyPart
from wdsctl.loader.stores.entry import Entry
from wdsctl.loader.stores.prepared import PreparedStore
from wdsctl.loader.stores.store import FileStore


class Primary(FileStore):
    """A view of a store for one sample, by its id: its own parts are not looked up, and so never ambiguous."""

    def __init__(self, store: PreparedStore, sample: int) -> None:
        # Made for every sample: what the constructor of a store makes, it takes from the store.
        self.path, self.digest, self.decoder = store.path, store.digest, store.decoder
        self._store = store
        self._sample = sample

    @property
    def unbound(self) -> FileStore:
        return self._store

    def find(self, name: str) -> Entry:
        if name.startswith("."):
            return self._store.part_of(self._sample, name[1:])
        return self._store.find(name)

    def get_media_metadata(self, name: str) -> Facts:
        return self._store.facts_of(self.find(name))

    def read(self, entry: Entry) -> bytes:
        return self._store.read(entry)

    def decoded(self, entry: Entry, data: bytes) -> Any:
        return self._store.decoded(entry, data)

    def load(self, entry: Entry) -> Any:
        return self._store.load(entry)

    def is_ranged(self, entry: Entry) -> bool:
        return self._store.is_ranged(entry)

    def handle(self, entry: Entry) -> LazyPart:
        return self._store.handle(entry)

    def close(self) -> None:
        self._store.close()

    def _new_storage(self) -> Storage:
        return self._store.storage

    def _is_gone(self) -> bool:
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return Primary, (self._store, self._sample)
