"""`FileStoreCachePool`: a cache on a local disk, filled ahead of use and shared by the workers of a machine."""

from __future__ import annotations

import math
import os
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from itertools import count
from threading import Lock
from typing import Any, Literal

from wdsctl.core.errors import SampleFailed, UsageError, WdsctlError
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.stores.cache import (
    CachedValue,
    CachePool,
    UncacheableValueError,
    deserialize_value,
    hold_in_memory,
    serialize_value,
)
from wdsctl.loader.stores.disk_cache_folder import (
    PARTIAL_SUFFIX,
    VALUES_FOLDER,
    CacheDirectory,
    CacheQuota,
    job_name,
    make_parent_folder,
    remove_leftovers,
)
from wdsctl.loader.stores.store import FileStore, StoreEntry

BYTES_PER_GIGABYTE = 1 << 30
DEFAULT_MAX_FILES = 10_000_000
MAX_PENDING_ENTRIES = 1000  # per process; others are not prefetched


class FileStoreCachePool(CachePool):
    """A cache on a local disk. `get_lazy` fetches an entry in the background; `Lazy.get` then reads it from the disk.

    - `parent_cache_dir`: by default the system's temporary folder. The cache is removed when its job ends.
    - `num_workers`: threads that fetch entries, per process that runs cookers.
    - `max_cache_size_gbytes` (GiB; by default half of the free space) and `max_cache_count` (files): limits for all
      processes of the machine. The least recently used entries are evicted.
    - `method`: only "raw", the bytes as in the store.

    Video, audio and entries over 64 MiB are read on demand from their store, never cached. If the folder cannot be
    written or the disk is full, everything is read from the stores; the log says so once. Pickled by its folder, so
    that spawned workers share it. Raises UsageError for invalid arguments.
    """

    def __init__(
        self,
        parent_cache_dir: str | os.PathLike[str] | None = None,
        num_workers: int = 8,
        max_cache_size_gbytes: float | None = None,
        max_cache_count: int = DEFAULT_MAX_FILES,
        method: Literal["raw"] = "raw",
    ) -> None:
        if method != "raw":
            raise UsageError(
                f"method is {method!r}, but only 'raw' is supported", hint="omit method: the cache keeps raw bytes"
            )
        is_sized = max_cache_size_gbytes is None or 0 < max_cache_size_gbytes < math.inf
        if num_workers < 1 or max_cache_count < 1 or not is_sized:
            raise UsageError(
                "num_workers, max_cache_count and max_cache_size_gbytes must be positive",
                hint="pass numbers above 0, or omit these arguments for the defaults",
            )
        self._parent = None if parent_cache_dir is None else os.fspath(parent_cache_dir)
        self._threads = num_workers
        self._max_gbytes = max_cache_size_gbytes
        self._max_files = max_cache_count
        self._folder = ""  # of the job; empty until the pool is opened, and if that fails
        self._max_bytes = 0
        self._is_closed = False
        self._process_cache: _ProcessCache | None = None

    @property
    def cache_dir(self) -> str:
        """The folder of the cache; empty if nothing is cached."""
        return self._folder

    def open(self) -> None:
        if self._process_cache is None and not self._is_closed:
            self._process_cache = self._open_process_cache(self._folder)

    def load(self, store: FileStore, entry: StoreEntry) -> Any:
        process_cache = self._working_cache()
        if process_cache is None or store.is_read_by_range(entry):
            return store.load(entry)
        return store.decode(entry, process_cache.read_bytes(store, entry))

    def will_need(self, store: FileStore, entry: StoreEntry) -> None:
        process_cache = self._working_cache()
        if process_cache is not None and not store.is_read_by_range(entry):
            process_cache.prefetch(store, entry)

    def to_cache(self, obj: Any, name: str) -> CachedValue:
        process_cache = self._working_cache()
        return hold_in_memory(name, obj) if process_cache is None else process_cache.cache_value(obj, name)

    def close(self) -> None:
        """Remove the folder, unless another rank of the job uses it. From then on, entries are read from the stores."""
        process_cache, self._process_cache, self._is_closed = self._process_cache, None, True
        if process_cache is not None:
            process_cache.close()

    def __reduce__(self) -> tuple[Any, ...]:
        self.open()
        arguments = (self._parent, self._threads, self._max_gbytes, self._max_files)
        return _unpickle_pool, (arguments, (self._folder, self._max_bytes, self._is_closed))

    def _working_cache(self) -> _ProcessCache | None:
        """The cache of this process, or None if it failed. A forked process gets its own threads in the same folder."""
        self.open()
        process_cache = self._process_cache
        if process_cache is not None and process_cache.pid != os.getpid():
            process_cache = self._process_cache = process_cache.after_fork()
        return process_cache if process_cache is not None and process_cache.is_working else None

    def _open_process_cache(self, folder: str) -> _ProcessCache | None:
        try:
            if not folder:
                parent = make_parent_folder(self._parent)
                remove_leftovers(parent)
                folder = os.path.join(parent, job_name(os.environ))
            directory = CacheDirectory(folder)
            if not self._max_bytes and self._max_gbytes is not None:
                self._max_bytes = int(self._max_gbytes * BYTES_PER_GIGABYTE)
            elif not self._max_bytes:
                disk = os.statvfs(folder)
                self._max_bytes = disk.f_bavail * disk.f_frsize // 2
        except OSError as error:
            logger.warning("cannot open the media cache; reading from the stores instead: %s", error)
            self._is_closed = True
            return None
        self._folder = folder
        _POOLS_BY_FOLDER[folder] = self
        return _ProcessCache(directory, CacheQuota(folder, self._max_bytes, self._max_files), self._threads)


#: Folder -> pool of this process.
_POOLS_BY_FOLDER: weakref.WeakValueDictionary[str, FileStoreCachePool] = weakref.WeakValueDictionary()


def _unpickle_pool(arguments: tuple[Any, ...], folder_state: tuple[str, int, bool]) -> FileStoreCachePool:
    """The pool of that folder in this process, or a new one that shares the folder."""
    folder = folder_state[0]
    pool = _POOLS_BY_FOLDER.get(folder)
    if pool is None:
        pool = FileStoreCachePool(*arguments)
        pool._folder, pool._max_bytes, pool._is_closed = folder_state  # noqa: SLF001 - part of its construction
        if folder:
            _POOLS_BY_FOLDER[folder] = pool
    return pool


class _ProcessCache:
    """The cache in one process: its threads and pending fetches. Forked processes do not remove the folder."""

    def __init__(self, directory: CacheDirectory, quota: CacheQuota, threads: int, *, is_forked: bool = False) -> None:
        self.pid = os.getpid()
        self.is_working = True
        self._directory = directory
        self._quota = quota
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._fetches: dict[str, Future[None]] = {}
        self._lock = Lock()
        self._file_numbers = count()
        self._finalizer = None if is_forked else weakref.finalize(self, _close_directory, directory, self.pid)

    def after_fork(self) -> _ProcessCache:
        if self._finalizer is not None:
            self._finalizer.detach()  # it belongs to the parent process
        return _ProcessCache(self._directory, self._quota, self._threads, is_forked=True)

    def read_bytes(self, store: FileStore, entry: StoreEntry) -> bytes:
        """The bytes of an entry, from the disk if it is cached or being fetched. Raises what the store raises."""
        digest = _entry_digest(store, entry)
        with self._lock:
            fetch = self._fetches.pop(digest, None)
        if fetch is not None and not fetch.cancel():
            with suppress(WdsctlError):
                fetch.result()  # the read from the store below raises the error again
        data = self._read_cached(digest, entry)
        return store.read(entry) if data is None else data

    def prefetch(self, store: FileStore, entry: StoreEntry) -> None:
        digest = _entry_digest(store, entry)
        if os.path.exists(self._cached_path(digest)):
            return
        with self._lock:
            if digest in self._fetches or len(self._fetches) >= MAX_PENDING_ENTRIES:
                return
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="wdsctl-cache")
            self._fetches[digest] = self._executor.submit(self._fetch_entry, store, entry, digest)

    def cache_value(self, obj: Any, name: str) -> CachedValue:
        try:
            data = serialize_value(obj)
        except UncacheableValueError:
            return hold_in_memory(name, obj)
        path = os.path.join(self._quota.folder, VALUES_FOLDER, f"{self.pid}-{next(self._file_numbers)}")
        if not self._write_file(path, data):
            return hold_in_memory(name, obj)
        value = CachedValue(name, partial(_read_value, path, name))
        weakref.finalize(value, _remove_value, path, len(data), self._quota, self.pid).atexit = False
        return value

    def close(self) -> None:
        self.is_working = False
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
        if self._finalizer is not None:
            self._finalizer()

    def _fetch_entry(self, store: FileStore, entry: StoreEntry, digest: str) -> None:
        try:
            if self._read_cached(digest, entry) is None and self.is_working:
                self._write_file(self._cached_path(digest), store.read(entry))
        finally:
            with self._lock:
                self._fetches.pop(digest, None)

    def _read_cached(self, digest: str, entry: StoreEntry) -> bytes | None:
        """The bytes of an entry if they are on the disk. Files are complete, as they were renamed into place."""
        path = self._cached_path(digest)
        try:
            with open(path, "rb") as file:
                data = file.read(entry.size + 1)
            os.utime(path)  # for the eviction order
        except OSError:
            return None
        return data if len(data) == entry.size else None

    def _write_file(self, path: str, data: bytes) -> bool:
        """Write a file, if the quota allows it; whether it exists now. An error of the disk disables the cache."""
        if not self.is_working:
            return False
        partial_path = os.path.join(os.path.dirname(path), f"{self.pid}-{next(self._file_numbers)}{PARTIAL_SUFFIX}")
        try:
            if not self._quota.reserve(len(data), partial_path):
                return False
            with open(partial_path, "r+b") as file:
                file.write(data)
            if os.path.exists(path):  # another process was faster
                self._quota.remove(partial_path, len(data))
            else:
                os.replace(partial_path, path)
            return True
        except OSError as error:
            with suppress(OSError):
                os.unlink(partial_path)
            if self.is_working:
                self.is_working = False
                if os.path.isdir(self._quota.folder):  # otherwise its owner closed it
                    logger.warning("media cache disabled; reading from the stores instead: %s", error)
            return False

    def _cached_path(self, digest: str) -> str:
        return os.path.join(self._quota.folder, digest[:2], digest)


def _entry_digest(store: FileStore, entry: StoreEntry) -> str:
    """A digest of an entry's origin, which changes with the store or the file."""
    facts = (store.path, store.digest, entry.path, entry.offset, entry.size, entry.etag)
    return blake2b(repr(facts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _read_value(path: str, name: str) -> Any:
    try:
        with open(path, "rb") as file:
            return deserialize_value(file.read())
    except OSError as error:
        raise SampleFailed(
            f"the cached value {name!r} is missing: {error.strerror}",
            where=path,
            hint="leave the files in the cache folder unchanged, and close the pool last",
        ) from error


def _remove_value(path: str, size: int, quota: CacheQuota, pid: int) -> None:
    """Remove the file of a value that was freed."""
    if pid == os.getpid():
        with suppress(OSError):
            quota.remove(path, size)


def _close_directory(directory: CacheDirectory, pid: int) -> None:
    if pid == os.getpid():
        directory.close()
