"""A stand-in for the Hugging Face Hub on a loopback port: the requests of `HfFileSystem` for one dataset repository.

Serves a folder as `hf://datasets/tests/data`: repository info, its tree, and files by ranges. If it has a token, it
refuses requests without it.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.stores.servers import Store

REPOSITORY = "tests/data"
COMMIT = "c" * 40
_API = f"/api/datasets/{REPOSITORY}"
_RESOLVE = f"/datasets/{REPOSITORY}/resolve/main/"


def _entry(root: Path, path: Path) -> dict[str, object]:
    name = path.relative_to(root).as_posix()
    if path.is_dir():
        return {"type": "directory", "oid": "d" * 40, "size": 0, "path": name}
    data = path.read_bytes()
    return {"type": "file", "oid": hashlib.sha1(data).hexdigest(), "size": len(data), "path": name}  # noqa: S324 - as git


def _handler(root: Path, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_HEAD(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _answer(self, body: bytes) -> None:
            url = urlsplit(self.path)
            path = unquote(url.path)
            if token and self.headers.get("Authorization") != f"Bearer {token}":
                self._send(401, b"{}", {"X-Error-Code": "GatedRepo"})
            elif path in (_API, f"{_API}/revision/main"):
                self._send_json({"id": REPOSITORY, "sha": COMMIT, "private": False, "tags": [], "siblings": []})
            elif path.startswith(f"{_API}/tree/main"):
                self._send_tree(path.removeprefix(f"{_API}/tree/main").strip("/"), parse_qs(url.query))
            elif path == f"{_API}/paths-info/main":
                names = parse_qs(body.decode()).get("paths", [])
                self._send_json([_entry(root, root / name) for name in names if (root / name).exists()])
            elif path.startswith(_RESOLVE) and (root / path.removeprefix(_RESOLVE)).is_file():
                self._send_range((root / path.removeprefix(_RESOLVE)).read_bytes())
            else:
                self._send(404, b"{}", {"X-Error-Code": "RepoNotFound" if REPOSITORY not in path else "EntryNotFound"})

        def _send_tree(self, folder: str, query: dict[str, list[str]]) -> None:
            if not (root / folder).is_dir():
                self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
                return
            is_deep = query.get("recursive", ["false"])[0].lower() == "true"
            found = (root / folder).rglob("*") if is_deep else (root / folder).iterdir()
            self._send_json([_entry(root, path) for path in sorted(found)])

        def _send_range(self, data: bytes) -> None:
            tags = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT}  # noqa: S324 - as git
            begin, _, end = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
            if not end:
                self._send(200, data, tags)
                return
            start, stop = int(begin), min(int(end) + 1, len(data))
            tags["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
            self._send(206, data[start:stop], tags)

        def _send_json(self, value: object) -> None:
            self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

        def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Suppress the log."""

    return Handler


@contextmanager
def hub_server(root: Path, token: str = "") -> Iterator[Store]:
    """Serve a folder in a thread of this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(root, token))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    settings = {"HF_ENDPOINT": endpoint, "FSSPEC_HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_TELEMETRY": "1"}
    try:
        yield Store("hub", endpoint, f"hf://datasets/{REPOSITORY}", settings)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
