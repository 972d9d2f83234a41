"""Stores for the tests: one in memory, one that fails on purpose, and S3 on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from wdsctl.core.storage.remote_errors import RetryPolicy

Fault = Callable[[str, int, int, bytes], bytes]


class FaultyFileSystem(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The store in memory under `faulty://`. Reads and questions are counted, and go through `fault` and `ask`.

    A fault gets path, start, stop and the bytes, and returns others, or raises.
    """

    protocol = "faulty"
    cachable = False
    reads: ClassVar[list[tuple[str, int, int]]] = []
    asked: ClassVar[list[str]] = []
    fault: ClassVar[list[Fault]] = []
    denied: ClassVar[list[Exception]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + str(path).removeprefix("faulty://").strip("/")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        self.reads.append((path, start or 0, end or 0))
        data: bytes = super().cat_file(path, start, end, **kwargs)
        for fault in self.fault:
            data = fault(path, start or 0, end or 0, data)
        return data

    def info(self, path: str, **kwargs: Any) -> Any:
        self.asked.append(path)
        if self.denied:
            raise self.denied[0]
        return super().info(path, **kwargs)

    def find(self, path: str, **kwargs: Any) -> Any:
        self.asked.append(path)
        if self.denied:
            raise self.denied[0]
        return super().find(path, **kwargs)

    @classmethod
    def reset(cls) -> None:
        for kept in (cls.reads, cls.asked, cls.fault, cls.denied):
            kept.clear()
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]


fsspec.register_implementation("faulty", FaultyFileSystem, clobber=True)


class OnceEach:
    """A fault that strikes each range `times` times, and then lets it through."""

    def __init__(self, strike: Fault, times: int = 1) -> None:
        self._strike = strike
        self._times = times
        self._struck: dict[tuple[str, int, int], int] = {}

    def __call__(self, path: str, start: int, stop: int, data: bytes) -> bytes:
        count = self._struck.get((path, start, stop), 0)
        self._struck[path, start, stop] = count + 1
        return self._strike(path, start, stop, data) if count < self._times else data


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storages made from now on do not wait between two tries."""
    monkeypatch.setitem(RetryPolicy.__init__.__kwdefaults__ or {}, "pause", 0.0)


def uploaded(folder: str | Path, url: str, pattern: str = "*.tar*") -> str:
    """Put every shard below a folder into a store, or what else the pattern means; returns the URL."""
    filesystem, base = fsspec.url_to_fs(url)
    for path in sorted(Path(folder).rglob(pattern)):
        filesystem.pipe_file(f"{base}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return url


@contextmanager
def s3_server() -> Iterator[str]:
    """An S3 server on this machine with a bucket `bucket`; yields its endpoint. What drivers read is set for it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    _forget_filesystems()
    try:
        fsspec.filesystem("s3").makedirs("bucket", exist_ok=True)
        yield settings["AWS_ENDPOINT_URL"]
    finally:
        _forget_filesystems()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.stop()


def _forget_filesystems() -> None:
    fsspec.get_filesystem_class("s3").clear_instance_cache()
