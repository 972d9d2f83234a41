"""`megatron.energon.cache`: cache pools, and stores of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.energon.replaced import replaced
from wdsctl.loader.energon.submodules import publish_submodules
from wdsctl.loader.stores import FileStore, open_store
from wdsctl.loader.stores.cache import CachedValue, CachePool, Lazy, NoCachePool
from wdsctl.loader.stores.disk_cache import FileStoreCachePool
from wdsctl.loader.stores.open import FILESYSTEM_PREFIX

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


def SystemFileStore(base_dir: str | os.PathLike[str] | None = None) -> FileStore:  # noqa: N802 - Energon's name
    """The files below a folder as bytes. Files outside the folder are refused (WDS552)."""
    if base_dir is None:
        raise UsageError(
            "SystemFileStore needs a folder: a store reads no files outside of one",
            hint="pass the folder, and names relative to it",
        )
    path = os.fspath(base_dir)
    return open_store(path if "://" in path else f"{FILESYSTEM_PREFIX}{path}")


def DecodeFileStore(inner: FileStore, *, decoder: SampleDecoder | None) -> FileStore:  # noqa: N802 - Energon's name
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
