"""Limits of what web servers may send: bytes, time, and other addresses. Imports aiohttp.

A server may be anybody's. aiohttp alone reads an answer of any size, unpacks it, waits as long as single bytes arrive,
and follows redirects to any address with the user's headers.
"""

from __future__ import annotations

import asyncio
import re
import socket
from ipaddress import IPv6Address, ip_address
from typing import Any

from aiohttp import ClientResponse, ServerTimeoutError, TraceConfig, TraceRequestRedirectParams
from yarl import URL

from wdsctl.core.errors import StorageError
from wdsctl.core.storage.remote_errors import ignored_range_error
from wdsctl.core.urls import redact_secrets

MAX_WHOLE_BYTES = 64 << 20  # of an answer to a request without a range: lists of files, catalog pointers
HEADER_SECONDS = 120.0  # until the headers of an answer are complete
GRACE_SECONDS = 60.0  # in which an answer may be slower than this:
MIN_BYTES_PER_SECOND = 1024

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
        limit, begun = self._limit(), asyncio.get_running_loop().time()
        received = bytearray()
        while chunk := await self.content.readany():
            received += chunk
            if len(received) > (MAX_WHOLE_BYTES if limit is None else limit):
                raise self._too_long_error(limit, len(received))
            seconds = asyncio.get_running_loop().time() - begun
            if seconds > GRACE_SECONDS + len(received) / MIN_BYTES_PER_SECOND:
                raise ServerTimeoutError(f"only {len(received):,} bytes arrived in {seconds:.0f} s")
        return bytes(received)

    def _limit(self) -> int | None:
        """Bytes of the requested range; None if the request has none."""
        requested = _RANGE.fullmatch(self.request_info.headers.get("Range", ""))
        if requested is None:
            return None
        first, last = requested.groups()
        return int(last) - int(first) + 1 if first else int(last)

    def _too_long_error(self, limit: int | None, received: int) -> StorageError:
        if limit is not None:
            return ignored_range_error(str(self.url), max(received, self.content_length or 0), limit)
        return StorageError(
            f"the answer of the server has more than {MAX_WHOLE_BYTES:,} bytes",
            where=redact_secrets(str(self.url)),
            hint="check the URL; wdsctl reads only lists of files and small documents without a range",
        )


def redirect_checks() -> TraceConfig:
    """Checks of every redirect before it is followed."""
    trace = TraceConfig()
    trace.on_request_redirect.append(check_redirect)
    return trace


async def check_redirect(_session: Any, _context: Any, redirect: TraceRequestRedirectParams) -> None:
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
    if await _is_public(redirect.url.host or "") and not await _is_public(target.host or ""):
        raise StorageError(
            f"the server redirects to {target.host}, an address of this machine or of a private network",
            where=redact_secrets(str(redirect.url)),
            hint="if you trust that server, pass its URL instead",
        )


async def _is_public(host: str) -> bool:
    """Whether all addresses of a host are public. A host without addresses counts as public: no request reaches it."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True
    addresses = {ip_address(str(each[4][0]).partition("%")[0]) for each in found}
    return all(((each.ipv4_mapped or each) if isinstance(each, IPv6Address) else each).is_global for each in addresses)
