"""An HTTP proxy in front of a store that injects faults: slow, cut, refused, wrong, replaced, offline.

`FaultProxy` runs in a thread of the test. `start_proxy` runs it as a process of its own, for benchmarks and for tests
whose client needs this interpreter; faults and counts are then exchanged over the proxy's own address. Everything else
passes through byte for byte. The Host header stays the client's, since an S3 signature covers it.

Faults strike requests deterministically. `skip` and `times` count the matching requests in the order of arrival;
`share` hashes the seed, the request and the number of its repeats, so that the same requests are struck in any order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from hashlib import blake2b
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

CHUNK_BYTES = 1 << 18
MAX_HEAD_BYTES = 1 << 16
CONTROL_PATH = "/-fault-proxy-"  # of the proxy itself: GET returns the counts, PUT takes faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A change to some requests. Delays of several faults add up; of other effects, only the first fault's apply.

    Selection: `method` ("" for all), `path` (a pattern searched in path and query), after the first `skip` of them, at
    most `times`, and a `share` of those.

    Effect: `delay_seconds` before the store sees the request. `status` with `headers` and `body` instead of the store's
    response. `cut`: "request" closes the connection before the store sees the request, "response" after the store has
    done it, "body" after `cut_after_bytes` of the response's body (half of it by default). `length_off` is added to
    Content-Length, and the connection ends with the body. `trim_bytes` are missing at the end of the body, and
    Content-Length says so. `date_off_seconds` moves the Date header. `before` is called before the store sees the
    request, and `edit` changes the response's body; both work in a proxy in the same process only.
    """

    method: str = ""
    path: str = ""
    skip: int = 0
    times: int | None = None
    share: float = 1.0
    delay_seconds: float = 0.0
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    cut: str = ""
    cut_after_bytes: int | None = None
    length_off: int = 0
    trim_bytes: int = 0
    date_off_seconds: float = 0.0
    before: Callable[[], None] | None = None
    edit: Callable[[bytes], bytes] | None = None


class Counts(NamedTuple):
    """The traffic of a proxy. `requests`: all, also those that the store never saw. `sent`: bytes of bodies to the
    client; `received`: bytes of bodies from it; `struck`: requests that a fault other than a delay changed.
    """

    requests: int
    by_method: dict[str, int]
    sent: int
    received: int
    struck: int


class Request(NamedTuple):
    method: str
    target: str  # path and query, as sent
    headers: dict[str, str]  # by name in lower case
    head: bytes  # request line and headers, as sent


class FaultProxy:
    """A proxy on a loopback port. `url` is its address. Faults may be set at any time, from any thread.

    `log` lists (method, path and query, Range header, status) of every request if `keep_log`; status 0: cut.
    """

    def __init__(self, upstream: str, *, seed: int = 0, port: int = 0, keep_log: bool = True) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._seed = seed
        self._port = port
        self._faults: tuple[Fault, ...] = ()
        self._matched: Counter[int] = Counter()
        self._struck: Counter[int] = Counter()
        self._repeats: Counter[str] = Counter()
        self._offline_until = 0.0
        self._hang = False
        self._keep_log = keep_log
        self._writers: set[asyncio.StreamWriter] = set()
        self._lock = threading.Lock()
        self.log: list[tuple[str, str, str, int]] = []
        self.reset_counts()

    def __enter__(self) -> FaultProxy:
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="fault-proxy", daemon=True)
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def set_faults(self, *faults: Fault) -> None:
        """Replace all faults; none without arguments. Their counting starts again."""
        with self._lock:
            self._faults = faults
            for counter in (self._matched, self._struck, self._repeats):
                counter.clear()

    def go_offline(self, seconds: float = float("inf"), *, hang: bool = False) -> None:
        """Cut every connection and refuse new ones for some seconds, or until `go_online`.

        `hang`: accept them and never answer, as a network that drops packets.
        """
        self._hang = hang
        self._offline_until = time.monotonic() + seconds
        self._loop.call_soon_threadsafe(self._online.clear)
        if not hang:
            self._loop.call_soon_threadsafe(self._cut_all)

    def go_online(self) -> None:
        self._offline_until = 0.0
        self._loop.call_soon_threadsafe(self._online.set)

    @property
    def is_offline(self) -> bool:
        return time.monotonic() < self._offline_until

    @property
    def counts(self) -> Counts:
        with self._lock:
            methods = dict(sorted(self._methods.items()))
            return Counts(sum(methods.values()), methods, self._sent, self._received, self._changed)

    def reset_counts(self) -> None:
        with self._lock:
            self._methods: Counter[str] = Counter()
            self._sent = self._received = self._changed = 0
            self.log.clear()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._online = asyncio.Event(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=MAX_HEAD_BYTES)
        self.port: int = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._started.set()
        await self._stop.wait()
        server.close()
        self._cut_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _cut_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_offline and not self._hang:
            writer.transport.abort()
            return
        self._writers.add(writer)
        connection = _Connection(self._upstream, reader, writer)
        try:
            while await self._serve_request(connection):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client, the store or the proxy has closed the connection; tests check what the client sees
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            connection.close_upstream()

    async def _serve_request(self, connection: _Connection) -> bool:
        """Serve one request. Returns whether the connection can serve another."""
        head = await connection.read_head()
        if head is None:
            return False
        request = _parse_request(head)
        if request.target.startswith(CONTROL_PATH):
            return await self._serve_control(connection, request)
        if self.is_offline and self._hang:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._online.wait(), self._offline_until - time.monotonic())
        faults = self._faults_for(request)
        delay = sum(each.delay_seconds for each in faults)
        if delay:
            await asyncio.sleep(delay)
        for fault in faults:
            if fault.before is not None:
                await asyncio.to_thread(fault.before)
        fault = next((each for each in faults if _changes(each)), Fault())
        if fault.cut == "request":
            self._note(request, 0)
            connection.abort()
            return False
        if fault.status:
            # A client that has sent its body reads the response; one that is still sending may miss it.
            self._count_received(await connection.skip_body(request))
            self._note(request, fault.status)
            self._count_sent(await connection.send_own(request, fault))
            return "close" not in request.headers.get("connection", "").lower()
        received, status, response_head, length = await connection.forward(request)
        self._count_received(received)
        if fault.cut == "response":
            self._note(request, 0)
            connection.abort()
            return False
        self._note(request, status)
        return await connection.send_response(request, status, response_head, length, fault, self._count_sent)

    def _faults_for(self, request: Request) -> list[Fault]:
        """Return the faults that strike a request, and count it."""
        with self._lock:
            self._methods[request.method] += 1
            identity = f"{request.method} {request.target} {request.headers.get('range', '')}"
            repeat = self._repeats[identity]
            self._repeats[identity] += 1
            found = []
            for i, fault in enumerate(self._faults):
                if fault.method not in ("", request.method) or not re.search(fault.path, request.target):
                    continue
                self._matched[i] += 1
                if self._matched[i] <= fault.skip or (fault.times is not None and self._struck[i] >= fault.times):
                    continue
                if fault.share < 1 and _uniform(f"{self._seed} {i} {repeat} {identity}") >= fault.share:
                    continue
                self._struck[i] += 1
                found.append(fault)
            self._changed += any(map(_changes, found))
            return found

    def _note(self, request: Request, status: int) -> None:
        if self._keep_log:
            self.log.append((request.method, request.target, request.headers.get("range", ""), status))

    def _count_sent(self, count: int) -> None:
        self._sent += count

    def _count_received(self, count: int) -> None:
        self._received += count

    async def _serve_control(self, connection: _Connection, request: Request) -> bool:
        body = await connection.read_body(request)
        if request.method == "PUT":
            order = json.loads(body)
            if "faults" in order:
                self.set_faults(*(_fault_from_json(each) for each in order["faults"]))
            if "offline_seconds" in order:
                self.go_offline(order["offline_seconds"], hang=order.get("hang", False))
            if order.get("reset"):
                self.reset_counts()
        await connection.send_own(request, Fault(status=200, body=json.dumps(self.counts._asdict())))
        return True


class _Connection:
    """A client's connection, and the one to the store that answers it."""

    def __init__(self, upstream: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address = upstream
        self._reader, self._writer = reader, writer
        self._store: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def abort(self) -> None:
        self._writer.transport.abort()

    def close_upstream(self) -> None:
        if self._store is not None:
            self._store[1].transport.abort()
            self._store = None

    async def read_head(self) -> bytes | None:
        """Return the next request's head; None if the client has closed the connection."""
        try:
            return await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None

    async def read_body(self, request: Request) -> bytes:
        pieces = [piece async for piece in _pieces(self._reader, request.headers, is_request=True)]
        return b"".join(pieces)

    async def skip_body(self, request: Request) -> int:
        """Read and drop a request's body; returns its length in bytes."""
        await self._continue(request)
        return sum([len(piece) async for piece in _pieces(self._reader, request.headers, is_request=True)])

    async def _continue(self, request: Request) -> None:
        if "100-continue" in request.headers.get("expect", "").lower():
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await self._writer.drain()

    async def forward(self, request: Request) -> tuple[int, int, bytes, dict[str, str]]:
        """Send a request to the store. Returns (bytes of its body, status, head, headers of the response)."""
        if self._store is None or self._store[0].at_eof():
            self.close_upstream()
            self._store = await asyncio.open_connection(*self._address, limit=MAX_HEAD_BYTES)
        reader, writer = self._store
        # The client expects 100-continue before its body. The proxy sends it, and does not expect it from the store.
        writer.write(re.sub(rb"(?i)\r\nexpect:[^\r]*", b"", request.head))
        await self._continue(request)
        count = 0
        with suppress(ConnectionError):  # a store that refuses early closes; its response is there to read
            async for piece in _pieces(self._reader, request.headers, is_request=True):
                count += len(piece)
                writer.write(piece)
                await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        while head.split(b" ", 2)[1].startswith(b"1"):
            head = await reader.readuntil(b"\r\n\r\n")
        return count, int(head.split(b" ", 2)[1]), head, _parse_headers(head)

    async def send_response(
        self,
        request: Request,
        status: int,
        head: bytes,
        headers: dict[str, str],
        fault: Fault,
        on_sent: Callable[[int], None],
    ) -> bool:
        """Send the store's response, changed by a fault. Returns whether the connection can serve another request."""
        if self._store is None:
            return False
        has_body = request.method != "HEAD" and status not in (204, 304)
        pieces = _pieces(self._store[0], headers, is_request=False) if has_body else _none()
        keeps_open = "close" not in f"{headers.get('connection', '')} {request.headers.get('connection', '')}".lower()
        if has_body and not ("content-length" in headers or "transfer-encoding" in headers):
            keeps_open = False  # the body ends with the connection
        if head.startswith(b"HTTP/1.0"):
            keeps_open = False
        if fault.edit is not None and has_body:
            whole = fault.edit(b"".join([piece async for piece in pieces]))
            head = _set_header(_set_header(head, "Transfer-Encoding", None), "Content-Length", str(len(whole)))
            headers, pieces = {**headers, "content-length": str(len(whole))}, _one(whole)
        length = int(headers.get("content-length", 0))
        limit = length
        if fault.date_off_seconds:
            shifted = datetime.now(timezone.utc) + timedelta(seconds=fault.date_off_seconds)
            head = _set_header(head, "Date", format_datetime(shifted, usegmt=True))
        if fault.length_off:
            head = _set_header(head, "Content-Length", str(length + fault.length_off))
            keeps_open = False
        if fault.trim_bytes and has_body:
            limit = max(0, length - fault.trim_bytes)
            head = _set_header(head, "Content-Length", str(limit))
            keeps_open = False
        if fault.cut == "body":
            limit = length // 2 if fault.cut_after_bytes is None else fault.cut_after_bytes
        self._writer.write(head)
        sent = 0
        async for piece in pieces:
            if (fault.cut == "body" or fault.trim_bytes) and sent + len(piece) >= limit:
                self._writer.write(piece[: limit - sent])
                on_sent(limit - sent)
                await self._writer.drain()
                keeps_open = False
                break
            self._writer.write(piece)
            on_sent(len(piece))
            sent += len(piece)
            await self._writer.drain()
        if not keeps_open:
            await self._writer.drain()
            self._writer.close()  # sends what is buffered, unlike abort
            with suppress(ConnectionError):
                await self._writer.wait_closed()
            self.close_upstream()
        return keeps_open

    async def send_own(self, request: Request, fault: Fault) -> int:
        """Send the proxy's own response; returns the length of its body in bytes."""
        body = b"" if request.method == "HEAD" else fault.body.encode()
        options = "".join(f"{name}: {value}\r\n" for name, value in fault.headers)
        phrase = HTTPStatus(fault.status).phrase
        head = f"HTTP/1.1 {fault.status} {phrase}\r\nContent-Length: {len(body)}\r\n{options}\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()
        return len(body)


async def _none() -> Any:
    return
    yield


async def _one(data: bytes) -> Any:
    yield data


async def _pieces(reader: asyncio.StreamReader, headers: dict[str, str], *, is_request: bool) -> Any:
    """Yield the pieces of a body as they arrive, with the chunk sizes if it is chunked."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            yield line
            if not size:
                break
            yield await reader.readexactly(size + 2)
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            yield line
        yield line
        return
    if "content-length" not in headers and not is_request:
        while piece := await reader.read(CHUNK_BYTES):
            yield piece
        return
    rest = int(headers.get("content-length", 0))
    while rest:
        piece = await reader.read(min(rest, CHUNK_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", rest)
        rest -= len(piece)
        yield piece


def _parse_request(head: bytes) -> Request:
    method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    return Request(method, target, _parse_headers(head), head)


def _parse_headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def _set_header(head: bytes, name: str, value: str | None) -> bytes:
    """Replace a header, or remove it."""
    without = re.sub(rb"(?i)\r\n" + name.encode() + rb":[^\r]*", b"", head)
    return without if value is None else without[:-2] + f"{name}: {value}\r\n\r\n".encode()


def _changes(fault: Fault) -> bool:
    """Return whether a fault does more than delay."""
    return replace(fault, delay_seconds=0, before=None) != Fault(
        method=fault.method, path=fault.path, skip=fault.skip, times=fault.times, share=fault.share
    )


def _uniform(text: str) -> float:
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "little") / (1 << 56)


def _fault_from_json(options: dict[str, Any]) -> Fault:
    return Fault(**{**options, "headers": tuple((name, value) for name, value in options.get("headers", ()))})


class ProxyProcess:
    """Controls a proxy in another process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def set_faults(self, *faults: Fault) -> None:
        plain = [{each.name: getattr(fault, each.name) for each in fields(Fault)} for fault in faults]
        for each in plain:
            if each.pop("before") is not None or each.pop("edit") is not None:
                raise ValueError("`before` and `edit` work in a proxy in the same process only")
        self._order({"faults": plain})

    def go_offline(self, seconds: float, *, hang: bool = False) -> None:
        self._order({"offline_seconds": seconds, "hang": hang})

    @property
    def counts(self) -> Counts:
        return self._order(None)

    def reset_counts(self) -> None:
        self._order({"reset": True})

    def _order(self, order: dict[str, Any] | None) -> Counts:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        try:
            if order is None:
                connection.request("GET", CONTROL_PATH)
            else:
                connection.request("PUT", CONTROL_PATH, json.dumps(order))
            return Counts(**json.loads(connection.getresponse().read()))
        finally:
            connection.close()


@contextmanager
def start_proxy(upstream: str, *faults: Fault, seed: int = 0) -> Iterator[ProxyProcess]:
    """Run a proxy in another process while the context lasts."""
    command = [sys.executable, "-m", "tests.stores.proxy", upstream, "--seed", str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            proxy = ProxyProcess((process.stdout.readline() if process.stdout else "").strip())
            proxy.set_faults(*faults)
            yield proxy
        finally:
            process.communicate()  # closing its input ends the proxy, even if this process is killed


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stores.proxy", description=__doc__)
    parser.add_argument("upstream", help="the store: http://127.0.0.1:9000")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--port", type=int, default=0, help="the port to listen on; any free one by default")
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS", help="delay every request")
    options = parser.parse_args(arguments)
    with FaultProxy(options.upstream, seed=options.seed, port=options.port, keep_log=False) as proxy:
        proxy.set_faults(*([Fault(delay_seconds=options.delay)] if options.delay else []))
        sys.stdout.write(f"{proxy.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stderr.write(f"{json.dumps(proxy.counts._asdict())}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
