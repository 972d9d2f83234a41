"""Passwords, signatures and tokens of URLs appear in no output, log, file or traceback."""

from __future__ import annotations

import io
import json
import logging
import pickle
import re
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path

import pytest

import wdsctl as wdsctl_api
from tests.build import a_shard
from tests.cli.conftest import Wdsctl, wdsctl
from tests.security.test_hostile_output import CANARY, COMMANDS
from wdsctl.core.errors import InputError
from wdsctl.loader.runtime.logs import logger

__all__ = ["wdsctl"]

SECRET = "hunter2hunter2"  # noqa: S105 - of nobody
SHARD = a_shard({f"{i}.{part}": b"{}" for i in range(4) for part in ("txt", "json")})


class _Store(BaseHTTPRequestHandler):
    """Serves one shard at /open/, answers 403 at /closed/, and 404 elsewhere."""

    protocol_version = "HTTP/1.1"

    def _answer(self, *, body: bool) -> None:
        status = 200 if self.path.partition("?")[0] == "/open/a.tar" else 403 if "/closed/" in self.path else 404
        data = SHARD if status == 200 else b""
        range_match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if status == 200 and range_match:
            first, last = int(range_match[1]), min(int(range_match[2] or len(data) - 1), len(data) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            data = data[first : last + 1]
        else:
            self.send_response(status)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, *_: object) -> None:
        """Suppress the log."""


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Store) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def urls(store: str) -> list[str]:
    signature = f"?X-Amz-Signature={SECRET}&sig={SECRET}"
    return [
        f"http://ann:{SECRET}@{store}/open/a.tar",
        f"http://ann:{SECRET}@{store}/closed/a.tar",
        f"http://ann:{SECRET}@{store}/missing/a.tar",
        f"http://{store}/open/a.tar{signature}",
        f"nothing://ann:a@b/{SECRET}@{store}/d",
        f"memory://ann:{SECRET}@b/d",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_neither_print_nor_store_secrets_of_urls(
    wdsctl: Wdsctl, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WDSCTL_CATALOG", str(tmp_path / "catalogs"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    formats = cycle(((), ("--debug",), ("--json",)))  # each command line has each format, with a third of the URLs
    for arguments in COMMANDS[command]:
        next(formats)
        for url in urls(store):
            values = dict.fromkeys(("ROOT", "OTHER", "BLEND", "STATE", "CONFIG"), url) | {"DEST": "dest", "DEST2": "d2"}
            command_line = [values.get(word, word).replace(CANARY, url) for word in arguments]
            result = wdsctl(*command.split(), *command_line, *next(formats))
            assert SECRET not in result.stdout + result.stderr
            assert "wdsctl has a bug" not in result.stderr
    for path in tmp_path.rglob("*"):
        assert SECRET not in path.name
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_errors_contain_no_secrets_of_urls(store: str) -> None:
    for url in urls(store):
        try:
            try:
                raise FileNotFoundError(url)
            except FileNotFoundError as cause:
                raise InputError(f"cannot read {url}", where=url, hint=f"try {url}") from cause
        except InputError as error:
            again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
            texts = [str(error), repr(error), error.message, error.where, error.hint, str(error.args), str(again)]
            assert not [each for each in texts if SECRET in each]


def test_dataset_shows_no_secrets_of_its_url(store: str, tmp_path: Path) -> None:
    for url in (urls(store)[0], urls(store)[3]):
        wdsctl_api.index(url, catalog=tmp_path, workers=1)
        ds = wdsctl_api.Dataset(url, catalog=tmp_path)

        assert len(ds) == 4
        for text in (repr(ds), ds.root, ds._repr_html_()):
            assert f"{store}/open/a.tar" in text
            assert SECRET not in text


def test_loader_log_and_tracebacks_contain_no_secrets(store: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)
    try:
        for url in urls(store):
            try:
                raise OSError(f"no answer from {url}")
            except OSError as error:
                logger.warning("%s: %s", url, error, exc_info=True)
    finally:
        logger.removeHandler(handler)
    assert "Traceback" in stream.getvalue()
    assert SECRET not in stream.getvalue()


def test_loader_states_errors_and_traces_contain_no_secrets(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from wdsctl.core.prepare.prepare import prepare
    from wdsctl.core.prepare.request import PrepareRequest
    from wdsctl.loader import get_savable_loader, get_train_dataset

    monkeypatch.setenv("WDSCTL_CATALOG", str(tmp_path / "catalogs"))
    open_, closed, missing, *_ = urls(store)
    prepare(open_, None, PrepareRequest(sample_type="CrudeSample", split={"train": 1.0}))
    dataset = get_train_dataset(open_, batch_size=1, shuffle_buffer_size=None, trace=str(tmp_path / "trace"))
    loader = get_savable_loader(dataset)
    for _ in zip(range(3), loader, strict=False):
        pass
    texts = [json.dumps(loader.save_state_rank(), default=repr), repr(dataset), repr(loader), str(loader.config())]
    for url in (closed, missing):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whichever it is
            next(iter(get_savable_loader(get_train_dataset(url, batch_size=1))))
        texts.append("".join(traceback.format_exception(caught.value)))
    texts.append(caplog.text)
    assert not [each for each in texts if SECRET in each]
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
