"""A store in a process: serves the files of a folder over HTTP as S3 does, each request after a delay.

    python -m benchmarks.slow_store FOLDER

It writes its address in a line, and ends with its input. Each folder in FOLDER is a bucket. The kernel sends the bytes
of a file, so that the store takes little of the processors that it shares with the loader. It takes any signature.

`SlowStore` has orders for it: another delay, requests that are late, and counts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

CONTROL_PATH = "/-store-"  # GET returns the counts, PUT takes delays
_PIECE_BYTES = 1 << 20


class Delays(NamedTuple):
    """Seconds before each answer, and before that of a share of the requests."""

    usual: float = 0.0
    late: float = 0.0
    late_share: float = 0.0


class StoreCounts(NamedTuple):
    """Since the last reset. `requests`: for objects and their facts. `gets`: for bytes. `sent`: bytes of objects.

    `trips`: of the requests that were answered, how many were sent one after the answer to the other at most.
    """

    requests: int
    gets: int
    sent: int
    late: int
    trips: int
    cpu_seconds: float  # since the store has started


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.lock = threading.Lock()
        self.delays = Delays()
        self.repeats: Counter[str] = Counter()
        self.tags: dict[str, tuple[int, str]] = {}
        self.reset()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone, or has cancelled a request, is no error of the store."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def reset(self) -> None:
        self.requests = self.gets = self.sent = self.late = self.trips = 0
        self.counted_from = object()  # requests of the run before, which may still wait, do not count

    def counts(self) -> StoreCounts:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return StoreCounts(self.requests, self.gets, self.sent, self.late, self.trips, used.ru_utime + used.ru_stime)

    def wait_before(self, request: str) -> None:
        """Wait before an answer. Which ones are late depends on the request, and on how often it has come."""
        with self.lock:
            self.requests += 1
            repeat = self.repeats[request]
            self.repeats[request] += 1
            drawn = int.from_bytes(hashlib.blake2b(f"{repeat} {request}".encode(), digest_size=7).digest(), "little")
            is_late = drawn < self.delays.late_share * (1 << 56)
            self.late += is_late
            seconds = self.delays.late if is_late else self.delays.usual
            trip, counted_from = self.trips + 1, self.counted_from
        time.sleep(seconds)
        with self.lock:
            if counted_from is self.counted_from:
                self.trips = max(self.trips, trip)

    def count_sent(self, size: int) -> None:
        with self.lock:
            self.gets += 1
            self.sent += size

    def tag_of(self, path: Path) -> str:
        """The ETag: the MD5 of a small file; of a large one, of its size and time, as of an upload in parts."""
        facts = path.stat()
        known = self.tags.get(str(path))
        if known is None or known[0] != facts.st_mtime_ns:
            is_small = facts.st_size < _PIECE_BYTES
            content = path.read_bytes() if is_small else f"{facts.st_size} {facts.st_mtime_ns}".encode()
            tag = hashlib.md5(content, usedforsecurity=False).hexdigest()
            known = self.tags[str(path)] = facts.st_mtime_ns, tag if is_small else f"{tag}-2"
        return f'"{known[1]}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 0
    server: _Server

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        if target.path == CONTROL_PATH:
            self._answer(200, json.dumps(self.server.counts()._asdict()).encode())
            return
        self._wait()
        query = parse_qs(target.query, keep_blank_values=True)
        if "list-type" in query:
            self._answer(200, self._listing(target.path, query))
            return
        if "uploads" in query:
            self._answer(200, b"<ListMultipartUploadsResult></ListMultipartUploadsResult>")
            return
        path = self._file()
        if path is not None:
            self._send_file(path)

    def do_HEAD(self) -> None:
        self._wait()
        path = self._file()
        if path is not None:
            self._head(200, path.stat().st_size, path)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if urlsplit(self.path).path == CONTROL_PATH:
            with self.server.lock:
                self.server.delays = Delays(**json.loads(body))
                self.server.reset()
            self._answer(200, b"")
            return
        self._wait()
        path = self._path()
        with self.server.lock:
            etag = self.headers.get("If-Match")
            is_refused = self.headers.get("If-None-Match") == "*" and path.exists()
            if etag is not None:
                is_refused = not path.exists() or self.server.tag_of(path) != etag
            if not is_refused:
                path.parent.mkdir(parents=True, exist_ok=True)
                draft = path.with_name(f"{path.name}.draft")
                draft.write_bytes(body)
                draft.replace(path)
        if is_refused:
            self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self._answer(200, b"", {"ETag": self.server.tag_of(path)})

    def do_DELETE(self) -> None:
        self._wait()
        self._path().unlink(missing_ok=True)
        self._answer(204, b"")

    def log_message(self, *_: object) -> None:
        pass

    def _wait(self) -> None:
        self.server.wait_before(f"{self.command} {self.path} {self.headers.get('Range', '')}")

    def _path(self) -> Path:
        return self.server.folder / unquote(urlsplit(self.path).path).lstrip("/")

    def _file(self) -> Path | None:
        path = self._path()
        if path.is_file():
            return path
        self._answer(404, b"" if self.command == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>")
        return None

    def _send_file(self, path: Path) -> None:
        size = path.stat().st_size
        start, stop, status = 0, size, 200
        if byte_range := self.headers.get("Range", "").removeprefix("bytes="):
            first, _, last = byte_range.partition("-")
            start, stop, status = int(first), min(size, int(last) + 1) if last else size, 206
            if start >= size:
                self._answer(416, b"<Error><Code>InvalidRange</Code></Error>")
                return
        extra = {"Content-Range": f"bytes {start}-{stop - 1}/{size}"} if status == 206 else {}
        self._head(status, stop - start, path, extra)
        self.server.count_sent(stop - start)
        with open(path, "rb") as file:
            while start < stop:
                sent = os.sendfile(self.connection.fileno(), file.fileno(), start, min(_PIECE_BYTES, stop - start))
                if not sent:
                    raise ConnectionError("the file has become shorter")
                start += sent

    def _head(self, status: int, size: int, path: Path, extra: dict[str, str] | None = None) -> None:
        self._answer(
            status,
            None,
            {
                "Content-Length": str(size),
                "Content-Type": "binary/octet-stream",
                "ETag": self.server.tag_of(path),
                "Last-Modified": formatdate(path.stat().st_mtime, usegmt=True),
                "Accept-Ranges": "bytes",
                **(extra or {}),
            },
        )

    def _answer(self, status: int, body: bytes | None, headers: dict[str, str] | None = None) -> None:
        """Send a status, headers and a body; None: the caller sends it, or there is none."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:
            self.connection.sendall(body)

    def _listing(self, target: str, query: dict[str, list[str]]) -> bytes:
        bucket = unquote(target).strip("/")
        root = self.server.folder / bucket
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        files, folders = [], set()
        for path in sorted(each for each in root.rglob("*") if each.is_file()):
            key = path.relative_to(root).as_posix()
            if not key.startswith(prefix):
                continue
            inner, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if found:
                folders.add(f"{prefix}{inner}{delimiter}")
            else:
                files.append((key, path))
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{path.stat().st_size}</Size>"
            f"<ETag>{escape(self.server.tag_of(path))}</ETag><StorageClass>STANDARD</StorageClass>"
            f"<LastModified>{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(path.stat().st_mtime))}"
            "</LastModified></Contents>"
            for key, path in files
        )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)
        )
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
            f"<Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(files) + len(folders)}"
            f"</KeyCount><MaxKeys>1000000</MaxKeys><IsTruncated>false</IsTruncated>{contents}{common}"
            "</ListBucketResult>"
        ).encode()


class SlowStore:
    """A running store. `environment`: what drivers of S3 read."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "of-nobody-and-for-nothing",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "S3_ENDPOINT_URL": self.url,  # for Mosaic Streaming
            "AWS_ALLOW_HTTP": "true",  # for LitData
        }

    def set_delays(self, delays: Delays) -> None:
        """Set the delays of later requests, and count from 0."""
        self._order("PUT", json.dumps(delays._asdict()))

    @property
    def counts(self) -> StoreCounts:
        return StoreCounts(**json.loads(self._order("GET", None)))

    def _order(self, method: str, body: str | None) -> bytes:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=10)
        try:
            connection.request(method, CONTROL_PATH, body)
            return connection.getresponse().read()
        finally:
            connection.close()


@contextmanager
def start_store(folder: Path) -> Iterator[SlowStore]:
    """Run a store over a folder in a process while the context lasts."""
    command = [sys.executable, "-m", "benchmarks.slow_store", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield SlowStore((process.stdout.readline() if process.stdout else "").strip())
        finally:
            process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_store", description=__doc__)
    parser.add_argument("folder", type=Path)
    server = _Server(parser.parse_args().folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
