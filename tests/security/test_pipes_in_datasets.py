"""Pipes and sockets in the place of files are refused without waiting for them."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import StorageError, WdsctlError
from wdsctl.core.safe_open import open_named


def _socket(path: Path) -> None:
    folder = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(folder)


CREATORS: dict[str, Callable[[Path], None]] = {"pipe": os.mkfifo, "socket": _socket}
NAMES = (
    *("a.tar", "a.tar.gz", "a.parquet", "a.jsonl", "a.json", "a.csv", "a.mds", "a.bin", "data.arrow"),
    *("index.json", "state.json", "dataset_info.json", "dataset_dict.json", "polylithic.json", "train.json"),
)


@pytest.fixture
def minute_alarm() -> Iterator[None]:
    """Raise an error after a minute in code that waits for a pipe."""

    def raise_timeout(*_: object) -> NoReturn:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, raise_timeout)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", CREATORS)
def test_open_named_refuses_pipes_sockets_and_devices(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    CREATORS[kind](path)

    for each in (str(path), "/dev/zero"):
        with pytest.raises(StorageError, match="not a regular file"):
            open_named(each)


@pytest.mark.usefixtures("minute_alarm")
@pytest.mark.parametrize("kind", CREATORS)
@pytest.mark.parametrize("name", NAMES)
def test_convert_refuses_pipes_and_sockets_without_waiting(tmp_path: Path, name: str, kind: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    CREATORS[kind](source / name)

    with pytest.raises(WdsctlError):
        convert([str(source)], str(tmp_path / "made"), ConvertRequest())
