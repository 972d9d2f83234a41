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
from typing import Any
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
from wdsctl.core.storage.answer_limits import (
    GRACE_SECONDS,
    HEADER_SECONDS,
    MAX_WHOLE_BYTES,
    MIN_BYTES_PER_SECOND,
    REDIRECT_HINT,
    ListProgress,
    check_page,
    is_public_address,
    redirect_message,
    too_long_error,
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
    return too_long_error(url)


async def open_session(**options: Any) -> ClientSession:
    """A session whose answers are bounded, and whose redirects are checked. `options`: of aiohttp's session."""
    resolver = CheckedResolver()
    # Names are resolved for each connection: another cache could have addresses of before a check.
    connector = {} if "connector" in options else {"connector": TCPConnector(resolver=resolver, use_dns_cache=False)}
    traces = [*options.pop("trace_configs", ()), redirect_checks(resolver)]
    return ClientSession(**{"response_class": BoundedResponse, **connector, **options, "trace_configs": traces})


class CheckedResolver(ThreadedResolver):
    """Resolves names, and remembers whether one of the addresses that it gave to connections is public.

    The answer may come from any of them. A name may have another address at each request. So redirects are judged by
    the addresses that were connected to, and names in `public_only` get no connection to another kind of address.
    """

    def __init__(self) -> None:
        super().__init__()
        self.are_public: dict[str, bool] = {}
        self.public_only: set[str] = set()

    async def resolve(self, host: str, *args: Any, **options: Any) -> Any:
        found = await super().resolve(host, *args, **options)
        are_public = [is_public_address(each["host"]) for each in found]
        self.are_public[host] = any(are_public)
        if host in self.public_only and not all(are_public):
            # No StorageError: aiohttp would take it for a network error, and it would be repeated.
            raise InputError(redirect_message(host), where=host, hint=REDIRECT_HINT, code="WDS404")
        return found


@lru_cache(maxsize=1)
def shared_checks() -> TraceConfig:
    """The checks of redirects and pages for sessions that a driver opens itself."""
    checks = redirect_checks(None)
    checks.on_request_start.append(check_pages)
    return checks


def bound_session(session: Any) -> None:
    """Add the checks and limits to a session of aiohttp that a driver has opened."""
    checks = shared_checks()
    if checks not in session._trace_configs:  # noqa: SLF001 - the drivers pass aiohttp no such options
        checks.freeze()
        session._trace_configs.append(checks)  # noqa: SLF001
        session._response_class = BoundedResponse  # noqa: SLF001


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
    # A server that has addresses of both kinds may have answered from the public one.
    if not (await _is_public(source, any) if connected is None else connected):
        return
    if resolver:
        resolver.public_only.add(host)
    if not await _is_public(host, all):
        raise StorageError(redirect_message(host), where=redact_secrets(str(redirect.url)), hint=REDIRECT_HINT)


#: session -> how far its lists were read
_lists: WeakKeyDictionary[Any, ListProgress] = WeakKeyDictionary()


async def check_pages(session: Any, _context: Any, request: TraceRequestStartParams) -> None:
    """Raise StorageError if the pages of a list do not end: the same one again and again, or ever more."""
    _lists.setdefault(session, {})
    check_page(_lists[session], str(request.url))


async def _is_public(host: str, quantifier: Callable[[list[bool]], bool]) -> bool:
    """Whether `any` or `all` addresses of a host are public. One without addresses counts as public: no request
    reaches it.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True
    return quantifier([is_public_address(str(each[4][0])) for each in found])
