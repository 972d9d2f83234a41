"""`megatron.energon.cache`: cache pools, and stores of files."""

from __future__ import annotations

import os
import posixpath
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader import stores
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.energon.replaced import replaced
from wdsctl.loader.energon.submodules import publish_submodules
from wdsctl.loader.samples import SourceInfo
from wdsctl.loader.stores import open_store
from wdsctl.loader.stores.cache import CachedValue, CachePool, Lazy, NoCachePool
from wdsctl.loader.stores.disk_cache import FileStoreCachePool
from wdsctl.loader.stores.open import FILESYSTEM_PREFIX
from wdsctl.loader.stores.store import StoreEntry, add_source

__all__ = [
    "CachePool",
    "DecodeFileStore",
    "DirectLazy",
    "FileCacheLazy",
    "FileStore",
    "FileStoreCachePool",
    "FileStoreDecoder",
    "Lazy",
    "MockLazy",
    "NoCachePool",
    "PrimaryFileStore",
    "SystemFileStore",
]

DirectLazy = replaced("DirectLazy")
FileCacheLazy = replaced("FileCacheLazy")
FileStoreDecoder = replaced("FileStoreDecoder")
PrimaryFileStore = replaced("PrimaryFileStore")


class FileStore(stores.FileStore):
    """The base class of stores. Your own class defines `__getitem__`, which returns data and a SourceInfo, and
    `get_path`; `FileStore` of `wdsctl.loader` has more methods to override.

    Cache pools read such a store when the data is needed, and keep nothing of it. `isinstance` accepts all stores.
    """

    digest = ""
    decoder = None

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return issubclass(other, stores.FileStore) if cls is FileStore else NotImplemented

    @abstractmethod
    def __getitem__(self, name: str) -> tuple[Any, SourceInfo]:
        """The data of an entry, and its origin."""

    @abstractmethod
    def get_path(self) -> str:
        """The path of the store."""

    @property
    def path(self) -> str:  # type: ignore[override]  # a subclass need not call `__init__`
        return self.get_path()

    def get(self, name: str, sample: Any = None) -> Any:
        data, source = self[name]
        add_source(sample, source)
        return data

    def find(self, name: str) -> StoreEntry:
        """The entry of any name: only `__getitem__` knows which ones there are."""
        return StoreEntry(name, "", self.path, "", 0, 0, 0)

    def load(self, entry: StoreEntry) -> Any:
        return self[entry.name][0]

    def source_of(self, entry: StoreEntry) -> SourceInfo:
        return self[entry.name][1]

    def is_read_by_range(self, entry: StoreEntry) -> bool:  # noqa: ARG002 - so that pools call `load`
        return True

    def with_decoder(self, decoder: SampleDecoder | None) -> FileStore:
        return self if decoder is None else _DecodedStore(self, decoder)

    def get_media_metadata(self, name: str) -> Any:  # noqa: ARG002 - the signature of stores
        """Raises SampleFailed WDS553."""
        hint = f"override get_media_metadata in {type(self).__name__}"
        raise SampleFailed("the store has no media facts", where=f"store {self.path}", hint=hint, code="WDS553")

    def close(self) -> None:
        """No effect: the store has no open files of wdsctl."""

    def _new_storage(self) -> NoReturn:
        hint = f"read it with `{type(self).__name__}()[name]`"
        raise UsageError("the store of the program cannot be read by ranges", where=self.path, hint=hint)

    def _is_gone(self) -> bool:
        return False


class _DecodedStore(FileStore):
    """A store of the program's own whose entries are decoded."""

    def __init__(self, inner: FileStore, decoder: SampleDecoder) -> None:
        self._inner = inner
        self._decoder = decoder

    def __getitem__(self, name: str) -> tuple[Any, SourceInfo]:
        data, source = self._inner[name]
        return self._decoder(posixpath.basename(name).partition(".")[2], data), source

    def get_path(self) -> str:
        return self._inner.get_path()

    def with_decoder(self, decoder: SampleDecoder | None) -> FileStore:  # type: ignore[override]
        return self._inner.with_decoder(decoder)

    def get_media_metadata(self, name: str) -> Any:
        return self._inner.get_media_metadata(name)


def SystemFileStore(base_dir: str | os.PathLike[str] | None = None) -> stores.FileStore:  # noqa: N802 - Energon's name
    """The files below a folder as bytes. Files outside the folder are refused (WDS552)."""
    if base_dir is None:
        raise UsageError(
            "SystemFileStore needs a folder: a store reads no files outside of one",
            hint="pass the folder, and names relative to it",
        )
    path = os.fspath(base_dir)
    return open_store(path if "://" in path else f"{FILESYSTEM_PREFIX}{path}")


def DecodeFileStore(inner: stores.FileStore, *, decoder: SampleDecoder | None) -> stores.FileStore:  # noqa: N802 - Energon's name
    """The same store, whose entries are decoded by `decoder`."""
    return inner.with_decoder(decoder)


class MockLazy(CachedValue):
    """A `Lazy` whose value is `get_fn(fname)`, for tests."""

    __slots__ = ("fname", "get_fn")

    def __init__(self, fname: str, get_fn: Callable[[str], Any]) -> None:
        super().__init__(fname, lambda: get_fn(fname))
        self.fname = fname
        self.get_fn = get_fn

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MockLazy) and (self.fname, self.get_fn) == (other.fname, other.get_fn)

    def __hash__(self) -> int:
        return hash((self.fname, self.get_fn))

    def __reduce__(self) -> tuple[Any, ...]:
        return MockLazy, (self.fname, self.get_fn)


publish_submodules(__name__)
