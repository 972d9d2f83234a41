"""Read files at URLs through fsspec, with concurrent range requests, timeouts and retries.

Reads are exact: a short read is an error. Listing a folder returns all files, or fails. Only this module imports
fsspec, and only when it opens a URL. Every process creates its own filesystem, since fsspec's event loop runs in a
thread, and threads do not survive a fork (fsspec's documentation, "Async").

Announced ranges are fetched in the background: by asynchronous drivers in fsspec's event loop, by others one after the
other in the loop of one thread of our own, which starts with the first fetch. A fetch that fails is forgotten: the read
of its ranges requests them again, and raises the error.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any, NamedTuple, TypeVar

from wdsctl.core.errors import StorageDown, StorageError, WdsctlError
from wdsctl.core.storage.cache_layers import CachedFiles, cache_options
from wdsctl.core.storage.hedging import hedged, policy_for
from wdsctl.core.storage.ranges import RangeRequest, plan_requests
from wdsctl.core.storage.read_ahead import Announcement, CachedRanges, Fetch, ReadAhead, Sink
from wdsctl.core.storage.read_counts import ReadCounter, ReadCounts
from wdsctl.core.storage.remote_errors import (
    MAX_TRIES,
    RECHECK_SECONDS,
    RemoteFileChecker,
    RetryPolicy,
    call_or_error,
    call_with_retries,
    is_transient,
    translate_remote,
    unwrap_driver_error,
)
from wdsctl.core.storage.storage import FileRange
from wdsctl.core.urls import cache_layer, normalize_root, protocol, redact_secrets, reveal_query, store_url

CONNECT_TIMEOUT_SECONDS = 15
READ_TIMEOUT_SECONDS = 30  # between two bytes; the driver's own limit is 300 s for a response of any size


def open_filesystem(root: str) -> tuple[Any, str]:
    """Open fsspec's filesystem: (filesystem, root as it spells it). Uses fsspec's configuration; raises its errors."""
    from fsspec.core import url_to_fs

    layer, options = cache_layer(root), _driver_options(protocol(root))
    if not layer:
        return url_to_fs(root, **options)  # type: ignore[no-any-return]
    cache, base = url_to_fs(root, **{layer: cache_options(layer), protocol(root): options})
    return CachedFiles(cache), base


def _driver_options(scheme: str) -> dict[str, Any]:
    if scheme in ("http", "https"):
        return _http_options()
    if scheme in ("s3", "s3a"):
        from fsspec.config import conf

        # botocore keeps 10 connections, and further requests wait for one of them.
        configured = conf.get(scheme, {}).get("config_kwargs", {})
        return {"config_kwargs": {"max_pool_connections": MAX_CONNECTIONS, **_s3_checksums(), **configured}}
    return {}


def _s3_checksums() -> dict[str, str]:
    """Keep botocore from adding a CRC-32 to uploads, unless the user's environment has a choice.

    wdsctl sends the MD5 of every upload. Over HTTPS, botocore would also copy the body to add the CRC-32 after it.
    """
    if "AWS_REQUEST_CHECKSUM_CALCULATION" in os.environ:
        return {}
    try:
        from botocore.config import Config  # type: ignore[import-untyped]
    except ImportError:  # the driver is missing, which fsspec reports
        return {}
    option = "request_checksum_calculation"  # older versions have none, and add none
    return {option: "when_required"} if option in Config.OPTION_DEFAULTS else {}


def _http_options() -> dict[str, Any]:
    from aiohttp import ClientTimeout
    from fsspec.config import conf

    configured = {**conf.get("http", {}).get("client_kwargs", {}), **conf.get("https", {}).get("client_kwargs", {})}
    timeout = ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=READ_TIMEOUT_SECONDS)
    return {"client_kwargs": {"timeout": timeout, **configured}}


def list_files_below(filesystem: Any, base: str) -> dict[str, dict[str, Any]]:
    """List all files below a folder with the facts of fsspec's driver, by name. Raises the driver's errors."""
    found: dict[str, dict[str, Any]]
    found = _walk_files(filesystem, base) if _has_generic_find(filesystem) else filesystem.find(base, detail=True)
    return found


def _has_generic_find(filesystem: Any) -> bool:
    """Whether a filesystem has fsspec's generic `find`, which silently skips folders that it cannot list."""
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    kind = type(filesystem)
    if filesystem.async_impl:
        return kind._find is AsyncFileSystem._find  # noqa: SLF001 - so fsspec names its coroutines
    return bool(kind.find is AbstractFileSystem.find)


def _walk_files(filesystem: Any, base: str) -> dict[str, dict[str, Any]]:
    """List every file below a folder. Raises for a folder that cannot be listed: its shards would seem missing."""
    found: dict[str, dict[str, Any]] = {}
    folders, seen = [base], set()
    while folders:
        folder = folders.pop()
        seen.add(folder)
        for facts in filesystem.ls(folder, detail=True):
            if facts["type"] != "directory":
                found[facts["name"]] = facts
            elif facts["name"] not in seen:
                folders.append(facts["name"])
    return found


T = TypeVar("T")

MAX_CONCURRENT_REQUESTS = 16  # that reads wait for, and as many in the background
MAX_CONNECTIONS = 3 * MAX_CONCURRENT_REQUESTS
DEFAULT_RETRY_POLICY = RetryPolicy()


class FsspecStorage:
    """The files below `root`, a URL. Paths are URLs that begin with it.

    `expected`: sizes in bytes that files must have. Checks them before the first read, and again before a read more
    than `recheck_seconds` later. A file that was replaced between two checks fails too. `will_need` fetches nothing:
    reading an announced range also fetches the other ranges of its announcement. Pickles by value, and works after a
    fork.
    """

    def __init__(
        self,
        root: str,
        expected: Mapping[str, int] | None = None,
        *,
        retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY,
        recheck_seconds: float = RECHECK_SECONDS,
    ) -> None:
        self._root = normalize_root(root)
        self._expected = dict(expected or {})
        self._retry_policy = retry_policy
        self._recheck_seconds = recheck_seconds
        self._reset()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("_root", "_expected", "_retry_policy", "_recheck_seconds")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def files(self) -> list[tuple[str, Mapping[str, Any]]]:
        """List all files below the root, without caches: (path relative to the root, facts from the driver).

        Raises InputError if there is no such bucket or folder.
        """
        if cache_layer(self._root):
            return FsspecStorage(store_url(self._root), retry_policy=self._retry_policy).files()
        base = self._driver_path(self._root)

        def find() -> dict[str, dict[str, Any]]:
            filesystem = self._filesystem()
            filesystem.invalidate_cache()
            found = list_files_below(filesystem, base)
            filesystem.invalidate_cache()  # so that later requests return current sizes
            return found

        found = self._call_driver(find, self._root, "list")
        unsized = [name for name, facts in found.items() if facts["size"] is None]
        for name, facts in zip(unsized, self._stat_files(unsized), strict=True):
            path = f"{self._root}{name[len(base.rstrip('/')) :]}"
            if isinstance(facts, BaseException):
                raise translate_remote(facts, path, "read")
            if facts["size"] is None:
                raise _no_size_error(path)
            found[name] = {**found[name], **facts}
        files = [(name.removeprefix(base).lstrip("/"), facts) for name, facts in found.items()]
        # Some stores have an empty object for each folder.
        return [(path, facts) for path, facts in files if not (facts["size"] == 0 and (not path or path.endswith("/")))]

    def size(self, path: str) -> int:
        inner = self._driver_path(path)
        return int(self._call_driver(lambda: self._filesystem().info(inner), path, "read")["size"])

    def facts(self, path: str) -> Mapping[str, Any]:
        """Return the driver's facts of one file; `size` in bytes. Raises InputError if it does not exist."""
        inner = self._driver_path(path)
        facts: Mapping[str, Any] = self._call_driver(lambda: self._filesystem().info(inner), path, "list")
        if facts["size"] is None:
            raise _no_size_error(path)
        return facts

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """Request the sizes of files concurrently; None for a file that does not exist."""
        found: list[int | None] = []
        for path, facts in zip(paths, self._stat_files([self._driver_path(path) for path in paths]), strict=True):
            if isinstance(facts, BaseException) and not isinstance(facts, FileNotFoundError):
                raise translate_remote(facts, path, "read")
            found.append(None if isinstance(facts, BaseException) else facts["size"])
        return found

    def root_of(self, path: str) -> str:  # noqa: ARG002
        return self._root

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder. Raises if the store fails; some drivers would return False."""
        found = self._stat_files([self._driver_path(path)])[0]
        if isinstance(found, BaseException) and not isinstance(found, FileNotFoundError):
            raise translate_remote(found, path, "read")
        return not isinstance(found, BaseException)

    def read(self, path: str, offset: int, size: int) -> bytes:
        requested = FileRange(path, offset, size)
        read_ahead = self._current_read_ahead()
        found = read_ahead.take(requested)
        if isinstance(found, bytes):
            self._start_fetches(read_ahead)
            return found
        begun = time.monotonic()
        tried: Fetch | None = None
        while isinstance(found, Fetch) and found is not tried:
            tried = found
            self._await_fetch(found, read_ahead)
            found = read_ahead.take(requested)
        if not isinstance(found, bytes):
            read_ahead.forget(requested)
            found = self.read_many([requested])[0]
        self._counter.add(ReadCounts(stalled_seconds=time.monotonic() - begun))
        return found

    def read_into(self, path: str, offset: int, memory: memoryview) -> None:
        memory[:] = self.read(path, offset, len(memory))

    def read_many(self, ranges: Sequence[FileRange]) -> list[bytes]:
        """Read ranges with concurrent requests: one for neighbouring ranges, several for long ones."""
        self._check({each.path for each in ranges if each.size})
        plan = plan_requests(ranges)
        return plan.slice_data(self._fetch(plan.requests))

    def will_need(self, ranges: Iterable[FileRange]) -> None:
        self._current_read_ahead().keep(ranges)

    def announce(
        self,
        ranges: Iterable[FileRange],
        *,
        starts: bool = False,
        cached: Sequence[CachedRanges] = (),
        sink: Sink | None = None,
    ) -> Announcement:
        """Announce ranges that will be read, in order, for as long as the result is kept.

        `starts`: fetch them in the background now; otherwise when the first of them is read. `cached`: those that a
        cache has; `sink` receives the others when they are fetched, in another thread. Raises no error of the store:
        the reads do.
        """
        read_ahead = self._current_read_ahead()
        announcement = read_ahead.announce(ranges, starts=starts, cached=cached, sink=sink)
        self._start_fetches(read_ahead)
        return announcement

    def take_counts(self) -> ReadCounts:
        """What was read since the last call."""
        return self._counter.take()

    def close(self) -> None:
        """Drop buffered data, and cancel what is under way. fsspec owns the connections, and shares them within the
        process."""
        if self._pid == os.getpid():
            for fetch in self._read_ahead.fetches_under_way():
                if fetch.future is not None:
                    fetch.future.cancel()
        self._reset()

    def _reset(self) -> None:
        self._read_ahead = ReadAhead()
        self._counter = ReadCounter()
        self._checks = RemoteFileChecker(self._expected, self._recheck_seconds)
        self._checks_under_way: dict[str, asyncio.Future[None]] = {}  # by path, for the loop's thread
        self._opened: tuple[Any, str] | None = None
        self._background: _PrefetchFilesystem | None = None
        self._pid = os.getpid()

    # Fetches in the background

    def _current_read_ahead(self) -> ReadAhead:
        """What was announced in this process: threads that fetch do not survive a fork."""
        if self._pid != os.getpid():
            self._reset()
        return self._read_ahead

    def _start_fetches(self, read_ahead: ReadAhead) -> None:
        """Start fetches as far as the budget allows. A store that cannot be opened raises its error in the reads."""
        for fetch in read_ahead.next_fetches():
            try:
                self._start(fetch, read_ahead, is_urgent=False)
            except WdsctlError:
                read_ahead.fail(fetch)

    def _await_fetch(self, fetch: Fetch, read_ahead: ReadAhead) -> None:
        """Return when a fetch has ended."""
        is_asynchronous = self._filesystem().async_impl
        if read_ahead.begin(fetch):
            if not is_asynchronous:  # not behind others in the only background thread
                self._start_fetches(read_ahead)
                self._fetch_here(fetch, read_ahead)
                return
            self._start(fetch, read_ahead, is_urgent=True)
        self._start_fetches(read_ahead)
        if fetch.future is not None:
            wait([fetch.future])

    def _fetch_here(self, fetch: Fetch, read_ahead: ReadAhead) -> None:
        if fetch.load is not None:
            self._load(fetch, read_ahead)
            return
        try:
            (data,) = self.read_many([FileRange(fetch.path, fetch.start, fetch.size)])
        except WdsctlError:
            read_ahead.fail(fetch)  # the caller reads the range alone, and raises its own error
        else:
            read_ahead.complete(fetch, data)

    def _load(self, fetch: Fetch, read_ahead: ReadAhead) -> None:
        """Load ranges from a cache; those that it has lost are fetched from the store."""
        data = None if fetch.load is None else fetch.load()
        if data is None:
            read_ahead.replan(fetch)
        else:
            self._counter.add(ReadCounts(cached_bytes=sum(map(len, data))))
            read_ahead.complete_load(fetch, data)

    async def _load_in_background(self, fetch: Fetch, read_ahead: ReadAhead) -> None:
        self._load(fetch, read_ahead)

    def _start(self, fetch: Fetch, read_ahead: ReadAhead, *, is_urgent: bool) -> None:
        if fetch.load is not None:
            fetch.future = asyncio.run_coroutine_threadsafe(self._load_in_background(fetch, read_ahead), _own_loop())
            return
        loop = self._filesystem().loop if self._filesystem().async_impl else _own_loop()
        limit = _request_limits(loop)[is_urgent]
        fetch.future = asyncio.run_coroutine_threadsafe(self._fetch_in_background(fetch, read_ahead, limit), loop)

    async def _fetch_in_background(self, fetch: Fetch, read_ahead: ReadAhead, limit: asyncio.Semaphore) -> None:
        try:
            background = self._open_prefetch_filesystem()
            requests = plan_requests([FileRange(fetch.path, fetch.start, fetch.size)]).requests
            async with limit:
                await self._check_in_background(background, fetch.path)
            parts = await asyncio.gather(*(self._request_again(background, each, limit) for each in requests))
        except Exception:  # noqa: BLE001 - drivers raise any class; the read of a range raises the error again
            read_ahead.fail(fetch)
        except BaseException:  # a cancelled fetch too: a reader would wait for it for ever
            read_ahead.fail(fetch)
            raise
        else:
            read_ahead.complete(fetch, parts[0] if len(parts) == 1 else b"".join(parts))

    def _open_prefetch_filesystem(self) -> _PrefetchFilesystem:
        """The filesystem that background fetches use. Drivers that are not asynchronous get one for their thread."""
        if self._background is None:
            filesystem, base = self._open()
            if not (filesystem.async_impl or isinstance(filesystem, CachedFiles)):
                filesystem, base = open_filesystem(reveal_query(self._root)[0])
            self._background = _PrefetchFilesystem(filesystem, base.rstrip("/"), self._query)
        return self._background

    async def _check_in_background(self, background: _PrefetchFilesystem, path: str) -> None:
        """Raise an error for a file that was replaced, as `_check` does; fetches of a file wait for one request."""
        if not self._checks.files_due([path]):
            return
        under_way = self._checks_under_way.get(path)
        if under_way is None:
            under_way = asyncio.ensure_future(self._stat_and_check(background, path))
            self._checks_under_way[path] = under_way
            under_way.add_done_callback(lambda _: self._checks_under_way.pop(path, None))
        await asyncio.shield(under_way)

    async def _stat_and_check(self, background: _PrefetchFilesystem, path: str) -> None:
        filesystem, inner = background.filesystem, background.path(path, self._root)
        facts = await filesystem._info(inner) if filesystem.async_impl else filesystem.info(inner)  # noqa: SLF001 - so fsspec names its coroutines
        self._checks.check(path, facts)

    async def _request_again(
        self, background: _PrefetchFilesystem, request: RangeRequest, limit: asyncio.Semaphore
    ) -> bytes:
        """The bytes of a request, after retries of transient errors and short answers."""
        policy, begun = self._retry_policy, time.monotonic()
        for tried in range(MAX_TRIES):
            if tried:
                if time.monotonic() - begun > policy.max_retry_seconds:
                    break
                await asyncio.sleep(policy.pause_before(tried))
                policy.on_retry(redact_secrets(self._root), tried)
                self._counter.add(ReadCounts(retries=1))
            async with limit:
                response = await self._try_request(background, request)
            if not _should_retry(request, response, _is_short):
                break
        if isinstance(response, BaseException):
            raise response
        data: bytes = response
        if len(data) != request.stop - request.start:
            raise StorageError(
                f"the store sent {len(data):,} bytes instead of {request.stop - request.start:,}",
                where=redact_secrets(request.path),
                hint="run the same command again",
                code="WDS403",
            )  # the read of a range says more
        return data

    async def _try_request(self, background: _PrefetchFilesystem, request: RangeRequest) -> Any:
        """The driver's answer to one request, hedged; or its error."""
        filesystem, inner = background.filesystem, background.path(request.path, self._root)
        size = request.stop - request.start

        async def send() -> bytes:
            self._counter.add(ReadCounts(requests=1))
            data: bytes
            if filesystem.async_impl:
                data = await filesystem._cat_file(inner, start=request.start, end=request.stop)  # noqa: SLF001 - as above
            else:
                data = filesystem.cat_file(inner, start=request.start, end=request.stop)
            self._counter.add(ReadCounts(bytes=len(data)))
            return data

        try:
            if not filesystem.async_impl:
                return await send()
            store = "/".join(self._root.split("/", 3)[:3])
            return await hedged(send, size, policy_for(store), lambda: self._counter.add(ReadCounts(hedges=1)))
        except Exception as error:  # noqa: BLE001 - drivers are third-party code, and may raise any class
            return unwrap_driver_error(error)

    def _filesystem(self) -> Any:
        return self._open()[0]

    def _driver_path(self, path: str) -> str:
        """Return the path as the filesystem spells it."""
        return f"{self._open()[1].rstrip('/')}{path[len(self._root) :]}{self._query}"

    def _open(self) -> tuple[Any, str]:
        if self._opened is None or self._pid != os.getpid():
            root, query = reveal_query(self._root)
            self._query = f"?{query}" if query else ""
            opened = call_or_error(partial(open_filesystem, root))
            if isinstance(opened, Exception):
                raise translate_remote(opened, self._root, "open")
            self._opened, self._pid = opened, os.getpid()
        return self._opened

    def _call_driver(self, call: Callable[[], T], url: str, action: str) -> T:
        """Call the driver, and retry after transient errors. Raises WdsctlErrors only."""
        self._open()
        return call_with_retries(call, url, action, self._retry_policy)

    def _check(self, paths: set[str]) -> None:
        """Raise StorageError WDS403 for files that were replaced."""
        due = self._checks.files_due(paths)
        for path, facts in zip(due, self._stat_files([self._driver_path(path) for path in due]), strict=True):
            if isinstance(facts, BaseException):
                raise translate_remote(facts, path, "read")
            self._checks.check(path, facts)

    def _stat_files(self, inner: Sequence[str]) -> list[dict[str, Any] | BaseException]:
        """Request the facts of files concurrently. Returns the facts or the error of each."""

        def request(paths: Sequence[str]) -> list[Any]:
            filesystem = self._filesystem()
            if not filesystem.async_impl:
                return [call_or_error(partial(filesystem.info, path)) for path in paths]
            from fsspec.asyn import sync

            async def stat_all() -> list[Any]:
                calls = (filesystem._info(path) for path in paths)  # noqa: SLF001 - so fsspec names its coroutines
                return await asyncio.gather(*calls, return_exceptions=True)

            return list(sync(filesystem.loop, stat_all))

        found: list[Any] = []
        for start in range(0, len(inner), MAX_CONCURRENT_REQUESTS):
            found += self._call_with_retries(
                inner[start : start + MAX_CONCURRENT_REQUESTS], request, lambda _path, _facts: False
            )
        return found

    def _fetch(self, requests: Sequence[RangeRequest]) -> list[bytes]:
        """Return the bytes of every request. Raises StorageError WDS403 if a file is too short."""

        def cat(batch: Sequence[RangeRequest]) -> list[Any]:
            filesystem = self._filesystem()
            if filesystem.async_impl:
                from fsspec.asyn import sync

                return list(sync(filesystem.loop, self._request_all, batch, filesystem.loop))
            self._counter.add(ReadCounts(requests=len(batch)))
            answers: list[Any] = filesystem.cat_ranges(
                [self._driver_path(each.path) for each in batch],
                [each.start for each in batch],
                [each.stop for each in batch],
                on_error="return",
            )
            self._counter.add(ReadCounts(bytes=sum(len(each) for each in answers if isinstance(each, bytes))))
            return answers

        responses = self._call_with_retries(requests, cat, _is_short)
        for request, response in zip(requests, responses, strict=True):
            if isinstance(response, BaseException) or len(response) != request.stop - request.start:
                raise self._inexact_read_error(request, response)
        return responses

    async def _request_all(self, requests: Sequence[RangeRequest], loop: Any) -> list[Any]:
        background, limit = self._open_prefetch_filesystem(), _request_limits(loop)[True]

        async def request_one(request: RangeRequest) -> Any:
            async with limit:
                return await self._try_request(background, request)

        return await asyncio.gather(*map(request_one, requests))

    def _call_with_retries(
        self, items: Sequence[T], call: Callable[[Sequence[T]], list[Any]], is_short: Callable[[T, Any], bool]
    ) -> list[Any]:
        """Return the responses to all items, including exceptions. Retries transient errors and short responses."""
        responses: dict[int, Any] = {}
        remaining = list(range(len(items)))
        for _ in self._retry_policy.attempts(redact_secrets(self._root)) if items else ():
            batch = [items[i] for i in remaining]
            if responses:
                self._counter.add(ReadCounts(retries=len(batch)))
            result = call_or_error(partial(call, batch))
            new = [result] * len(batch) if isinstance(result, Exception) else map(unwrap_driver_error, result)
            responses.update(zip(remaining, new, strict=True))
            remaining = [i for i in remaining if _should_retry(items[i], responses[i], is_short)]
            if not remaining:
                break
        return [responses[i] for i in range(len(items))]

    def _inexact_read_error(self, request: RangeRequest, response: bytes | BaseException) -> WdsctlError:
        """Build the error for a response that differs from the request.

        Some stores report a range beyond the end as an error.
        """
        received = len(response) if isinstance(response, bytes) else 0
        requested = request.stop - request.start
        if received > requested:
            return StorageDown(
                f"the store ignores range requests: it sent {received:,} bytes instead of {requested:,}",
                where=redact_secrets(request.path),
                hint="copy the dataset to a disk, or to a store that supports range requests and reports file sizes",
            )
        error = isinstance(response, BaseException) and translate_remote(response, request.path, "read")
        if error and (isinstance(error, (PermissionError, StorageDown)) or isinstance(response, FileNotFoundError)):
            return error
        facts = self._stat_files([self._driver_path(request.path)])[0]
        if isinstance(facts, BaseException):
            return error or translate_remote(facts, request.path, "read")
        if error and facts["size"] >= request.stop:
            return error
        return StorageError(
            f"the file is {request.stop - facts['size']:,} bytes too short for the requested range"
            if facts["size"] < request.stop
            else f"short read from the store after all retries ({received:,} of {requested:,} bytes)",
            where=f"{redact_secrets(request.path)} (byte {request.start:,})",
            hint="the shard has shrunk since it was indexed: run `wdsctl validate` on the dataset",
            code="WDS403",
        )


class _PrefetchFilesystem(NamedTuple):
    """A filesystem, the root as it spells it, without slashes at the end, and the query of a signed URL."""

    filesystem: Any
    base: str
    query: str

    def path(self, url: str, root: str) -> str:
        """A URL below `root` as the filesystem spells it."""
        return f"{self.base}{url[len(root) :]}{self.query}"


_own_loops: dict[int, asyncio.AbstractEventLoop] = {}  # of this process, by its id: threads do not survive a fork


def _own_loop() -> asyncio.AbstractEventLoop:
    """An event loop in a thread of this process, for drivers that are not asynchronous."""
    pid = os.getpid()
    if pid not in _own_loops:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="wdsctl-read-ahead", daemon=True).start()
        _own_loops[pid] = loop
    return _own_loops[pid]


_limits: dict[int, tuple[Any, tuple[asyncio.Semaphore, asyncio.Semaphore]]] = {}


def _request_limits(loop: Any) -> tuple[asyncio.Semaphore, asyncio.Semaphore]:
    """The limits of concurrent requests of a loop: in the background, and those that a read waits for."""
    known = _limits.get(id(loop))
    if known is None or known[0] is not loop:
        known = _limits[id(loop)] = (
            loop,
            (asyncio.Semaphore(MAX_CONCURRENT_REQUESTS), asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)),
        )
    return known[1]


def _is_short(request: RangeRequest, response: bytes) -> bool:
    return len(response) < request.stop - request.start


def _no_size_error(path: str) -> StorageError:
    return StorageError(
        "the store does not report file sizes",
        where=redact_secrets(path),
        hint="copy the dataset to a disk, or to a store that supports range requests and reports file sizes",
    )


def _should_retry(item: T, response: Any, is_short: Callable[[T, Any], bool]) -> bool:
    return is_transient(response) if isinstance(response, BaseException) else is_short(item, response)
