"""What a cooker gets as `cache`. Without a pool it works all the same, and reads when it is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from wdsctl.loader.cache.lazy import Kept, Lazy, kept_value
from wdsctl.loader.stores.entry import Entry
from wdsctl.loader.stores.store import FileStore, add_source


class CachePool(ABC):
    """Decides nothing about what comes: with a pool or without, batches and states are the same."""

    def get(self, store: FileStore, name: str, sample: Any = None) -> Any:
        """The data of an entry now. Raises what `store.get` raises."""
        store, entry = store.unbound, store.find(name)
        data = self.load(store, entry)
        add_source(sample, store.source_of(entry))
        return data

    def get_lazy(self, store: FileStore, name: str) -> Lazy:
        """The data of an entry, when it is asked for. That there is such an entry is found out now."""
        store, entry = store.unbound, store.find(name)
        self.will_need(store, entry)
        return Lazy(store, entry, self.load)

    @abstractmethod
    def to_cache(self, obj: Any, name: str) -> Lazy:
        """Put a value aside, out of memory where that can be, for as long as somebody holds what is returned."""

    @abstractmethod
    def load(self, store: FileStore, entry: Entry) -> Any:
        """An entry, read and decoded."""

    @abstractmethod
    def will_need(self, store: FileStore, entry: Entry) -> None:
        """It may be asked for later. A hint: nothing fails."""

    @abstractmethod
    def open(self) -> None:
        """Begin, before workers are started, so that they share what there is. Nothing fails."""

    @abstractmethod
    def close(self) -> None: ...


class NoCachePool(CachePool):
    """Reads from the stores, when it is asked."""

    def to_cache(self, obj: Any, name: str) -> Kept:
        return kept_value(name, obj)

    def load(self, store: FileStore, entry: Entry) -> Any:
        return store.load(entry)

    def will_need(self, store: FileStore, entry: Entry) -> None:
        """It is read when it is asked for."""

    def open(self) -> None:
        """There is nothing to begin."""

    def close(self) -> None:
        """There is nothing to close."""
