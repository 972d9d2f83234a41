"""Media that are not read before they are wanted: packing chooses by what is known of them, and most wait long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wdsctl.loader.stores.entry import Entry
from wdsctl.loader.stores.store import FileStore, add_source

#: Reads and decodes an entry, from wherever it is nearest.
LoadEntry = Callable[[FileStore, Entry], Any]


class Lazy:
    """`lazy.get(sample)` gives the data, every time it is asked, and adds its source to the sample's `__sources__`.

    Two are equal if they are the same entry of the same store. Pickles by reference to the store, and to the pool.
    """

    __slots__ = ("_load", "entry", "store")

    def __init__(self, store: FileStore, entry: Entry, load: LoadEntry) -> None:
        self.store = store
        self.entry = entry
        self._load = load

    def get(self, sample: Any = None) -> Any:
        """Raises what reading and decoding raise: SampleFailed, StorageError."""
        data = self._load(self.store, self.entry)
        add_source(sample, self.store.source_of(self.entry))
        return data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lazy) and self._named() == other._named()

    def __hash__(self) -> int:
        return hash(self._named())

    def __repr__(self) -> str:
        return f"Lazy({self.store.path!r}, {self.entry.name!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Lazy:
        """Itself: it never changes."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Lazy, (self.store, self.entry, self._load)

    def _named(self) -> tuple[str, str, Entry]:
        return self.store.path, self.store.digest, self.entry


class Kept(Lazy):
    """A value of the user's own that was put aside; it has no source. Pickles with the value."""

    __slots__ = ("__weakref__", "_value", "name")

    def __init__(self, name: str, value: Callable[[], Any]) -> None:
        self.name = name
        self._value = value

    def get(self, sample: Any = None) -> Any:  # noqa: ARG002 - it came from no store
        return self._value()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Kept({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return kept_value, (self.name, self.get())


def kept_value(name: str, value: Any) -> Kept:
    """A value that stays in memory."""
    return Kept(name, lambda: value)
