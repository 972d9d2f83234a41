"""Range requests of one store, retried and hedged, and fetches of announced ranges in the background.

Asynchronous drivers send requests in fsspec's event loop. Others send them one after the other in the loop of one
thread of our own, which starts with the first fetch. A fetch that fails is forgotten: the read of its ranges requests
them again, and raises the error.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from wdsctl.core.errors import StorageDown, StorageError, WdsctlError
from wdsctl.core.storage.azure_objects import read_azure_range
from wdsctl.core.storage.cache_layers import CachedFiles
from wdsctl.core.storage.filesystem import MAX_CONCURRENT_REQUESTS, OpenRoot, begin_call, open_root, own_loop
from wdsctl.core.storage.hedging import HedgePolicy, hedged, policy_for
from wdsctl.core.storage.hub_ranges import is_hub, read_hub_range
from wdsctl.core.storage.ranges import RangeRequest, plan_requests
from wdsctl.core.storage.read_ahead import Fetch, ReadAhead
from wdsctl.core.storage.remote_errors import (
    FIRST_TRIES,
    MAX_TRIES,
    RemoteFileChecker,
    RetryPolicy,
    call_or_error,
    ignored_range_error,
    is_transient,
    note_answer,
    note_retry,
    unwrap_driver_error,
)
from wdsctl.core.storage.s3_objects import read_s3_range
from wdsctl.core.storage.storage import FileRange, ReadCounter, ReadCounts
from wdsctl.core.urls import redact_secrets

T = TypeVar("T")


class Prefetcher:
    """Fetches the announced ranges of one store in the background, and sends the requests of its reads.

    `checks`: of its files, before they are read. For one process.
    """

    def __init__(
        self,
        root: str,
        checks: RemoteFileChecker,
        counter: ReadCounter,
        retry_policy: RetryPolicy,
    ) -> None:
        self.read_ahead = ReadAhead()
        self._root = root
        self._opened: OpenRoot | None = None
        self._checks = checks
        self._counter = counter
        self._retry_policy = retry_policy
        self._checks_under_way: dict[str, asyncio.Future[None]] = {}  # by path, for the loop's thread
        self._own_root: OpenRoot | None = None
        _known_here().append(weakref.ref(self))

    def open(self) -> OpenRoot:
        """Open the store at the first call. Raises a WdsctlError."""
        if self._opened is None:
            self._opened = open_root(self._root)
        return self._opened

    @property
    def policy(self) -> HedgePolicy:
        """When requests to the store are late."""
        return policy_for("/".join(self._root.split("/", 3)[:3]))

    def start_fetches(self) -> None:
        """Start fetches of all stores of this process in the order in which they are due, as far as there is room."""
        while True:
            waiting = [(turn, each) for each in _prefetchers() if (turn := each.read_ahead.next_turn) is not None]
            if not waiting:
                return
            _, first = min(waiting, key=lambda each: each[0])
            fetch = first.read_ahead.next_fetch()
            if fetch is not None:
                first.start(fetch)

    def start(self, fetch: Fetch) -> None:
        """Start a fetch that has begun. A store that cannot be opened raises its error in the reads."""
        try:
            loop = own_loop() if fetch.load is not None else self._loop()
        except WdsctlError:
            self.read_ahead.fail(fetch)
            return
        work = self._load_async(fetch) if fetch.load is not None else self._fetch_async(fetch)
        fetch.future = asyncio.run_coroutine_threadsafe(work, loop)

    def wait_for(self, fetch: Fetch, read: Callable[[FileRange], bytes]) -> None:
        """Return when a fetch has ended. `read`: reads a range in this thread."""
        fetch.is_urgent = True
        if self.read_ahead.begin(fetch):
            if not self.open().filesystem.async_impl:  # not behind others in the only background thread
                self.start_fetches()
                self._fetch_here(fetch, read)
                return
            self.start(fetch)
        self.start_fetches()
        if fetch.future is not None:
            self._retry_policy.wait_for(fetch.future, self._root)

    def request_all(self, requests: Sequence[RangeRequest]) -> list[Any]:
        """The driver's answers to requests that a read waits for, or its errors, without retries."""
        filesystem = self.open().filesystem
        if filesystem.async_impl:
            limit = _request_limits(filesystem.loop)[True]
            future = begin_call(filesystem, self._request_at_once(requests, limit))
            try:
                self._retry_policy.wait_for(future, self._root)
                return future.result()
            finally:
                future.cancel()  # after Ctrl-C; does nothing to a finished call
        self._counter.add(ReadCounts(requests=len(requests)))
        paths = [self.open().path(each.path) for each in requests]
        answers: list[Any]
        if is_hub(filesystem):
            ranges = zip(paths, requests, strict=True)
            answers = [
                call_or_error(partial(read_hub_range, filesystem, path, each.start, each.stop)) for path, each in ranges
            ]
        else:
            starts, stops = [each.start for each in requests], [each.stop for each in requests]
            answers = filesystem.cat_ranges(paths, starts, stops, on_error="return")
        self._counter.add(ReadCounts(bytes=sum(len(each) for each in answers if isinstance(each, bytes))))
        return answers

    def close(self) -> None:
        """Cancel what is under way."""
        for fetch in self.read_ahead.fetches_under_way():
            if fetch.future is not None:
                fetch.future.cancel()

    def _loop(self) -> asyncio.AbstractEventLoop:
        filesystem = self.open().filesystem
        loop: asyncio.AbstractEventLoop = filesystem.loop if filesystem.async_impl else own_loop()
        return loop

    def _fetch_here(self, fetch: Fetch, read: Callable[[FileRange], bytes]) -> None:
        if fetch.load is not None:
            self._load(fetch)
            return
        try:
            data = read(FileRange(fetch.path, fetch.start, fetch.size))
        except WdsctlError:
            self.read_ahead.fail(fetch)  # the caller reads the range alone, and raises its own error
        else:
            self.read_ahead.complete(fetch, data)

    def _load(self, fetch: Fetch) -> None:
        """Load ranges from a cache; those that it has lost are fetched from the store."""
        data = None if fetch.load is None else fetch.load()
        if data is None:
            self.read_ahead.replan(fetch)
        else:
            self._counter.add(ReadCounts(cached_bytes=sum(map(len, data))))
            self.read_ahead.complete_load(fetch, data)

    async def _load_async(self, fetch: Fetch) -> None:
        self._load(fetch)
        self.start_fetches()

    async def _fetch_async(self, fetch: Fetch) -> None:
        limits = _request_limits(asyncio.get_running_loop())
        try:
            background = self._root_for_fetches()
            requests = plan_requests([FileRange(fetch.path, fetch.start, fetch.size)]).requests
            async with limits[fetch.is_urgent]:
                await self._check(background, fetch.path)
            parts = await asyncio.gather(*(self._request_again(background, each, fetch) for each in requests))
        except Exception:  # noqa: BLE001 - drivers raise any class; the read of a range raises the error again
            self.read_ahead.fail(fetch)
        except BaseException:  # a cancelled fetch too: a reader would wait for it for ever
            self.read_ahead.fail(fetch)
            raise
        else:
            self.read_ahead.complete(fetch, parts[0] if len(parts) == 1 else b"".join(parts))
        self.start_fetches()

    def _root_for_fetches(self) -> OpenRoot:
        """The filesystem that background fetches use. Drivers that are not asynchronous get one for their thread."""
        if self._own_root is None:
            opened = self.open()
            is_shared = opened.filesystem.async_impl or isinstance(opened.filesystem, CachedFiles)
            self._own_root = opened if is_shared else open_root(self._root)
        return self._own_root

    async def _check(self, background: OpenRoot, path: str) -> None:
        """Raise an error for a file that was replaced; fetches of a file wait for one request."""
        if not self._checks.files_due([path]):
            return
        under_way = self._checks_under_way.get(path)
        if under_way is None:
            under_way = asyncio.ensure_future(self._stat_and_check(background, path))
            self._checks_under_way[path] = under_way
            under_way.add_done_callback(lambda _: self._checks_under_way.pop(path, None))
        await asyncio.shield(under_way)

    async def _stat_and_check(self, background: OpenRoot, path: str) -> None:
        filesystem, inner = background.filesystem, background.path(path)
        facts = await filesystem._info(inner) if filesystem.async_impl else filesystem.info(inner)  # noqa: SLF001 - so fsspec names its coroutines
        self._checks.check(path, facts)

    async def _request_again(self, background: OpenRoot, request: RangeRequest, fetch: Fetch) -> bytes:
        """The bytes of a request, after retries of transient errors and short answers."""
        policy, begun = self._retry_policy, time.monotonic()
        for tried in range(MAX_TRIES):  # not FIRST_TRIES: a run that fetches ahead is under way
            if tried:
                if time.monotonic() - begun > policy.max_retry_seconds:
                    break
                note_retry(self._root, tried, policy.pause_before(tried))
                await asyncio.sleep(policy.pause_before(tried))
                policy.on_retry(redact_secrets(self._root), tried)
                self._counter.add(ReadCounts(retries=1))
            async with _request_limits(asyncio.get_running_loop())[fetch.is_urgent]:
                response = await self._try_request(background, request, lambda: fetch.is_urgent)
            if not should_retry(request, response, is_short, tried):
                break
        if isinstance(response, BaseException):
            raise response
        note_answer(self._root)
        data: bytes = response
        if len(data) != request.stop - request.start:
            raise StorageError(
                f"the store sent {len(data):,} bytes instead of {request.stop - request.start:,}",
                where=redact_secrets(request.path),
                hint="run the same command again",
                code="WDS403",
            )  # the read of a range says more
        return data

    async def _request_at_once(self, requests: Sequence[RangeRequest], limit: asyncio.Semaphore) -> list[Any]:
        background = self._root_for_fetches()

        async def request_one(request: RangeRequest) -> Any:
            async with limit:
                return await self._try_request(background, request, lambda: True)

        return await asyncio.gather(*map(request_one, requests))

    async def _try_request(self, background: OpenRoot, request: RangeRequest, is_awaited: Callable[[], bool]) -> Any:
        """The driver's answer to one request, hedged; or its error."""
        filesystem, inner = background.filesystem, background.path(request.path)
        size = request.stop - request.start

        async def send() -> bytes:
            self._counter.add(ReadCounts(requests=1))
            data: bytes
            if filesystem.async_impl:
                data = await _read_range(filesystem, inner, request, self._checks.mark_of(request.path))
            elif is_hub(filesystem):
                data = read_hub_range(filesystem, inner, request.start, request.stop)
            else:
                data = filesystem.cat_file(inner, start=request.start, end=request.stop)
            self._counter.add(ReadCounts(bytes=len(data)))
            return data

        try:
            if not filesystem.async_impl:
                return await send()
            return await hedged(send, size, self.policy, lambda: self._counter.add(ReadCounts(hedges=1)), is_awaited)
        except Exception as error:  # noqa: BLE001 - drivers are third-party code, and may raise any class
            return unwrap_driver_error(error)


_known: dict[int, list[weakref.ref[Prefetcher]]] = {}  # of this process, by its id


def _known_here() -> list[weakref.ref[Prefetcher]]:
    pid = os.getpid()
    if pid not in _known:
        _known.clear()
        _known[pid] = []
    return _known[pid]


def _prefetchers() -> list[Prefetcher]:
    """Those of this process. Any thread may call it."""
    known = _known_here()
    found = []
    for reference in tuple(known):
        prefetcher = reference()
        if prefetcher is not None:
            found.append(prefetcher)
        else:
            with suppress(ValueError):  # another thread has removed it
                known.remove(reference)
    return found


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


def is_short(request: RangeRequest, response: bytes) -> bool:
    return len(response) < request.stop - request.start


def should_retry(item: T, response: Any, is_short: Callable[[T, Any], bool], tried: int) -> bool:
    """Whether a driver's answer is a transient error, or too short. `tried`: the number of earlier tries.

    A store that sends a short answer again and again responds: the file itself is too short.
    """
    if isinstance(response, BaseException):
        return is_transient(response)
    return tried + 1 < FIRST_TRIES and is_short(item, response)


async def _read_range(filesystem: Any, path: str, request: RangeRequest, mark: int) -> bytes:
    """Read a range through an asynchronous driver. `mark`: of the version to read; 0 for any."""
    data: bytes
    if type(filesystem).__name__ == "S3FileSystem":
        data = await read_s3_range(filesystem, path, request.start, request.stop, mark)
    elif type(filesystem).__name__ == "AzureBlobFileSystem":
        data = await read_azure_range(filesystem, path, request.start, request.stop)
    elif type(filesystem).__name__ == "HTTPFileSystem":
        check = partial(_refuse_other_range, request)
        data = await filesystem._cat_file(path, start=request.start, end=request.stop, raise_for_status=check)  # noqa: SLF001 - so fsspec names its coroutines
    else:
        data = await filesystem._cat_file(path, start=request.start, end=request.stop)  # noqa: SLF001 - so fsspec names its coroutines
    return data


async def _refuse_other_range(request: RangeRequest, response: Any) -> None:
    """Raise StorageDown if a web server sends other bytes, before it sends a large file instead of a part of it."""
    size = request.stop - request.start
    if response.status == 200 and (response.content_length or 0) > size:
        response.close()
        raise ignored_range_error(request.path, response.content_length, size)
    sent = re.match(r"bytes ([0-9]+)-", response.headers.get("Content-Range", ""))
    if response.status == 206 and sent is not None and int(sent[1]) != request.start:
        response.close()
        raise StorageDown(
            f"the store sends bytes from byte {int(sent[1]):,}, instead of from byte {request.start:,}",
            where=redact_secrets(request.path),
            hint="check the server, and caches before it; or copy the files to a disk or an object store",
        )
