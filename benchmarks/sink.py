"""A server in memory that speaks as much of S3 as uploads need, and costs little beside its client.

    python -m benchmarks.sink --port 9000 --megabytes-per-second 25

It checks the length of every body, and the Content-MD5 of bodies up to 1 MB. The ETag of a larger body is the MD5 that
the client sent, or a number: an MD5 here would cost more than all else. All connections share the link.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import threading
import time
from base64 import b64decode
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_CHECKED_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_STEP_BYTES = 1 << 16  # of a slow link


@dataclass(frozen=True, slots=True)
class Stored:
    tag: str
    pieces: tuple[bytes | bytearray, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces))

    def read(self, start: int, stop: int) -> bytes:
        found, at = [], 0
        for piece in self.pieces:
            found.append(memoryview(piece)[max(0, start - at) : max(0, stop - at)])
            at += len(piece)
        return b"".join(found)


@dataclass(slots=True)
class Link:
    """One link that all connections share. `bytes_per_second`: 0 for no limit."""

    bytes_per_second: float
    free_at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, size: int) -> None:
        if not self.bytes_per_second:
            return
        with self.lock:
            begin = max(time.monotonic(), self.free_at)
            self.free_at = begin + size / self.bytes_per_second
        time.sleep(max(0.0, self.free_at - time.monotonic()))


class Sink(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, megabytes_per_second: float) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.link = Link(megabytes_per_second * 1e6)
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, dict[int, Stored]] = {}
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Sink

    def do_PUT(self) -> None:
        path, query = self._target()
        stored = self._receive()
        if stored is None:
            return
        with self.server.lock:
            there = self.server.objects.get(path)
            if "uploadId" in query:
                self.server.uploads[query["uploadId"]][int(query["partNumber"])] = stored
            elif not self._is_allowed(there):
                self._answer(412, _error("PreconditionFailed"))
                return
            elif "/" in path.strip("/"):
                self.server.objects[path] = stored
        self._answer(200, tag=stored.tag)

    def do_POST(self) -> None:
        path, query = self._target()
        body = self._read_body()
        if "uploads" in query:
            upload_id = hashlib.sha256(f"{path}{time.monotonic_ns()}".encode()).hexdigest()
            self.server.uploads[upload_id] = {}
            self._answer(
                200, f"<InitiateMultipartUploadResult><UploadId>{upload_id}</UploadId></InitiateMultipartUploadResult>"
            )
        elif "uploadId" in query:
            parts = self.server.uploads.pop(query["uploadId"])
            listed = [int(number) for number in re.findall(rb"<PartNumber>(\d+)<", body)]
            if sorted(parts) != listed:
                self._answer(400, _error("InvalidPart"))
                return
            whole = hashlib.md5(b"".join(bytes.fromhex(parts[i].tag.strip('"')) for i in listed), usedforsecurity=False)
            tag = f'"{whole.hexdigest()}-{len(parts)}"'
            pieces = tuple(piece for number in listed for piece in parts[number].pieces)
            self.server.objects[path] = Stored(tag, pieces)
            self._answer(
                200, f"<CompleteMultipartUploadResult><ETag>{escape(tag)}</ETag></CompleteMultipartUploadResult>"
            )
        elif "delete" in query:
            for key in re.findall(rb"<Key>(.*?)</Key>", body):
                self.server.objects.pop(f"{path.rstrip('/')}/{key.decode()}", None)
            self._answer(200, "<DeleteResult></DeleteResult>")
        else:
            self._answer(501, _error("NotImplemented"))

    def do_GET(self) -> None:
        path, query = self._target()
        if "uploads" in query:
            self._answer(
                200, "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"
            )
            return
        if "/" not in path.strip("/"):
            self._list(path.strip("/"), query)
            return
        found = self.server.objects.get(path)
        if found is None:
            self._answer(404, _error("NoSuchKey"))
            return
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        data = found.read(int(first), int(last) + 1 if last else found.size)
        self._answer(206 if "Range" in self.headers else 200, data, tag=found.tag)

    def do_HEAD(self) -> None:
        path, _ = self._target()
        found = self.server.objects.get(path)
        if "/" not in path.strip("/"):
            self._answer(200)
        elif found is None:
            self._answer(404)
        else:
            self._answer(200, tag=found.tag, length=found.size)

    def do_DELETE(self) -> None:
        path, query = self._target()
        self.server.uploads.pop(query.get("uploadId", ""), None)
        if "uploadId" not in query:
            self.server.objects.pop(path, None)
        self._answer(204)

    def _is_allowed(self, there: Stored | None) -> bool:
        """Whether the conditions of the request hold for the present object."""
        if self.headers.get("If-None-Match") == "*" and there is not None:
            return False
        return "If-Match" not in self.headers or (there is not None and there.tag == self.headers["If-Match"])

    def _target(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return unquote(parts.path), {
            name: each[0] for name, each in parse_qs(parts.query, keep_blank_values=True).items()
        }

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        contents, folders = [], set()
        for path, each in sorted(self.server.objects.items()):
            key = path.removeprefix(f"/{bucket}/")
            if key == path or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
                continue
            contents.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{each.size}</Size><ETag>{escape(each.tag)}</ETag>"
                "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)
        )
        count = len(contents) + len(folders)
        self._answer(
            200,
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{count}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{''.join(contents)}{common}</ListBucketResult>",
        )

    def _receive(self) -> Stored | None:
        """Read the body of an upload and check it; answers and returns None if it is damaged."""
        if self.headers.get("Expect") == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        sent_md5 = self.headers.get("Content-MD5")
        is_chunked = "aws-chunked" in self.headers.get("Content-Encoding", "")
        if is_chunked or int(self.headers.get("Content-Length", 0)) <= _CHECKED_BYTES:
            body: bytes | bytearray = self._read_body()
            if is_chunked:
                body = _decode_chunks(bytes(body))
            digest = hashlib.md5(body, usedforsecurity=False).digest()
            if len(body) != int(self.headers.get("x-amz-decoded-content-length", len(body))) or (
                sent_md5 and b64decode(sent_md5) != digest
            ):
                self._answer(400, _error("BadDigest"))
                return None
        else:
            body = self._read_large(int(self.headers["Content-Length"]))
            digest = b64decode(sent_md5) if sent_md5 else time.monotonic_ns().to_bytes(16, "big")
        return Stored(f'"{digest.hex()}"', (body,))

    def _read_large(self, length: int) -> bytearray:
        body = bytearray(length)
        step = _STEP_BYTES if self.server.link.bytes_per_second else _READ_BYTES
        at = 0
        while at < length:
            count = self.rfile.readinto1(memoryview(body)[at : at + step])
            if not count:
                raise ConnectionError("the client sent less than it announced")
            self.server.link.take(count)
            at += count
        return body

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.server.link.take(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(pieces)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.link.take(len(body))
        return body

    def _answer(self, status: int, body: str | bytes = b"", *, tag: str = "", length: int | None = None) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


def _error(code: str) -> str:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"


def _decode_chunks(body: bytes) -> bytes:
    """The data of an aws-chunked body: each chunk has a line with its length before it."""
    pieces: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].split(b";")[0], 16)
        if not size:
            return b"".join(pieces)
        pieces.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--megabytes-per-second", type=float, default=0.0, help="of the link; 0: no limit")
    given = parser.parse_args()
    server = Sink(given.port, given.megabytes_per_second)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
