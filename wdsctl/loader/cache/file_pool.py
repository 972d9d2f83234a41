"""A cache pool on a local disk: bytes of entries are brought there ahead, and shared by the workers of a machine."""

from __future__ import annotations

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
from wdsctl.loader.cache.directory import CacheDirectory, job_name, parent_of, remove_leftovers
from wdsctl.loader.cache.lazy import Kept, kept_value
from wdsctl.loader.cache.pool import CachePool
from wdsctl.loader.cache.room import OWN, PARTIAL, Room
from wdsctl.loader.cache.values import CannotKeepError, dumped, loaded
from wdsctl.loader.logs import log
from wdsctl.loader.stores.entry import Entry
from wdsctl.loader.stores.store import FileStore

GIGABYTE = 1 << 30
MOST_FILES = 10_000_000
WAITING = 1000  # entries that wait to be brought, of a process; beyond, they are read when they are asked for


class FileStoreCachePool(CachePool):
    """`get_lazy` brings the bytes of an entry to a local disk, in the background; `Lazy.get` then reads them there.

    `parent_cache_dir`: the temporary folder of the system, if it is not given. `num_workers`: threads that bring
    entries, in each process that cooks. `max_cache_size_gbytes` (of 2^30 bytes; by default half of what is free) and
    `max_cache_count` hold for all processes of this machine together; what was used longest ago makes room. `method`:
    "raw", the bytes as they are in the store.

    What is decoded by ranges (films, sounds, entries over 64 MiB) is not brought, but read from its store. Where the
    folder cannot be written, or the disk is full, everything is read from the stores; a line in the log says so once.
    Pickles by its folder: workers by spawn share it.
    """

    def __init__(
        self,
        parent_cache_dir: str | os.PathLike[str] | None = None,
        num_workers: int = 8,
        max_cache_size_gbytes: float | None = None,
        max_cache_count: int = MOST_FILES,
        method: Literal["raw"] = "raw",
    ) -> None:
        if method != "raw":
            raise UsageError(
                f"method is {method!r}: decoded values would have to be pickled", hint="leave it at 'raw': bytes"
            )
        if num_workers < 1 or max_cache_count < 1 or (max_cache_size_gbytes is not None and max_cache_size_gbytes <= 0):
            raise UsageError("a cache pool needs at least one thread and some room", hint="leave its arguments out")
        self._parent = None if parent_cache_dir is None else os.fspath(parent_cache_dir)
        self._threads = num_workers
        self._most_gbytes = max_cache_size_gbytes
        self._most_files = max_cache_count
        self._folder = ""  # of the job; empty until it is opened, or where it cannot be
        self._most_bytes = 0
        self._is_closed = False
        self._here: _Here | None = None

    @property
    def cache_dir(self) -> str:
        """The folder where it keeps what it has; empty where it keeps nothing."""
        return self._folder

    def open(self) -> None:
        if self._here is None and not self._is_closed:
            self._here = self._new(self._folder)

    def load(self, store: FileStore, entry: Entry) -> Any:
        here = self._mine()
        if here is None or store.is_ranged(entry):
            return store.load(entry)
        return store.decoded(entry, here.bytes_of(store, entry))

    def will_need(self, store: FileStore, entry: Entry) -> None:
        here = self._mine()
        if here is not None and not store.is_ranged(entry):
            here.bring(store, entry)

    def to_cache(self, obj: Any, name: str) -> Kept:
        here = self._mine()
        return kept_value(name, obj) if here is None else here.put_aside(obj, name)

    def close(self) -> None:
        """Remove the folder, unless another rank of the job uses it. Later, everything is read from the stores."""
        here, self._here, self._is_closed = self._here, None, True
        if here is not None:
            here.close()

    def __reduce__(self) -> tuple[Any, ...]:
        self.open()
        given = (self._parent, self._threads, self._most_gbytes, self._most_files)
        return _arrived, (given, (self._folder, self._most_bytes, self._is_closed))

    def _mine(self) -> _Here | None:
        """What this process has; a forked one begins with threads of its own in the same folder."""
        self.open()
        here = self._here
        if here is not None and here.pid != os.getpid():
            here = self._here = here.forked()
        return here if here is not None and here.is_working else None

    def _new(self, folder: str) -> _Here | None:
        try:
            if not folder:
                parent = parent_of(self._parent)
                remove_leftovers(parent)
                folder = os.path.join(parent, job_name(os.environ))
            directory = CacheDirectory(folder)
            self._most_bytes = self._most_bytes or self._allowed(folder)
        except OSError as error:
            log.warning("media are not cached: %s", error)
            self._is_closed = True
            return None
        self._folder = folder
        _POOLS[folder] = self
        return _Here(directory, Room(folder, self._most_bytes, self._most_files), self._threads)

    def _allowed(self, folder: str) -> int:
        if self._most_gbytes is not None:
            return int(self._most_gbytes * GIGABYTE)
        free = os.statvfs(folder)
        return free.f_bavail * free.f_frsize // 2


#: Of this process, by folder.
_POOLS: weakref.WeakValueDictionary[str, FileStoreCachePool] = weakref.WeakValueDictionary()


def _arrived(given: tuple[Any, ...], there: tuple[str, int, bool]) -> FileStoreCachePool:
    """The pool of a folder that has come to this process before, or a new one that shares the folder."""
    folder = there[0]
    pool = _POOLS.get(folder)
    if pool is None:
        pool = FileStoreCachePool(*given)
        pool._folder, pool._most_bytes, pool._is_closed = there  # noqa: SLF001 - its constructor, where it arrives
        if folder:
            _POOLS[folder] = pool
    return pool


class _Here:
    """The pool in one process: threads, and entries that are on their way. A forked process does not end the folder."""

    def __init__(self, directory: CacheDirectory, room: Room, threads: int, *, is_forked: bool = False) -> None:
        self.pid = os.getpid()
        self.is_working = True
        self._directory = directory
        self._room = room
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._coming: dict[str, Future[None]] = {}
        self._lock = Lock()
        self._numbers = count()
        self._at_end = None if is_forked else weakref.finalize(self, _end, directory, self.pid)

    def forked(self) -> _Here:
        if self._at_end is not None:
            self._at_end.detach()  # what is done at the end of the process that it was forked from
        return _Here(self._directory, self._room, self._threads, is_forked=True)

    def bytes_of(self, store: FileStore, entry: Entry) -> bytes:
        """From the disk, if it is there or just coming; else from the store. Raises what the store raises."""
        name = _name(store, entry)
        with self._lock:
            coming = self._coming.pop(name, None)
        if coming is not None and not coming.cancel():
            with suppress(WdsctlError):
                coming.result()  # what is wrong with it is told by the store below
        data = self._kept(name, entry)
        return store.read(entry) if data is None else data

    def bring(self, store: FileStore, entry: Entry) -> None:
        name = _name(store, entry)
        if os.path.exists(self._path(name)):
            return
        with self._lock:
            if name in self._coming or len(self._coming) >= WAITING:
                return
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="wdsctl-cache")
            self._coming[name] = self._executor.submit(self._bring, store, entry, name)

    def put_aside(self, obj: Any, name: str) -> Kept:
        try:
            data = dumped(obj)
        except CannotKeepError:
            return kept_value(name, obj)
        path = os.path.join(self._room.folder, OWN, f"{self.pid}-{next(self._numbers)}")
        if not self._written(path, data):
            return kept_value(name, obj)
        kept = Kept(name, partial(_read_back, path, name))
        weakref.finalize(kept, _forget, path, len(data), self._room, self.pid).atexit = False
        return kept

    def close(self) -> None:
        self.is_working = False
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
        if self._at_end is not None:
            self._at_end()

    def _bring(self, store: FileStore, entry: Entry, name: str) -> None:
        try:
            if self._kept(name, entry) is None and self.is_working:
                self._written(self._path(name), store.read(entry))
        finally:
            with self._lock:
                self._coming.pop(name, None)

    def _kept(self, name: str, entry: Entry) -> bytes | None:
        """The bytes of an entry, if they are on the disk: whole, as they were renamed into place."""
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                data = file.read()
            os.utime(path)  # it was used now
        except OSError:
            return None
        return data if len(data) == entry.size else None

    def _written(self, path: str, data: bytes) -> bool:
        """Whether there was room for a file and it is there now. What is wrong with the disk ends the caching."""
        if not self.is_working:
            return False
        draft = os.path.join(os.path.dirname(path), f"{self.pid}-{next(self._numbers)}{PARTIAL}")
        try:
            if not self._room.reserve(len(data), draft):
                return False
            return self._put(path, draft, data)
        except OSError as error:
            with suppress(OSError):
                os.unlink(draft)
            if self.is_working:
                self.is_working = False
                if os.path.isdir(self._room.folder):  # else whoever began it has closed it
                    log.warning("media are not cached any more: %s", error)
            return False

    def _put(self, path: str, draft: str, data: bytes) -> bool:
        with open(draft, "r+b") as file:
            file.write(data)
        if os.path.exists(path):  # another process was quicker
            self._room.remove(draft, len(data))
        else:
            os.replace(draft, path)
        return True

    def _path(self, name: str) -> str:
        return os.path.join(self._room.folder, name[:2], name)


def _name(store: FileStore, entry: Entry) -> str:
    """Of what an entry holds: another one where the store or the file has changed."""
    facts = (store.path, store.digest, entry.path, entry.offset, entry.size, entry.mark)
    return blake2b(repr(facts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _read_back(path: str, name: str) -> Any:
    try:
        with open(path, "rb") as file:
            return loaded(file.read())
    except OSError as error:
        raise SampleFailed(
            f"what was put aside as {name!r} is gone: {error.strerror}",
            where=path,
            hint="leave the folder of the cache to the pool, and close the pool last",
        ) from error


def _forget(path: str, size: int, room: Room, pid: int) -> None:
    """Nobody holds a value any more that was put aside."""
    if pid == os.getpid():
        with suppress(OSError):
            room.remove(path, size)


def _end(directory: CacheDirectory, pid: int) -> None:
    if pid == os.getpid():
        directory.close()
