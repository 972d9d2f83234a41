"""Stores that send more than was requested, lists without end, and redirects to addresses of this machine."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.stores.servers import AZURE_ACCOUNT, AZURE_KEY, Store, in_use, s3_settings
from wdsctl.core.errors import PermissionDenied, WdsctlError
from wdsctl.core.storage import answer_limits, http_client, hub_ranges
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.remote import FsspecStorage
from wdsctl.core.storage.remote_errors import RetryPolicy

MEBIBYTE = bytes(1 << 20)
Respond = Callable[["_Handler"], None]


class _Server(http.server.ThreadingHTTPServer):
    respond: Respond
    sent_mebibytes = 0
    requests: list[str]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.server.respond(self)

    do_HEAD = do_GET  # noqa: N815 - its name in the standard library

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass

    def start(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"ETag": '"1"', **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def send_json(self, value: Any) -> None:
        text = json.dumps(value).encode()
        self.start(Content_Type="application/json", Content_Length=str(len(text)))
        self.wfile.write(text)


def _settings(kind: str, endpoint: str) -> dict[str, str]:
    if kind == "s3":
        return s3_settings(endpoint)
    if kind == "gs":
        return {"STORAGE_EMULATOR_HOST": endpoint, "FSSPEC_GS_TOKEN": "anon", "FSSPEC_GCS_TOKEN": "anon"}
    if kind == "hf":
        return {"HF_ENDPOINT": endpoint, "FSSPEC_HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_TELEMETRY": "1"}
    account = f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY}"
    return {"AZURE_STORAGE_CONNECTION_STRING": f"{account};BlobEndpoint={endpoint}/{AZURE_ACCOUNT};"}


_ROOTS = {"hf": "hf://datasets/tests/data"}


@pytest.fixture(params=["s3", "gs", "az", "hf"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[_Server, str]]:
    """A server, and the URL of a bucket in it."""
    kind = request.param
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.requests = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        endpoint, url = f"http://127.0.0.1:{server.server_port}", _ROOTS.get(kind, f"{kind}://bucket")
        with in_use(Store(kind, endpoint, url, _settings(kind, endpoint))):
            yield server, url
        server.shutdown()
        thread.join()


def _answer_hub(handler: _Handler) -> bool:
    """Answer a request of the Hub's interface for a repository with the file `x`."""
    if not handler.path.startswith("/api/"):
        return False
    has_files = "/paths-info/" in handler.path or "/tree/" in handler.path
    file = {"type": "file", "oid": "1" * 40, "size": 10, "path": "x"}
    repository = {"id": "tests/data", "sha": "c" * 40, "private": False, "tags": [], "siblings": []}
    handler.send_json([file] if has_files else repository)
    return True


def _send_without_end(handler: _Handler) -> None:
    if _answer_hub(handler):
        return
    if handler.path.endswith("/storageLayout") or ("alt=media" not in handler.path and "/storage/v1/" in handler.path):
        handler.send_json({"name": "bucket/x", "generation": "1", "size": "10"})
        return
    handler.start(206 if "Range" in handler.headers or "x-ms-range" in handler.headers else 200)
    try:
        while handler.server.sent_mebibytes < 500:
            handler.server.sent_mebibytes += 1
            handler.wfile.write(MEBIBYTE)
    except OSError:
        return


_ONCE = RetryPolicy(first_pause_seconds=0, max_retry_seconds=-1)


def test_range_ends_at_its_size(store: tuple[_Server, str]) -> None:
    server, url = store
    server.respond = _send_without_end
    storage = FsspecStorage(url, retry_policy=_ONCE)
    with pytest.raises(WdsctlError, match="instead of 10"):
        storage.read(f"{url}/x", 0, 10)
    storage.close()
    assert server.requests
    assert server.sent_mebibytes < 100


@pytest.mark.parametrize("store", ["s3", "gs", "az"], indirect=True)
def test_whole_object_ends_at_limit(store: tuple[_Server, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_WHOLE_BYTES", 4 << 20)
    server, url = store
    server.respond = _send_without_end
    with pytest.raises(WdsctlError):
        ObjectStore(url, retry_policy=_ONCE).get(f"{url}/x")
    assert server.sent_mebibytes < 100


def _next_page(handler: _Handler, token: str) -> None:
    """Answer a request for a page of a list with a file, and name the next page."""
    if handler.path.startswith("/api/") and "/tree/" not in handler.path:
        _answer_hub(handler)
        return
    headers: dict[str, Any] = {"Content_Type": "application/xml"}
    if "/storage/v1/" in handler.path:
        items = [{"kind": "storage#object", "name": "x", "size": "1", "generation": "1"}]
        handler.send_json({"kind": "storage#objects", "items": items, "nextPageToken": token})
        return
    if handler.path.startswith("/api/"):
        link = f"http://{handler.headers['Host']}{handler.path.partition('&cursor')[0]}&cursor={token}"
        headers = {"Content_Type": "application/json", "Link": f'<{link}>; rel="next"'}
        text = json.dumps([{"type": "file", "oid": "1" * 40, "size": 10, "path": "x"}])
    elif "comp=list" in handler.path:
        text = (
            "<EnumerationResults><Blobs><Blob><Name>x</Name><Properties><Content-Length>1</Content-Length>"
            f"<BlobType>BlockBlob</BlobType></Properties></Blob></Blobs><NextMarker>{token}</NextMarker></EnumerationResults>"
        )
    else:
        text = (
            f"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
            "<Contents><Key>x</Key><Size>1</Size></Contents></ListBucketResult>"
        )
    handler.start(Content_Length=str(len(text)), **headers)
    handler.wfile.write(text.encode())


def test_list_whose_pages_do_not_end_is_refused(store: tuple[_Server, str]) -> None:
    server, url = store
    server.respond = lambda handler: _next_page(handler, "same")
    with pytest.raises(WdsctlError, match=r"the list of files has no end|the same next token"):
        FsspecStorage(url, retry_policy=_ONCE).files()
    assert len(server.requests) < 100


def test_list_with_ever_new_pages_is_refused(store: tuple[_Server, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_limits, "MAX_LIST_PAGES", 30)
    server, url = store
    server.respond = lambda handler: _next_page(handler, str(len(server.requests)))
    with pytest.raises(WdsctlError, match="the list of files has no end"):
        FsspecStorage(url, retry_policy=_ONCE).files()
    assert len(server.requests) < 100


@pytest.mark.parametrize("store", ["s3", "gs", "hf"], indirect=True)
def test_store_cannot_redirect_to_private_address(store: tuple[_Server, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of the server counts as public here."""
    server, url = store

    async def is_public(host: str, _quantifier: object) -> bool:
        return host == "127.0.0.1"

    def respond(handler: _Handler) -> None:
        if not _answer_hub(handler):
            handler.start(307, Location=f"http://localhost:{server.server_port}/secret", Content_Length="0")

    monkeypatch.setattr(http_client, "_is_public", is_public)
    monkeypatch.setattr(hub_ranges, "_is_connection_public", lambda response: response.url.host == "127.0.0.1")
    server.respond = respond
    storage = FsspecStorage(url, retry_policy=_ONCE)
    with pytest.raises(WdsctlError, match="redirects to localhost"):
        storage.read(f"{url}/x", 0, 10)
    storage.close()
    assert "/secret" not in server.requests


@pytest.mark.parametrize("store", ["hf"], indirect=True)
def test_hub_may_redirect_to_another_server_which_gets_no_token(
    store: tuple[_Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    server, url = store
    tokens: list[tuple[str, str | None]] = []

    def respond(handler: _Handler) -> None:
        if _answer_hub(handler):
            return
        tokens.append((handler.path, handler.headers.get("Authorization")))
        if handler.path == "/cdn":
            handler.start(206, Content_Length="10")
            handler.wfile.write(b"0123456789")
        else:
            handler.start(302, Location=f"http://localhost:{server.server_port}/cdn", Content_Length="0")

    server.respond = respond
    storage = FsspecStorage(url, retry_policy=_ONCE)
    assert storage.read(f"{url}/x", 0, 10) == b"0123456789"
    storage.close()
    assert [token for path, token in tokens if path == "/cdn"] == [None]
    assert [token for path, token in tokens if path != "/cdn"] == ["Bearer hf_secret"]


@pytest.mark.parametrize("store", ["hf"], indirect=True)
def test_error_of_hub_is_that_of_its_driver(store: tuple[_Server, str]) -> None:
    server, url = store

    def respond(handler: _Handler) -> None:
        if not _answer_hub(handler):
            handler.start(401, X_Error_Code="GatedRepo", Content_Length="0")

    server.respond = respond
    with pytest.raises(PermissionDenied):
        FsspecStorage(url, retry_policy=_ONCE).read(f"{url}/x", 0, 10)


@pytest.mark.parametrize("store", ["az", "hf"], indirect=True)
def test_page_of_list_ends_at_limit(store: tuple[_Server, str]) -> None:
    server, url = store

    def respond(handler: _Handler) -> None:
        if handler.path.startswith("/api/") and "/tree/" not in handler.path:
            _answer_hub(handler)
            return
        handler.start(Content_Type="application/xml")
        with suppress(OSError):
            while handler.server.sent_mebibytes < 500:
                handler.server.sent_mebibytes += 1
                handler.wfile.write(MEBIBYTE)

    server.respond = respond
    with pytest.raises(WdsctlError):
        FsspecStorage(url, retry_policy=_ONCE).files()
    assert server.requests
    assert server.sent_mebibytes < 400  # several tries of at most 64


@pytest.mark.parametrize("store", ["hf"], indirect=True)
def test_no_compressed_page_of_hub_is_unpacked(store: tuple[_Server, str]) -> None:
    """64 MiB of zeros may be in 64 KiB."""
    server, url = store
    accepted: list[str | None] = []

    def respond(handler: _Handler) -> None:
        if "/tree/" not in handler.path:
            _answer_hub(handler)
            return
        accepted.append(handler.headers["Accept-Encoding"])
        packed = gzip.compress(b"[]")
        handler.start(Content_Type="application/json", Content_Encoding="gzip", Content_Length=str(len(packed)))
        handler.wfile.write(packed)

    server.respond = respond
    with pytest.raises(WdsctlError):
        FsspecStorage(url, retry_policy=_ONCE).files()
    assert set(accepted) == {"identity"}


@pytest.mark.parametrize("store", ["az"], indirect=True)
def test_redirects_of_azure_are_not_followed(store: tuple[_Server, str]) -> None:
    server, url = store
    server.respond = lambda handler: handler.start(307, Location="/secret", Content_Length="0")
    with pytest.raises(WdsctlError):
        FsspecStorage(url, retry_policy=_ONCE).files()
    with pytest.raises(WdsctlError):
        FsspecStorage(url, retry_policy=_ONCE).read(f"{url}/x", 0, 10)
    with pytest.raises(WdsctlError):
        ObjectStore(url, retry_policy=_ONCE).get(f"{url}/x")
    assert server.requests
    assert "/secret" not in server.requests


@pytest.mark.parametrize("store", ["hf"], indirect=True)
def test_hub_cannot_redirect_list_to_private_address(
    store: tuple[_Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = store

    def respond(handler: _Handler) -> None:
        if "/tree/" in handler.path:
            handler.start(307, Location=f"http://localhost:{server.server_port}/secret", Content_Length="0")
        else:
            _answer_hub(handler)

    monkeypatch.setattr(hub_ranges, "_is_connection_public", lambda response: response.url.host == "127.0.0.1")
    server.respond = respond
    with pytest.raises(WdsctlError, match="redirects to localhost"):
        FsspecStorage(url, retry_policy=_ONCE).files()
    assert "/secret" not in server.requests
