"""Web servers that send too much, too slowly, packed, or redirects to private addresses."""

from __future__ import annotations

import asyncio
import gzip
import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from multidict import CIMultiDict
from yarl import URL

from wdsctl.core.errors import InputError, StorageDown, StorageError, WdsctlError
from wdsctl.core.storage import answer_limits, http_client
from wdsctl.core.storage.http_client import CheckedResolver, check_pages, check_redirect, open_session
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.remote import FsspecStorage

MEBIBYTE = bytes(1 << 20)
Respond = Callable[[http.server.BaseHTTPRequestHandler], None]


class _Server(http.server.ThreadingHTTPServer):
    respond: Respond
    sent_mebibytes = 0
    seen: list[dict[str, str]]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.server.respond(self)

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as found:
        found.seen = []
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def _url(server: _Server, name: str = "") -> str:
    return f"http://127.0.0.1:{server.server_port}/a{name}"


def _send_without_end(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(206 if "Range" in handler.headers else 200)
    handler.end_headers()
    try:
        while handler.server.sent_mebibytes < 500:  # type: ignore[attr-defined]
            handler.wfile.write(MEBIBYTE)
            handler.server.sent_mebibytes += 1  # type: ignore[attr-defined]
    except OSError:
        return


def test_answer_ends_at_size_of_range(server: _Server) -> None:
    server.respond = _send_without_end
    storage = storage_for(_url(server))
    with pytest.raises(WdsctlError, match="instead of 10"):
        storage.read(_url(server, "/x"), 0, 10)
    storage.close()
    assert server.sent_mebibytes < 100


def test_answer_with_another_range_is_refused(server: _Server) -> None:
    def respond(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(206)
        handler.send_header("Content-Length", "10")
        handler.send_header("Content-Range", "bytes 0-9/1000")
        handler.end_headers()
        handler.wfile.write(b"0123456789")

    server.respond = respond
    storage = storage_for(_url(server))
    assert storage.read(_url(server, "/x"), 0, 10) == b"0123456789"
    with pytest.raises(StorageDown, match="from byte 0, instead of from byte 500"):
        storage.read(_url(server, "/x"), 500, 10)
    storage.close()


def test_answer_without_range_ends_at_limit(server: _Server) -> None:
    server.respond = _send_without_end
    with pytest.raises(StorageError, match="has more than"):
        ObjectStore(_url(server)).get(_url(server, "/current.json"))
    assert server.sent_mebibytes < 200


def test_answers_are_not_unpacked(server: _Server) -> None:
    packed = gzip.compress(MEBIBYTE)

    def respond(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(packed)))
        handler.end_headers()
        handler.wfile.write(packed)

    server.respond = respond
    assert ObjectStore(_url(server)).get(_url(server, "/x"))[0] == packed
    assert {each["accept-encoding"] for each in server.seen} == {"identity"}


def test_slow_answer_ends(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "GRACE_SECONDS", -1e9)

    def respond(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "10")
        handler.end_headers()
        handler.wfile.write(b"0123456789")

    server.respond = respond
    with pytest.raises(WdsctlError, match="does not respond"):
        ObjectStore(_url(server), retry_policy=_no_retries()).get(_url(server, "/x"))


def _no_retries() -> Any:
    from wdsctl.core.storage.remote_errors import RetryPolicy

    return RetryPolicy(first_pause_seconds=0, max_retry_seconds=-1)


def test_server_without_sizes_is_reported(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def respond(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"0123456789")

    server.respond = respond
    monkeypatch.setattr(_Handler, "do_HEAD", respond)
    storage = FsspecStorage(_url(server), {_url(server, "/x"): 1000}, retry_policy=_no_retries())
    with pytest.raises(StorageError, match="size"):
        storage.read(_url(server, "/x"), 0, 10)
    storage.close()


def _redirect(source: str, target: str) -> CIMultiDict[str]:
    headers = CIMultiDict({"Range": "bytes=0-1", "X-Key": "secret", "Cookie": "a=b"})
    response = SimpleNamespace(headers={"Location": target})
    asyncio.run(
        check_redirect(None, SimpleNamespace(url=URL(source), headers=headers, response=response))  # type: ignore[arg-type]
    )
    return headers


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/",
        "https://localhost/x",
        "//169.254.169.254/latest",
        "http://10.1.2.3",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::10.1.2.3]/",
        "http://[2002:a01:203::]/",
        "http://[fe80::1]/",
        "http://2130706433/",
        "http://0/",
    ],
)
def test_public_server_cannot_redirect_to_private_address(target: str) -> None:
    with pytest.raises(StorageError, match="redirects to"):
        _redirect("https://8.8.8.8/a", target)


def test_redirect_to_another_server_loses_headers_of_user() -> None:
    assert set(_redirect("https://8.8.8.8/a", "https://9.9.9.9/a")) == {"Range"}
    assert set(_redirect("http://127.0.0.1:1/a", "http://127.0.0.1:2/a")) == {"Range"}
    assert set(_redirect("https://8.8.8.8/a", "/b")) == {"Range", "X-Key", "Cookie"}


class _Rebinding(CheckedResolver):
    """A resolver of names whose addresses change with each request."""

    def __init__(self, *addresses: str) -> None:
        super().__init__()
        self._loop: Any = SimpleNamespace(getaddrinfo=self._next_address)
        self._addresses = list(addresses)

    async def _next_address(self, _host: str, port: int, **_: Any) -> Any:
        addresses = self._addresses.pop(0).split()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]


def _redirect_params(source: str, target: str) -> Any:
    response = SimpleNamespace(headers={"Location": target})
    return SimpleNamespace(url=URL(source), headers=CIMultiDict[str](), response=response)


@pytest.mark.parametrize("addresses", ["8.8.8.8", "8.8.8.8 10.1.2.3"])
def test_redirect_is_judged_by_the_address_that_was_connected_to(addresses: str) -> None:
    """The name of the server is public for the connection, and private for whoever asks for it again."""

    async def follow() -> None:
        resolver = _Rebinding(addresses)
        await resolver.resolve("localhost", 80)
        await check_redirect(resolver, _redirect_params("http://localhost/a", "http://127.0.0.1/"))

    with pytest.raises(StorageError, match="redirects to"):
        asyncio.run(follow())


def test_connection_after_a_redirect_checks_the_address_again() -> None:
    async def follow() -> None:
        resolver = _Rebinding("8.8.8.8", "127.0.0.1", "127.0.0.1", "9.9.9.9")
        await resolver.resolve("public.invalid", 80)
        await resolver.resolve("other.invalid", 80)
        await check_redirect(resolver, _redirect_params("http://public.invalid/a", "http://target.invalid/"))
        with pytest.raises(InputError, match=r"redirects to target\.invalid"):
            await resolver.resolve("target.invalid", 80)
        await resolver.resolve("target.invalid", 80)
        assert resolver.are_public == {"public.invalid": True, "other.invalid": False, "target.invalid": True}

    asyncio.run(follow())


def test_session_resolves_names_for_each_connection() -> None:
    async def look() -> tuple[Any, bool]:
        async with await open_session() as session:
            connector: Any = session.connector
            return connector._resolver, connector.use_dns_cache

    resolver, is_cached = asyncio.run(look())
    assert (type(resolver), is_cached) == (CheckedResolver, False)


class _Session:
    """Stands for aiohttp's."""


async def turn(urls: list[str]) -> None:
    """Request these pages in one session."""
    session = _Session()
    for url in urls:
        await check_pages(session, None, SimpleNamespace(url=URL(url)))  # type: ignore[arg-type]


def test_ever_new_pages_of_one_list_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_limits, "MAX_LIST_PAGES", 50)
    first = [f"https://store.example/b?prefix={prefix}" for prefix in "ab"]
    later = [f"{url}&continuation-token={i}" for i in range(1, 50) for url in first]
    asyncio.run(turn([*first, *later, *first, *later]))  # two lists in turn, and both again
    with pytest.raises(StorageError, match="more than 50 pages"):
        asyncio.run(turn([*first, *later, f"{first[0]}&continuation-token=new"]))


def test_pages_without_end_are_refused() -> None:
    page = "https://store.example/b?list-type=2&continuation-token={}"
    asyncio.run(turn([page.format(i) for i in range(100)]))
    asyncio.run(turn(["https://store.example/b?list-type=2"] * 100))
    with pytest.raises(StorageError, match="the list of files has no end"):
        asyncio.run(turn([page.format(1)] * 100))
