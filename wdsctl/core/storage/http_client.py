"""Limits of what web servers may send: bytes, time, and other addresses. Imports aiohttp.

A server may be anybody's. aiohttp alone reads an answer of any size, unpacks it, waits as long as single bytes arrive,
and follows redirects to any address with the user's headers.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from aiohttp import (
    ClientResponse,
    ClientSession,
    ServerTimeoutError,
    TCPConnector,
    ThreadedResolver,
    TraceConfig,
    TraceRequestRedirectParams,
    TraceRequestStartParams,
)
from yarl import URL

from wdsctl.core.errors import InputError, StorageError
from wdsctl.core.file_limits import RAISE_LIMITS_HINT, scale_limit
from wdsctl.core.storage.answer_limits import (
    GRACE_SECONDS,
    HEADER_SECONDS,
    MAX_LIST_PAGES,
    MAX_WHOLE_BYTES,
    MIN_BYTES_PER_SECOND,
    REDIRECT_HINT,
    is_public_address,
    redirect_message,
)
from wdsctl.core.storage.remote_errors import ignored_range_error
from wdsctl.core.urls import redact_secrets

_RANGE = re.compile(r"bytes=([0-9]*)-([0-9]+)")
_HARMLESS_HEADERS = frozenset({"accept", "accept-encoding", "range", "user-agent"})


class BoundedResponse(ClientResponse):
    """An answer whose body is at most as long as the range that was requested, and arrives steadily."""

    async def start(self, connection: Any) -> ClientResponse:
        return await asyncio.wait_for(super().start(connection), HEADER_SECONDS)

    async def read(self) -> bytes:
        if self._body is None:
            try:
                self._body = await self._read_bounded()
            except BaseException:  # also if it is cancelled: the rest of the answer must not be read
                self.close()
                raise
        return await super().read()

    async def _read_bounded(self) -> bytes:
        stated = max(0, self.content_length or 0)
        return await read_bounded(self.content.readany, self._limit(), str(self.url), stated)

    def _limit(self) -> int | None:
        """Bytes of the requested range; None if the request has none, and for an error, whose text may be longer."""
        requested = _RANGE.fullmatch(self.request_info.headers.get("Range", ""))
        if requested is None or not self.ok:
            return None
        first, last = requested.groups()
        return int(last) - int(first) + 1 if first else int(last)


async def read_bounded(read: Callable[[], Awaitable[bytes]], limit: int | None, url: str, stated: int = 0) -> bytes:
    """Read an answer piece by piece. `limit`: the bytes that were requested; None for `MAX_WHOLE_BYTES`.

    Raises StorageError for a longer answer, ServerTimeoutError for one that arrives too slowly. `stated`: the size that
    the server states, for the message.
    """
    begun = asyncio.get_running_loop().time()
    received = bytearray()
    while chunk := await read():
        received += chunk
        if len(received) > (MAX_WHOLE_BYTES if limit is None else limit):
            raise _too_long_error(limit, max(len(received), stated), url)
        seconds = asyncio.get_running_loop().time() - begun
        if seconds > GRACE_SECONDS + len(received) / MIN_BYTES_PER_SECOND:
            raise ServerTimeoutError(f"only {len(received):,} bytes arrived in {seconds:.0f} s")
    return bytes(received)


def _too_long_error(limit: int | None, received: int, url: str) -> StorageError:
    if limit is not None:
        return ignored_range_error(url, received, limit)
    return StorageError(
        f"the answer of the server has more than {MAX_WHOLE_BYTES:,} bytes",
        where=redact_secrets(url),
        hint="check the URL; wdsctl reads only lists of files and small documents without a range",
    )


async def open_session(**options: Any) -> ClientSession:
    """A session whose answers are bounded, and whose redirects are checked. `options`: of aiohttp's session."""
    resolver = CheckedResolver()
    # Names are resolved for each connection: another cache could have addresses of before a check.
    connector = {} if "connector" in options else {"connector": TCPConnector(resolver=resolver, use_dns_cache=False)}
    traces = [*options.pop("trace_configs", ()), redirect_checks(resolver)]
    return ClientSession(**{"response_class": BoundedResponse, **connector, **options, "trace_configs": traces})


class CheckedResolver(ThreadedResolver):
    """Resolves names, and remembers whether the addresses that it gave to connections are public.

    A name may have another address at each request. So redirects are judged by the addresses that were connected to,
    and names in `public_only` get no connection to another kind of address.
    """

    def __init__(self) -> None:
        super().__init__()
        self.are_public: dict[str, bool] = {}
        self.public_only: set[str] = set()

    async def resolve(self, host: str, *args: Any, **options: Any) -> Any:
        found = await super().resolve(host, *args, **options)
        self.are_public[host] = is_public = all(is_public_address(each["host"]) for each in found)
        if host in self.public_only and not is_public:
            # No StorageError: aiohttp would take it for a network error, and it would be repeated.
            raise InputError(redirect_message(host), where=host, hint=REDIRECT_HINT, code="WDS404")
        return found


@lru_cache(maxsize=1)
def shared_checks() -> TraceConfig:
    """The checks of redirects and pages for sessions that a driver opens itself."""
    checks = redirect_checks(None)
    checks.on_request_start.append(check_pages)
    return checks


def redirect_checks(resolver: CheckedResolver | None) -> TraceConfig:
    """Checks of every redirect before it is followed. `resolver`: of the connections; None for another class."""

    async def check(_session: Any, _context: Any, redirect: TraceRequestRedirectParams) -> None:
        await check_redirect(resolver, redirect)

    trace = TraceConfig()
    trace.on_request_redirect.append(check)
    return trace


async def check_redirect(resolver: CheckedResolver | None, redirect: TraceRequestRedirectParams) -> None:
    """Remove the user's headers if a redirect leads to another server.

    Raises StorageError if a public server redirects to an address of this machine or of a private network.
    """
    location = redirect.response.headers.get("Location") or redirect.response.headers.get("URI")
    try:
        target = redirect.url.join(URL(location or ""))
    except ValueError:
        return  # aiohttp raises for a location that is no URL
    if target.origin() == redirect.url.origin():
        return
    for name in [name for name in redirect.headers if name.lower() not in _HARMLESS_HEADERS]:
        redirect.headers.popall(name, None)
    source, host = redirect.url.host or "", target.host or ""
    connected = resolver.are_public.get(source) if resolver else None
    if not (await _is_public(source) if connected is None else connected):
        return
    if resolver:
        resolver.public_only.add(host)
    if not await _is_public(host):
        raise StorageError(redirect_message(host), where=redact_secrets(str(redirect.url)), hint=REDIRECT_HINT)


_PAGE_PARAMETERS = ("pageToken", "continuation-token", "marker", "key-marker")
_MAX_PAGE_REQUESTS = 20  # of one page in a row: drivers repeat failed requests six times


class _ListProgress(NamedTuple):
    page: str  # its URL
    requests: int  # of the page
    pages: int


#: session -> URL of a list -> how far it was read. The first page of a list begins it again.
_lists: WeakKeyDictionary[Any, dict[str, _ListProgress]] = WeakKeyDictionary()


async def check_pages(session: Any, _context: Any, request: TraceRequestStartParams) -> None:
    """Raise StorageError if the pages of a list do not end: the same one again and again, or ever more."""
    others = [(name, value) for name, value in request.url.query.items() if name not in _PAGE_PARAMETERS]
    of_list = str(request.url.with_query(others))
    lists = _lists.setdefault(session, {})
    if not any(request.url.query.get(name) for name in _PAGE_PARAMETERS):
        lists.pop(of_list, None)
        return
    page, requests, pages = lists.get(of_list, _ListProgress("", 0, 1))
    is_repeated = page == str(request.url)
    lists[of_list] = _ListProgress(str(request.url), requests + 1 if is_repeated else 1, pages + (not is_repeated))
    if lists[of_list].requests > _MAX_PAGE_REQUESTS:
        problem, hint = "the store names the same next page again and again", "check the store"
    elif lists[of_list].pages > scale_limit(MAX_LIST_PAGES):
        problem = f"it has more than {scale_limit(MAX_LIST_PAGES):,} pages"
        hint = f"check the store; if it has so many files, {RAISE_LIMITS_HINT}"
    else:
        return
    where = redact_secrets(str(request.url.with_query(None)))
    raise StorageError(
        f"the list of files has no end: {problem}", where=where, hint=f"{hint}, or copy the dataset to another one"
    )


async def _is_public(host: str) -> bool:
    """Whether all addresses of a host are public. A host without addresses counts as public: no request reaches it."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True
    return all(is_public_address(str(each[4][0])) for each in found)
