"""`FileStore`, the interface of stores: an entry is found by name, read as one range, and decoded by its extension.

`StoreEntry` says where the bytes of an entry are. Lookups fail for names that are missing, ambiguous or outside the
store.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsctl.core.errors import SampleFailed, StorageDown, StorageError, WdsctlError
from wdsctl.core.media.facts import MediumFacts
from wdsctl.core.storage.storage import Storage
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.parts import decode_raw
from wdsctl.loader.runtime.failures import MISSING_ENTRY
from wdsctl.loader.runtime.sample_fields import get_field, set_field
from wdsctl.loader.samples.build import SourceInfo
from wdsctl.loader.samples.lazy_part import LAZY_PART_BYTES, LazyPart

if TYPE_CHECKING:
    from typing_extensions import Self


class StoreEntry(NamedTuple):
    """The location of an entry. For a sample, `parts` has an entry per part, and `part` is empty."""

    name: str
    part: str  # the part's name, which decides how it is decoded
    path: str  # of the file, absolute, or a URL
    shard: str  # the path of the file below the root of the store
    offset: int  # bytes from the start of the file
    size: int  # bytes; of a sample, from its first part to the end of the last
    row: int  # the sample's index in the store; 0 for a plain file
    file_size: int | None = None  # bytes that the file must have; None: unknown
    etag: str = ""  # changes with the content of a plain file
    parts: tuple[StoreEntry, ...] = ()

    @property
    def file_names(self) -> tuple[str, ...]:
        """The files of the store that the entry consists of."""
        return tuple(part.name for part in self.parts) or (self.name,)


MAX_CACHED_FUNCTIONS = 1000  # decode functions by part name: files of a folder may have any name


class FileStore(ABC):
    """A dataset or folder whose files are looked up by name: `store[name]`, `store.get(name, sample)`, `name in store`.

    Lookups raise SampleFailed: WDS550 for a missing entry, WDS551 for an ambiguous one, WDS552 for a name outside the
    store. Reads raise StorageError. Pickled by reference: another process opens it again in the same generation. Safe
    in forked processes and several threads.
    """

    #: For messages: a URL without its password.
    path: str
    #: Identifies the contents; empty for a plain folder, whose contents are unknown.
    digest: str

    def __class_getitem__(cls, item: Any) -> GenericAlias:
        """`FileStore[bytes]`, for annotations."""
        return GenericAlias(cls, item)

    def __init__(self, path: str, digest: str, decoder: SampleDecoder | None) -> None:
        self.path = path
        self.digest = digest
        self.decoder = decoder
        self._decode_functions: dict[str, Callable[..., Any]] = {}
        self._thread_local = threading.local()
        self._storages: list[Storage] = []

    # -- for cookers -------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> tuple[Any, SourceInfo]:
        """(decoded data, origin) of an entry, from one read. Raises SampleFailed, StorageError."""
        entry = self.find(name)
        return self.load(entry), self.source_of(entry)

    def get(self, name: str, sample: Any = None) -> Any:
        """The decoded data of an entry, from one read. Adds its origin to `sample.__sources__`, if given."""
        entry = self.find(name)
        data = self.load(entry)
        add_source(sample, self.source_of(entry))
        return data

    def open(self, name: str) -> LazyPart:
        """An entry as a `LazyPart`, without reading it: `AVDecoder(store.open(name))`."""
        return self.open_part(self.find(name))

    def __contains__(self, name: object) -> bool:
        try:
            self.find(name)  # type: ignore[arg-type]  # `find` refuses other types
        except SampleFailed:
            return False
        return True

    def get_path(self) -> str:
        return self.path

    def with_decoder(self, decoder: SampleDecoder | None) -> Self:
        """The same store with another decoder; None: bytes. Has its own open files."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.decoder, other._decode_functions = decoder, {}
        other._thread_local, other._storages = threading.local(), []
        return other

    @abstractmethod
    def get_media_metadata(self, name: str) -> MediumFacts:
        """The media facts of an image, audio or video from the catalog. Raises SampleFailed WDS553 if it has none."""

    # -- for cache pools ---------------------------------------------------------------------------------------------

    @abstractmethod
    def find(self, name: str) -> StoreEntry:
        """Look up an entry. Raises SampleFailed: WDS550 missing, WDS551 ambiguous, WDS552 outside the store."""

    def read(self, entry: StoreEntry) -> bytes:
        """The bytes of an entry, in one read. Raises StorageError that names the store."""
        try:
            return self._read(entry)
        except WdsctlError as error:
            raise self._with_location(error, entry) from error

    def decode(self, entry: StoreEntry, data: bytes) -> Any:
        """Decode the bytes of an entry with the task encoder's decoder."""
        if entry.parts:
            starts = [part.offset - entry.offset for part in entry.parts]
            return {p.part: self.decode(p, data[at : at + p.size]) for p, at in zip(entry.parts, starts, strict=True)}
        return self._decode_part(entry, data)

    def load(self, entry: StoreEntry) -> Any:
        """Read and decode an entry. Lazily decoded entries, and entries over 64 MiB, are not read here."""
        if entry.parts and (entry.size > LAZY_PART_BYTES or any(self.is_read_by_range(part) for part in entry.parts)):
            return {part.part: self.load(part) for part in entry.parts}
        if self.is_read_by_range(entry):
            handle = self.open_part(entry)
            if not getattr(self._decode_function(entry.part), "accepts_handle", False):
                return handle
            return self._decode_part(entry, handle)
        return self.decode(entry, self.read(entry))

    def is_read_by_range(self, entry: StoreEntry) -> bool:
        """Whether the entry is read on demand: lazily decoded video or audio, or a large file."""
        if entry.parts:
            return entry.size > LAZY_PART_BYTES or any(self.is_read_by_range(part) for part in entry.parts)
        return entry.size > LAZY_PART_BYTES or bool(getattr(self._decode_function(entry.part), "prefers_handle", False))

    def open_part(self, entry: StoreEntry) -> LazyPart:
        keyframes = self._keyframes(entry)
        return LazyPart(
            entry.path, entry.offset, entry.size, self.storage, shard_size=entry.file_size, keyframes=keyframes
        )

    def source_of(self, entry: StoreEntry) -> SourceInfo:
        return SourceInfo(
            dataset_path=self.path,
            index=entry.row,
            shard_name=entry.shard,
            file_names=entry.file_names,
            byte_range=(entry.offset, entry.size),
        )

    @property
    def base_store(self) -> FileStore:
        """The store that this one is a view of for one sample; else the store itself."""
        return self

    @property
    def storage(self) -> Storage:
        """The storage of this thread: threads do not share open files."""
        storage: Storage | None = getattr(self._thread_local, "storage", None)
        if storage is None:
            storage = self._thread_local.storage = self._new_storage()
            self._storages.append(storage)
        return storage

    def close(self) -> None:
        """Close open files. The next use of the store opens them again."""
        for storage in self._storages:
            storage.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> FileStore:
        """The same object: it is immutable."""
        return self

    # -- what the kinds of stores do ---------------------------------------------------------------------------------

    @abstractmethod
    def _new_storage(self) -> Storage: ...

    @abstractmethod
    def _is_gone(self) -> bool:
        """Whether the whole store is missing, so that no other entry can be read either."""

    def _keyframes(self, entry: StoreEntry) -> bytes:  # noqa: ARG002 - for those that have a catalog
        """The keyframe index of a video as `KeyframeIndex.to_bytes()`; empty if the catalog has none."""
        return b""

    def _read(self, entry: StoreEntry) -> bytes:
        return self.storage.read(entry.path, entry.offset, entry.size)

    def _decode_function(self, part: str) -> Callable[..., Any]:
        function = self._decode_functions.get(part)
        if function is None:
            function = self.decoder.function_for(part) if self.decoder is not None else decode_raw
            if len(self._decode_functions) >= MAX_CACHED_FUNCTIONS:
                self._decode_functions.clear()
            self._decode_functions[part] = function
        return function

    def _decode_part(self, entry: StoreEntry, data: Any) -> Any:
        try:
            return self._decode_function(entry.part)(data)
        except WdsctlError as error:
            raise self._with_location(error, entry) from error

    def _with_location(self, error: WdsctlError, entry: StoreEntry) -> WdsctlError:
        location = f"store {self.path}, shard {entry.shard}, entry {entry.name}"
        where = f"{location}, {error.where}" if error.where else location
        if isinstance(error, StorageError) and error.code == StorageError.code and self._is_gone():
            return StorageDown(
                f"{error.message}; the other files of the store are missing too",
                where=where,
                hint="check that the file system is mounted and the store has not moved, then resume",
            )
        return type(error)(error.message, hint=error.hint, where=where, code=error.code)


def add_source(sample: Any, source: SourceInfo) -> None:
    """Add an origin to the `__sources__` of a sample or dict, unless it has it. No effect without a sample."""
    sources: Sequence[SourceInfo] = get_field(sample, "__sources__") or ()
    if sample is not None and source not in sources:
        set_field(sample, "__sources__", (*sources, source))


_MAX_SHOWN_NAMES = 5  # in a hint


def missing_entry_error(store: str, name: str, similar_names: Sequence[str] = (), hint: str = "") -> SampleFailed:
    """The error for a missing entry. `similar_names`: entries of the store to suggest."""
    if similar_names:
        names = ", ".join(repr(each) for each in similar_names[:_MAX_SHOWN_NAMES])
        hint = f"did you mean {names}? Names are case-sensitive"
    return SampleFailed(
        f"the store has no {name!r}",
        where=f"store {store}, entry {name}",
        hint=hint or "check the reference in the primary; if the store has new files, run `wdsctl index` on it",
        code=MISSING_ENTRY,
    )


def ambiguous_entry_error(store: str, name: str, locations: Sequence[str]) -> SampleFailed:
    """The error for a name of several entries. `locations`: shard and index of each entry."""
    return SampleFailed(
        f"the store has {len(locations)} entries named {name!r}: {' and '.join(locations[:_MAX_SHOWN_NAMES])}",
        where=f"store {store}, entry {name}",
        hint="rename all but one of the entries; `wdsctl index` lists such keys as WDS106",
        code="WDS551",
    )


def outside_folder_error(store: str, name: str, reason: str) -> SampleFailed:
    """The error for a name that is not the path of a file below the store's folder."""
    return SampleFailed(
        f"{name!r} {reason}",
        where=f"store {store}, entry {name}",
        hint="use the path of the file below the folder of the store, such as 'a/0001.jpg'",
        code="WDS552",
    )
