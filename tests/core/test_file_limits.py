"""Limits of what is read from a file as a whole, and of what comes out of a small one."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path

import pytest

from wdsctl.core import file_limits
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.file_limits import (
    LIMIT_FACTOR_VARIABLE,
    check_zip_directory,
    held_limit,
    iter_lines,
    read_whole,
    scale_limit,
    stream_limit,
)
from wdsctl.core.json_text import JsonReader, read_json


def test_file_with_a_hole_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dataset.yaml"
    path.touch()
    os.truncate(path, 40 << 30)
    with path.open("rb") as file, pytest.raises(InputError, match="42,949,672,960 bytes") as caught:
        read_whole(file, str(path))
    assert caught.value.code == "WDS421"
    assert LIMIT_FACTOR_VARIABLE in caught.value.hint


def test_file_is_read_from_its_start() -> None:
    file = io.BytesIO(b"abc")
    file.read(2)
    assert read_whole(file, "x", 3) == b"abc"
    with pytest.raises(InputError, match="up to 2"):
        read_whole(file, "x", 2)


def test_variable_multiplies_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_FACTOR_VARIABLE, "4")
    assert scale_limit(10) == 40
    assert read_whole(io.BytesIO(bytes(8)), "x", 2) == bytes(8)
    assert (held_limit(1), stream_limit(1 << 30)) == (1 << 30, 1 << 42)


@pytest.mark.parametrize("factor", ["0", "-1", "1.5", "x", "9" * 12, "\u0664"])
def test_factor_is_a_whole_number(factor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_FACTOR_VARIABLE, factor)
    with pytest.raises(UsageError, match=LIMIT_FACTOR_VARIABLE):
        scale_limit(1)


def test_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_limits, "MAX_LINE_BYTES", 4)
    assert list(iter_lines(io.BytesIO(b"abc\nd"), "x")) == [b"abc\n", b"d"]
    with pytest.raises(DatasetError, match="line 2 is longer") as caught:
        list(iter_lines(io.BytesIO(b"a\nabcd\n"), "x"))
    assert caught.value.code == "WDS232"


def test_json_whose_values_fill_the_memory_is_refused() -> None:
    text = "[" + "[]," * (3 << 20)
    for each in (text, text.encode(), bytearray(text, "ascii")):
        with pytest.raises(ValueError, match="MiB of memory"):
            read_json(each * 3)
    with pytest.raises(ValueError, match="MiB of memory"):
        JsonReader().read(text.encode() * 3)
    assert len(read_json('["' + "x" * (9 << 20) + '"]')[0]) == 9 << 20


def test_zip_whose_list_of_files_is_most_of_it_is_refused() -> None:
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w") as archive:
        archive.writestr("a.txt", b"a")
    check_zip_directory(archived, "x")
    data = archived.getvalue()

    at = data.rfind(b"PK\5\6") + 12
    claimed = data[:at] + struct.pack("<I", 100 << 20) + data[at + 4 :]
    with pytest.raises(InputError, match="list of files of 104,857,600 bytes"):
        check_zip_directory(io.BytesIO(claimed), "x")

    long = struct.pack("<4s36xQ8x", b"PK\6\6", 1 << 40)
    with pytest.raises(InputError, match="list of files"):
        check_zip_directory(io.BytesIO(long + claimed[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]), "x")
