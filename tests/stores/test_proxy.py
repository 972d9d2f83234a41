"""The proxy applies the faults that are set, and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from http.client import BadStatusLine, HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.stores.proxy import Fault, FaultProxy, start_proxy

BODY = bytes(range(256)) * 4096  # 1 MiB


class Store(BaseHTTPRequestHandler):
    """Answers GET with BODY, and PUT with what it received; records both."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, bytes]]

    def do_GET(self) -> None:
        self._answer(BODY)

    def do_HEAD(self) -> None:
        self._answer(BODY, with_body=False)

    def do_PUT(self) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            self._answer(b"".join(pieces))
        else:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes, *, with_body: bool = True) -> None:
        self.seen.append((self.command, self.headers["Host"], body))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None: ...


class StoreServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_client: object) -> None:
        """Suppress errors: the proxy cuts connections on purpose."""


@pytest.fixture
def store() -> Iterator[str]:
    Store.seen = []
    server = StoreServer(("127.0.0.1", 0), Store)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def proxy(store: str) -> Iterator[FaultProxy]:
    with FaultProxy(store) as fault_proxy:
        yield fault_proxy


def request(
    proxy: FaultProxy, method: str = "GET", path: str = "/a", body: bytes | None = None, **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)
    try:
        connection.request(method, path, body, headers={name.replace("_", "-"): headers[name] for name in headers})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_proxy_forwards_bodies_and_host_header_unchanged(proxy: FaultProxy) -> None:
    assert request(proxy)[1] == BODY
    assert request(proxy, "PUT", body=BODY[:1000], Host="bucket.example:1234")[1] == BODY[:1000]
    response, nothing = request(proxy, "HEAD")
    assert (response.headers["Content-Length"], nothing) == (str(len(BODY)), b"")
    assert [(method, host) for method, host, _ in Store.seen][1] == ("PUT", "bucket.example:1234")
    assert proxy.counts == (3, {"GET": 1, "HEAD": 1, "PUT": 1}, len(BODY) + 1000, 1000, 0)


def test_proxy_connection_serves_many_requests(proxy: FaultProxy) -> None:
    connection = HTTPConnection(urlsplit(proxy.url).netloc, timeout=20)
    for _ in range(3):
        connection.request("PUT", "/a", iter([b"one", b"two"]), encode_chunked=True)
        assert connection.getresponse().read() == b"onetwo"
        connection.request("PUT", "/a", b"three", headers={"Expect": "100-continue"})
        assert connection.getresponse().read() == b"three"
    connection.close()


def test_delay_applies_to_matching_requests_only(proxy: FaultProxy) -> None:
    proxy.set_faults(Fault(path="/slow", delay_seconds=0.3))
    start = time.monotonic()
    request(proxy, path="/quick")
    assert time.monotonic() - start < 0.3
    request(proxy, path="/slow")
    assert time.monotonic() - start >= 0.3
    assert proxy.counts.struck == 0


def test_status_replaces_response_of_selected_requests(proxy: FaultProxy) -> None:
    proxy.set_faults(Fault(status=503, headers=(("Retry-After", "7"),), body="busy", skip=1, times=2))
    found = [request(proxy, "PUT", body=b"x" * 100_000) for _ in range(4)]
    assert [response.status for response, _ in found] == [200, 503, 503, 200]
    assert (found[1][0].headers["Retry-After"], found[1][1]) == ("7", b"busy")
    assert len(Store.seen) == 2
    assert [status for *_, status in proxy.log] == [200, 503, 503, 200]


def test_share_selects_same_requests_in_any_order(store: str) -> None:
    def failed_requests(order: list[int]) -> set[int]:
        with FaultProxy(store, seed=3) as proxy:
            proxy.set_faults(Fault(status=500, share=0.25))
            return {i for i in order if request(proxy, "PUT", f"/{i}", b"x")[0].status == 500}

    forwards = failed_requests([*range(80)])
    assert forwards == failed_requests([*reversed(range(80))])
    assert 8 <= len(forwards) <= 34


def test_cut_closes_connection_before_store_after_store_and_in_body(proxy: FaultProxy) -> None:
    for cut, stored in (("request", 0), ("response", 1)):
        proxy.set_faults(Fault(cut=cut))
        Store.seen.clear()
        with pytest.raises((ConnectionError, BadStatusLine)):
            request(proxy, "PUT", body=b"x")
        assert len(Store.seen) == stored
    proxy.set_faults(Fault(cut="body", cut_after_bytes=5000))
    with pytest.raises((ConnectionError, HTTPException)) as caught:
        request(proxy)
    assert not isinstance(caught.value, IncompleteRead) or len(caught.value.partial) == 5000
    proxy.set_faults()
    assert request(proxy)[1] == BODY


def test_length_off_and_trim_bytes_change_content_length_and_body(proxy: FaultProxy) -> None:
    proxy.set_faults(Fault(length_off=10))
    with pytest.raises(IncompleteRead):
        request(proxy)
    proxy.set_faults(Fault(length_off=-10))
    assert request(proxy)[1] == BODY[:-10]
    proxy.set_faults(Fault(trim_bytes=10))
    assert request(proxy)[1] == BODY[:-10]


def test_date_off_seconds_shifts_date_header(proxy: FaultProxy) -> None:
    proxy.set_faults(Fault(date_off_seconds=3600))
    found = parsedate_to_datetime(request(proxy)[0].headers["Date"]).timestamp()
    assert 3500 < found - time.time() < 3700


def test_before_is_called_and_edit_changes_response(proxy: FaultProxy) -> None:
    counts: list[int] = []
    proxy.set_faults(
        Fault(before=lambda: counts.append(len(Store.seen)), skip=1), Fault(edit=lambda body: body[:7] * 2)
    )
    assert [request(proxy)[1] for _ in range(2)] == [BODY[:7] * 2] * 2
    assert counts == [1]


def test_go_offline_cuts_connections_until_seconds_pass(proxy: FaultProxy) -> None:
    proxy.go_offline(0.5)
    with pytest.raises((ConnectionError, BadStatusLine)):
        request(proxy)
    time.sleep(0.5)
    assert request(proxy)[1] == BODY
    proxy.go_offline(0.5, hang=True)
    start = time.monotonic()
    assert request(proxy)[1] == BODY
    assert time.monotonic() - start >= 0.4


def test_proxy_process_takes_faults_and_returns_counts(store: str) -> None:
    with start_proxy(store, Fault(method="GET", status=429, times=1, headers=(("Retry-After", "1"),))) as proxy:
        with FaultProxy(proxy.url) as front:  # only for its `url`
            assert [request(front)[0].status for _ in range(2)] == [429, 200]
        assert proxy.counts == (2, {"GET": 2}, len(BODY), 0, 1)
        proxy.reset_counts()
        assert proxy.counts.requests == 0
