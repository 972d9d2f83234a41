"""What all stores have in common: an entry is found by its name, read by one range, and decoded by its ending."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from wdsctl.core.errors import SampleFailed, StorageDown, StorageError, WdsctlError
from wdsctl.core.media.facts import Facts
from wdsctl.core.storage import Storage
from wdsctl.loader.decoding import SampleDecoder, as_bytes
from wdsctl.loader.failures import set_value, value_of
from wdsctl.loader.lazy_part import LARGE, LazyPart
from wdsctl.loader.samples.source_info import SourceInfo
from wdsctl.loader.stores.entry import Entry

MOST_FUNCTIONS = 1000  # by the names of parts: files of a folder may be called anything


class FileStore(ABC):
    """Entries by their names: `store[name]`, `store.get(name, sample)`, `name in store`, `store.open(name)`.

    Pickles by reference: where it arrives, it is opened again in the generation that it had. May cross a fork, and be
    used by several threads.
    """

    #: Where it is, for people: a URL has no password in it.
    path: str
    #: Names what is in it; empty of a plain folder, of which nothing is known beforehand.
    digest: str

    def __init__(self, path: str, digest: str, decoder: SampleDecoder | None) -> None:
        self.path = path
        self.digest = digest
        self.decoder = decoder
        self._functions: dict[str, Callable[..., Any]] = {}
        self._local = threading.local()
        self._storages: list[Storage] = []

    # -- what users call ---------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> tuple[Any, SourceInfo]:
        """The decoded data of an entry, and where it came from. Raises SampleFailed, StorageError."""
        entry = self.find(name)
        return self.load(entry), self.source_of(entry)

    def get(self, name: str, sample: Any = None) -> Any:
        """The decoded data of an entry; `sample`, where it is given, has it among its `__sources__` from then on."""
        entry = self.find(name)
        data = self.load(entry)
        add_source(sample, self.source_of(entry))
        return data

    def open(self, name: str) -> LazyPart:
        """A handle of an entry's bytes, of which nothing is read yet: `AVDecoder(store.open(name))`."""
        return self.handle(self.find(name))

    def __contains__(self, name: object) -> bool:
        try:
            self.find(name)  # type: ignore[arg-type]  # what is no text is no name
        except SampleFailed:
            return False
        return True

    def get_path(self) -> str:
        return self.path

    @abstractmethod
    def get_media_metadata(self, name: str) -> Facts:
        """What the catalog knows of an image, a sound or a video. Raises SampleFailed WDS553 where it knows nothing."""

    # -- what pools and cookers call ---------------------------------------------------------------------------------

    @abstractmethod
    def find(self, name: str) -> Entry:
        """Where an entry is. Raises SampleFailed: WDS550 there is none, WDS551 there are several, WDS552."""

    def read(self, entry: Entry) -> bytes:
        """The bytes of an entry: one read. Raises StorageError that names the store."""
        try:
            return self._read(entry)
        except WdsctlError as error:
            raise self._located(error, entry) from error

    def decoded(self, entry: Entry, data: bytes) -> Any:
        """What the task encoder's decoder makes of the bytes of an entry."""
        if entry.parts:
            starts = [part.offset - entry.offset for part in entry.parts]
            return {p.part: self.decoded(p, data[at : at + p.size]) for p, at in zip(entry.parts, starts, strict=True)}
        return self._made(entry, data)

    def load(self, entry: Entry) -> Any:
        """An entry, read and decoded. One that is decoded by ranges, or is larger than 64 MiB, is not read here."""
        if entry.parts and (entry.size > LARGE or any(self.is_ranged(part) for part in entry.parts)):
            return {part.part: self.load(part) for part in entry.parts}
        if self.is_ranged(entry):
            handle = self.handle(entry)
            if not getattr(self._function(entry.part), "takes_ranges", False):
                return handle
            return self._made(entry, handle)
        return self.decoded(entry, self.read(entry))

    def is_ranged(self, entry: Entry) -> bool:
        """Whether it is not read as a whole: a film or a sound that is decoded lazily, or a large file."""
        if entry.parts:
            return entry.size > LARGE or any(self.is_ranged(part) for part in entry.parts)
        return entry.size > LARGE or bool(getattr(self._function(entry.part), "by_range", False))

    def handle(self, entry: Entry) -> LazyPart:
        keyframes = self._keyframes(entry)
        return LazyPart(
            entry.path, entry.offset, entry.size, self.storage, shard_size=entry.file_size, keyframes=keyframes
        )

    def source_of(self, entry: Entry) -> SourceInfo:
        return SourceInfo(
            dataset_path=self.path,
            index=entry.row,
            shard_name=entry.shard,
            file_names=entry.file_names,
            byte_range=(entry.offset, entry.size),
        )

    @property
    def unbound(self) -> FileStore:
        """The store itself, where this one is a view of it for one sample."""
        return self

    @property
    def storage(self) -> Storage:
        """Of this thread: open files are shared by no two of them."""
        storage: Storage | None = getattr(self._local, "storage", None)
        if storage is None:
            storage = self._local.storage = self._new_storage()
            self._storages.append(storage)
        return storage

    def close(self) -> None:
        """Close what is open. The store may be used again: it opens what it needs."""
        for storage in self._storages:
            storage.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> FileStore:
        """Itself: it never changes."""
        return self

    # -- what the kinds of stores do ---------------------------------------------------------------------------------

    @abstractmethod
    def _new_storage(self) -> Storage: ...

    @abstractmethod
    def _is_gone(self) -> bool:
        """Whether nothing is left of the store: no other entry will do better."""

    def _keyframes(self, entry: Entry) -> bytes:  # noqa: ARG002 - for those that have a catalog
        """The index of keyframes that the catalog has of a film, as `KeyframeIndex.to_bytes()`; empty where none."""
        return b""

    def _read(self, entry: Entry) -> bytes:
        return self.storage.read(entry.path, entry.offset, entry.size)

    def _function(self, part: str) -> Callable[..., Any]:
        function = self._functions.get(part)
        if function is None:
            function = self.decoder.function_for(part) if self.decoder is not None else as_bytes
            if len(self._functions) >= MOST_FUNCTIONS:
                self._functions.clear()
            self._functions[part] = function
        return function

    def _made(self, entry: Entry, data: Any) -> Any:
        try:
            return self._function(entry.part)(data)
        except WdsctlError as error:
            raise self._located(error, entry) from error

    def _located(self, error: WdsctlError, entry: Entry) -> WdsctlError:
        place = f"store {self.path}, shard {entry.shard}, entry {entry.name}"
        where = f"{place}, {error.where}" if error.where else place
        if isinstance(error, StorageError) and error.code == StorageError.code and self._is_gone():
            return StorageDown(
                f"{error.message}; nothing else of the store is there either",
                where=where,
                hint="look whether the file system is mounted and the store where it was, and go on",
            )
        return type(error)(error.message, hint=error.hint, where=where, code=error.code)


def add_source(sample: Any, source: SourceInfo) -> None:
    """One more among the sources of a sample, which may be a dict; nothing where there is no sample."""
    sources: Sequence[SourceInfo] = value_of(sample, "__sources__") or ()
    if sample is not None and source not in sources:
        set_value(sample, "__sources__", (*sources, source))
