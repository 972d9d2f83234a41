"""Media facts by entry, from the catalog of a store."""

from __future__ import annotations

import os
import threading

from wdsctl.core.catalog.browse import NamedPart, NameLookup
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.facts import MediumFacts, Unreadable
from wdsctl.loader.stores.store import StoreEntry


class MediaFactsIndex:
    """Lookups in one catalog, from any thread and any forked process.

    Each has its own connection, as SQLite's connections cannot be shared.
    """

    def __init__(self, catalog: str) -> None:
        self._catalog = catalog
        self._local = threading.local()

    @property
    def names(self) -> NameLookup:
        opened: tuple[int, NameLookup] | None = getattr(self._local, "names", None)
        if opened is None or opened[0] != os.getpid():
            opened = self._local.names = (os.getpid(), NameLookup(self._catalog))
        return opened[1]

    def find_file(self, name: str) -> NamedPart | None:
        """A file of a media folder; None if it is not in the catalog."""
        return next(iter(self.names.find(name)), None)

    def find_keyframes(self, entry: StoreEntry) -> bytes:
        """The keyframe index of a video as `KeyframeIndex.to_bytes()`; empty if the catalog has none."""
        part = self._find_entry(entry) if self.names.has_facts else None
        return (None if part is None else self.names.keyframes(part)) or b""

    def facts_of(self, store: str, entry: StoreEntry) -> MediumFacts:
        """The facts of an entry. Raises SampleFailed WDS553 if the catalog has none, or says that it is unreadable."""
        part = self._find_entry(entry) if self.names.has_facts else None
        facts = None if part is None else self.names.facts(part)
        if facts is None:
            raise no_facts_error(store, entry.name)
        if isinstance(facts, Unreadable):
            raise SampleFailed(
                f"{entry.name!r} is not readable as media: {facts.reason}",
                where=f"store {store}, entry {entry.name}",
                hint="replace the file, or exclude the samples that refer to it",
                code="WDS553",
            )
        return facts

    def _find_entry(self, entry: StoreEntry) -> NamedPart | None:
        """The part in the catalog with the entry's name and byte range; None if there is none."""
        location = entry.shard, entry.offset, entry.size
        parts = self.names.find(entry.name)
        return next((part for part in parts if (part.path, part.offset, part.size) == location), None)


def no_facts_error(store: str, name: str) -> SampleFailed:
    return SampleFailed(
        f"the catalog has no media facts for {name!r}",
        where=f"store {store}, entry {name}",
        hint=f"run {shell_command('index', store, '--media')} to read the headers of images, audio and video",
        code="WDS553",
    )
