"""Web servers that send too much, too slowly, packed, or redirects to private addresses."""

from __future__ import annotations

import asyncio
import gzip
import http.server
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from multidict import CIMultiDict
from yarl import URL

from wdsctl.core.errors import StorageError, WdsctlError
from wdsctl.core.storage import http_client
from wdsctl.core.storage.http_client import check_redirect
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.open import storage_for

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


def _redirect(source: str, target: str) -> CIMultiDict[str]:
    headers = CIMultiDict({"Range": "bytes=0-1", "X-Key": "secret", "Cookie": "a=b"})
    response = SimpleNamespace(headers={"Location": target})
    asyncio.run(
        check_redirect(None, None, SimpleNamespace(url=URL(source), headers=headers, response=response))  # type: ignore[arg-type]
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
