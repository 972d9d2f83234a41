"""Facts of media by name, from the catalog of a store."""

from __future__ import annotations

import os
import threading

from wdsctl.core.catalog.by_name import Named, Names
from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.loader.stores.entry import Entry


class KnownFacts:
    """Lookups in one catalog, from any thread of any process that is forked from this one.

    Each has a connection of its own: those of SQLite cross neither.
    """

    def __init__(self, catalog: str) -> None:
        self._catalog = catalog
        self._local = threading.local()

    @property
    def names(self) -> Names:
        held: tuple[int, Names] | None = getattr(self._local, "names", None)
        if held is None or held[0] != os.getpid():
            held = self._local.names = (os.getpid(), Names(self._catalog))
        return held[1]

    def file(self, name: str) -> Named | None:
        """A file of a folder of media; None where the catalog does not know it."""
        return next(iter(self.names.find(name)), None)

    def keyframes(self, entry: Entry) -> bytes:
        """The index of a film, as `KeyframeIndex.to_bytes()`; empty where it has none."""
        here = self._named(entry) if self.names.has_facts else None
        return (None if here is None else self.names.keyframes(here)) or b""

    def of(self, store: str, entry: Entry) -> Facts:
        """The facts of an entry. Raises SampleFailed WDS553 where there are none, or it cannot be read."""
        here = self._named(entry) if self.names.has_facts else None  # rows of samples are needed for facts alone
        facts = None if here is None else self.names.facts(here)
        if facts is None:
            raise no_facts(store, entry.name)
        if isinstance(facts, Unreadable):
            raise SampleFailed(
                f"{entry.name!r} is no medium that can be read: {facts.reason}",
                where=f"store {store}, entry {entry.name}",
                hint="replace it, or leave out the samples that refer to it",
                code="WDS553",
            )
        return facts

    def _named(self, entry: Entry) -> Named | None:
        """What the catalog means by an entry; None where it knows another one, or none, of this name and place."""
        return next((each for each in self.names.find(entry.name) if _is_here(each, entry)), None)


def _is_here(named: Named, entry: Entry) -> bool:
    return (named.path, named.offset, named.size) == (entry.shard, entry.offset, entry.size)


def no_facts(store: str, name: str) -> SampleFailed:
    return SampleFailed(
        f"nothing is known of {name!r} as a medium",
        where=f"store {store}, entry {name}",
        hint=f"`wdsctl index {store} --media` reads what images, sounds and videos are",
        code="WDS553",
    )
