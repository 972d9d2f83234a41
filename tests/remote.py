"""Stores for the tests: one in memory, one that injects faults, and S3 on this machine."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from tests.stores.servers import in_use, moto_server
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.remote_errors import RetryPolicy

Fault = Callable[[str, int, int, bytes], bytes]
QUIET_SECONDS = 0.1  # without a new request, after which all parked requests are released


class FaultyFileSystem(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The store in memory under `faulty://`. Reads, `info` and `find` are recorded; `fault` changes reads.

    A fault gets path, start, stop and the bytes, and returns other bytes or raises.
    """

    protocol = "faulty"
    cachable = False
    reads: ClassVar[list[tuple[str, int, int]]] = []
    metadata_requests: ClassVar[list[str]] = []
    fault: ClassVar[list[Fault]] = []
    denied: ClassVar[list[Exception]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + str(path).removeprefix("faulty://").strip("/")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        self.reads.append((path, start or 0, end or 0))
        data: bytes = super().cat_file(path, start, end, **kwargs)
        for fault in self.fault:
            data = fault(path, start or 0, end or 0, data)
        return data

    def info(self, path: str, **kwargs: Any) -> Any:
        self.metadata_requests.append(path)
        if self.denied:
            raise self.denied[0]
        return super().info(path, **kwargs)

    def find(self, path: str, **kwargs: Any) -> Any:
        self.metadata_requests.append(path)
        if self.denied:
            raise self.denied[0]
        return super().find(path, **kwargs)

    @classmethod
    def reset(cls) -> None:
        for records in (cls.reads, cls.metadata_requests, cls.fault, cls.denied):
            records.clear()
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]


fsspec.register_implementation("faulty", FaultyFileSystem, clobber=True)


class DelayedFileSystem(AsyncFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store in memory under `delayed://` with an asynchronous driver. Every request takes `delay` seconds.

    `late(number)` returns further seconds for request `number`, counted from 0. `fault`: as for `FaultyFileSystem`.
    """

    protocol = "delayed"
    cachable = False
    files: ClassVar[dict[str, bytes]] = {}
    reads: ClassVar[list[tuple[str, int, int]]] = []
    metadata_requests: ClassVar[list[str]] = []
    running_requests: ClassVar[list[int]] = [0, 0]  # current and maximum number
    fault: ClassVar[list[Fault]] = []
    delay: ClassVar[list[float]] = [0.0]
    late: ClassVar[list[Callable[[int], float]]] = []
    counts_trips: ClassVar[list[bool]] = [False]  # whether requests wait until `round_trips` releases them
    parked: ClassVar[list[asyncio.Future[None]]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + str(path).removeprefix("delayed://").strip("/")

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        number = len(self.reads)
        self.reads.append((path, start or 0, end or 0))
        running = self.running_requests  # a request may end after the test that made it
        running[0] += 1
        running[1] = max(running)
        try:
            await self._wait_for_trip()
            await asyncio.sleep(self.delay[0] + sum(late(number) for late in self.late))
        finally:
            running[0] -= 1
        if path not in self.files:
            raise FileNotFoundError(path)
        data = self.files[path][start:end]
        for fault in self.fault:
            data = fault(path, start or 0, end or 0, data)
        return data

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        self.metadata_requests.append(path)
        await self._wait_for_trip()
        await asyncio.sleep(self.delay[0])
        if path in self.files:
            return self._facts(path)
        if any(name.startswith(f"{path}/") for name in self.files):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    async def _find(self, path: str, **_: Any) -> dict[str, Any]:
        return {name: self._facts(name) for name in sorted(self.files) if name.startswith(f"{path.rstrip('/')}/")}

    async def _pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        self.files[path] = value

    async def _wait_for_trip(self) -> None:
        if self.counts_trips[0]:
            self.parked.append(asyncio.get_running_loop().create_future())
            await self.parked[-1]

    def _facts(self, path: str) -> dict[str, Any]:
        data = self.files[path]
        return {"name": path, "size": len(data), "type": "file", "etag": str(hash(data))}

    @classmethod
    def reset(cls) -> None:
        for records in (cls.files, cls.reads, cls.metadata_requests, cls.fault, cls.late):
            records.clear()
        cls.running_requests = [0, 0]
        cls.delay[:] = [0.0]
        cls.counts_trips[:] = [False]
        cls.parked.clear()


fsspec.register_implementation("delayed", DelayedFileSystem, clobber=True)


def round_trips(action: Callable[[], object]) -> int:
    """Count the round trips to the store under `delayed://` while `action` runs.

    All requests wait until no further one arrives, and are then answered together as one round trip.
    """
    trips, parked = 0, DelayedFileSystem.parked
    DelayedFileSystem.counts_trips[:] = [True]
    thread = threading.Thread(target=action)
    thread.start()
    known, quiet_since = -1, time.monotonic()
    while thread.is_alive() or parked:
        if len(parked) != known:
            known, quiet_since = len(parked), time.monotonic()
        elif known and time.monotonic() - quiet_since > QUIET_SECONDS:
            trips += thread.is_alive()
            released, parked[:], known = list(parked), [], -1
            for each in released:
                each.get_loop().call_soon_threadsafe(_release, each)
        time.sleep(0.002)
    thread.join()
    DelayedFileSystem.counts_trips[:] = [False]
    return trips


def _release(request: asyncio.Future[None]) -> None:
    if not request.done():  # not cancelled
        request.set_result(None)


class OnceEach:
    """Applies a fault to each range `times` times, then lets reads of it succeed."""

    def __init__(self, strike: Fault, times: int = 1) -> None:
        self._strike = strike
        self._times = times
        self._struck: dict[tuple[str, int, int], int] = {}

    def __call__(self, path: str, start: int, stop: int, data: bytes) -> bytes:
        count = self._struck.get((path, start, stop), 0)
        self._struck[path, start, stop] = count + 1
        return self._strike(path, start, stop, data) if count < self._times else data


def remove_retry_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the pauses between attempts from the storages of this process."""
    monkeypatch.setattr(RetryPolicy, "pause_before", lambda *_: 0.0)


def upload_shards(folder: str | Path, url: str, pattern: str = "*.tar*") -> str:
    """Copy every shard below a folder, or every file matching the pattern, into a store; return the URL."""
    filesystem, base = fsspec.url_to_fs(url)
    for path in filter(Path.is_file, sorted(Path(folder).rglob(pattern))):
        filesystem.pipe_file(f"{base}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return url


def read_objects(url: str, ending: str = "") -> dict[str, bytes]:
    """Return the objects below a folder of a store whose names end with `ending`, except the catalog's, by name."""
    store = ObjectStore(url)
    names = [each.url.removeprefix(f"{url}/") for each in store.list(url)]
    return {name: store.get(f"{url}/{name}")[0] for name in names if ".wdsctl/" not in name and name.endswith(ending)}


@contextmanager
def s3_server() -> Iterator[str]:
    """An S3 server on this machine with a bucket `bucket`; yields its endpoint. The settings of drivers point to it."""
    with moto_server() as store, in_use(store):
        yield store.endpoint
