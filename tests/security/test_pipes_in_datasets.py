"""A pipe that lies where a file is expected is waited for by nobody."""

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
from wdsctl.core.errors import WdsctlError
from wdsctl.core.safe_open import regular_file_opener


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


MADE: dict[str, Callable[[Path], None]] = {"pipe": os.mkfifo, "socket": _socket}
NAMES = (
    *("a.tar", "a.tar.gz", "a.parquet", "a.jsonl", "a.json", "a.csv", "a.mds", "a.bin", "data.arrow"),
    *("index.json", "state.json", "dataset_info.json", "dataset_dict.json", "polylithic.json", "train.json"),
)


@pytest.fixture
def soon() -> Iterator[None]:
    """What waits for a pipe is woken after a minute, by an error."""

    def late(*_: object) -> NoReturn:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", MADE)
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    MADE[kind](path)

    with pytest.raises(OSError, match="not a regular file"), open(path, "rb", opener=regular_file_opener):
        pass
    with pytest.raises(OSError, match="not a regular file"), open("/dev/zero", "rb", opener=regular_file_opener):
        pass


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("name", NAMES)
def test_convert_waits_for_nothing_in_a_folder(tmp_path: Path, name: str, kind: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    MADE[kind](source / name)

    with pytest.raises(WdsctlError):
        convert([str(source)], str(tmp_path / "made"), ConvertRequest())
