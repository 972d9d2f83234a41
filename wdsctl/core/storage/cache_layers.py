"""Read through the caches of fsspec that a URL may begin with: `simplecache::`, `filecache::`, `blockcache::`.

fsspec's caches were not made for threads or processes that share a folder: one truncates what another one reads, and a
download that was cut short counts as complete. Here every process has a folder of its own, reads of one cache follow
each other, and a copy that is too short is removed before the next try.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from wdsctl.core.directories import is_private
from wdsctl.core.errors import InputError, StorageError, translate_os_errors

MAX_PROCESSES = 4096  # that use one cache folder at the same time
MAX_OPEN_FILES = 64  # of one cache; more than these are opened again, which asks the store about the file

#: The folder that this process holds in each cache folder: (process id, path).
_held: dict[str, tuple[int, str]] = {}


def cache_options(layer: str) -> dict[str, Any]:
    """Return the options with which fsspec opens a cache. Without a configured folder, the cache ends with its storage.

    A copy is checked against the store each time it is opened. `simplecache` cannot do that: raises InputError if it
    has a configured folder, whose copies may be those of shards that were replaced since.
    """
    from fsspec.config import conf

    configured = conf.get(layer, {}).get("cache_storage", "TMP")
    # An instance that fsspec keeps would hand the copies of one storage to the next one.
    options = {"skip_instance_cache": True, **({} if layer == "simplecache" else {"check_files": True})}
    if configured == "TMP":
        return options
    if layer == "simplecache":
        raise InputError(
            "simplecache with a configured folder does not notice replaced shards",
            where=str(configured),
            hint="use `filecache::` instead, and configure its folder with FSSPEC_FILECACHE_CACHE_STORAGE",
        )
    if not isinstance(configured, str):
        raise InputError(
            f"{layer} has several cache folders, but wdsctl supports only one",
            where=str(configured),
            hint=f"configure one folder with FSSPEC_{layer.upper()}_CACHE_STORAGE",
        )
    return {**options, "cache_storage": _hold_folder(os.path.abspath(configured))}


class CachedFiles:
    """The files of a store through a cache of fsspec, for any thread. Facts come from the store, bytes from copies."""

    async_impl = False

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._store = cache.fs
        self._files: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __del__(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def info(self, path: str) -> dict[str, Any]:
        facts: dict[str, Any] = self._store.info(path)
        return facts

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        """Return bytes [start, end) of a file; fewer if its copy is too short, which is then removed."""
        with self._lock:
            file = self._open(path)
            file.seek(start)
            try:
                data: bytes = file.read(end - start)
            except IndexError:  # so blockcache says that the store sent less than it asked for
                data = b""
            if len(data) < end - start:
                self._forget(path)
            return data

    def cat_ranges(
        self, paths: Sequence[str], starts: Sequence[int], ends: Sequence[int], **_options: Any
    ) -> list[bytes | Exception]:
        """Return the bytes or the error of each range, as fsspec does with `on_error="return"`."""
        answers: list[bytes | Exception] = []
        for path, start, end in zip(paths, starts, ends, strict=True):
            try:
                answers.append(self.cat_file(path, start, end))
            except Exception as error:  # noqa: BLE001 - drivers raise any class; the caller translates it
                answers.append(error)
        return answers

    def _open(self, path: str) -> Any:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._cache.open(path, "rb")
            if len(self._files) > MAX_OPEN_FILES:
                self._files.popitem(last=False)[1].close()
        self._files.move_to_end(path)
        return file

    def _forget(self, path: str) -> None:
        """Close a file and remove its copy: the next read fetches it."""
        self._files.pop(path).close()
        found = self._cache._check_file(path)  # noqa: SLF001 - fsspec has no public question for the copy
        copy = found[1] if isinstance(found, tuple) else found
        if copy:
            with suppress(FileNotFoundError), translate_os_errors(copy, "remove"):
                os.unlink(copy)


def _hold_folder(folder: str) -> str:
    """Return a folder below a cache folder that no other process uses until this one ends."""
    process, path = _held.get(folder, (0, ""))
    if process == os.getpid():
        return path
    with translate_os_errors(folder, "write"):
        os.makedirs(folder, exist_ok=True)
        for number in range(MAX_PROCESSES):
            path = os.path.join(folder, f"process-{number}")
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)  # fsspec would use the umask, with which other users may change the copies
            if not is_private(path):
                continue
            handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                continue
            _held[folder] = os.getpid(), path  # the descriptor stays open: the lock ends with the process
            return path
    raise StorageError(
        f"the cache folder already has {MAX_PROCESSES:,} processes, its maximum",
        where=folder,
        hint="configure another cache folder",
    )
