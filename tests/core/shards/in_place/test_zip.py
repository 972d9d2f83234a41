"""Zips read in place: positions of values, and refused files."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.core.shards.in_place.test_mds_and_litdata import samples_of, scan_error, scan_path
from tests.in_place import write_zip
from wdsctl.core.shards.in_place.zip import find_damaged_entries
from wdsctl.core.shards.list import list_shards

ENTRIES = {"a/1.jpg": b"one", "a/2.jpg": b"two", "a/1.seg.png": b"mask", "a/2.txt": b"", "README": b"no key"}


def test_zip_entries_with_one_key_are_one_sample(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", ENTRIES)

    assert samples_of(path) == {
        "a/1": {"jpg": b"one", "seg.png": b"mask"},
        "a/2": {"jpg": b"two", "txt": b""},
    }
    assert {each.code for each in scan_path(path).findings} == {"WDS110", "WDS112"}


def test_zip_with_other_name_in_local_header_is_damaged(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"1.txt": b"text", "2.txt": b"more"})
    data = Path(path).read_bytes()
    Path(path).write_bytes(data.replace(b"2.txt", b"2.jpg", 1))

    assert "'2.txt' and its local header differ" in scan_error(Path(path))[1]


def test_zip_local_header_extra_field_shifts_data(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        entry = zipfile.ZipInfo("1.txt")
        entry.extra = struct.pack("<HH4s", 0x7777, 4, b"more")
        archive.writestr(entry, b"text")
    data = path.read_bytes()
    directory = data.index(b"PK\1\2")
    assert data[28:30] == b"\x08\0"  # next, remove the field from the directory but not from the local header
    shorter = data[:directory] + data[directory : directory + 30] + b"\0\0" + data[directory + 32 : directory + 51]
    end = bytearray(data[data.index(b"PK\5\6") :])
    end[12:16] = struct.pack("<I", len(shorter) - directory)
    path.write_bytes(shorter + end)

    assert samples_of(path) == {"1": {"txt": b"text"}}


class _UnseekableStream(io.RawIOBase):
    """A file that cannot seek, so that zipfile writes data descriptors after entries."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)


def test_zip_data_descriptors_and_zip64_records_are_read(tmp_path: Path) -> None:
    stream = _UnseekableStream()
    with zipfile.ZipFile(stream, "w") as archive:
        with archive.open(zipfile.ZipInfo("1.txt"), "w", force_zip64=True) as file:
            file.write(b"streamed")
        archive.writestr("2.txt", b"more")
    (tmp_path / "x.zip").write_bytes(stream.data)

    assert samples_of(tmp_path / "x.zip") == {"1": {"txt": b"streamed"}, "2": {"txt": b"more"}}


def test_zip_with_more_than_65535_entries_is_read(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {f"{i}.txt": b"x" for i in range(66_000)})

    scan = scan_path(path)

    assert (scan.status, scan.samples) == ("ok", 66_000)


def _set_encrypted_flag(data: bytes) -> bytes:
    at = data.index(b"PK\1\2")
    return data[: at + 8] + struct.pack("<H", 1) + data[at + 10 :]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_set_encrypted_flag, "1 of 1 entries is encrypted"),
        (lambda data: b"#!/bin/sh\n" + data, "bytes before the archive"),
        (lambda data: data[: data.index(b"PK\1\2") + 10] + b"\x0e\0" + data[data.index(b"PK\1\2") + 12 :], "LZMA"),
    ],
)
def test_zip_without_byte_ranges_is_refused_with_reason(
    tmp_path: Path, damage: Callable[[bytes], bytes], words: str
) -> None:
    path = write_zip(tmp_path / "x.zip", {"1.txt": b"text"})
    path.write_bytes(damage(path.read_bytes()))

    code, message = scan_error(path)

    assert (code, words in message) == ("WDS167", True), message


def test_deflated_zip_is_refused_with_prepare_command(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"1.txt": b"text" * 99}, zipfile.ZIP_DEFLATED)

    code, message = scan_error(path)

    assert code == "WDS167"
    assert "1 of 1 entries is deflated" in message
    assert "wdsctl prepare ZIP DEST" in message


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda _: b"",
        lambda data: data.replace(b"PK\3\4", b"PK\3\5", 1),
        lambda data: data.replace(b"PK\1\2", b"PK\1\3", 1),
        lambda data: data[: data.rindex(b"PK\5\6") + 16] + b"\xff\xff\xff\x7f" + data[data.rindex(b"PK\5\6") + 20 :],
        lambda data: data[: data.index(b"PK\1\2") + 42] + b"\0\0\0\x7f" + data[data.index(b"PK\1\2") + 46 :],
        lambda data: (
            data[: data.index(b"PK\1\2") + 20] + struct.pack("<2I", 99, 99) + data[data.index(b"PK\1\2") + 28 :]
        ),
        lambda data: data[: data.index(b"PK\1\2") + 20] + struct.pack("<2I", 3, 2) + data[data.index(b"PK\1\2") + 28 :],
    ],
)
def test_damaged_zip_is_reported_and_has_no_samples(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = write_zip(tmp_path / "x.zip", {"1.txt": b"text", "2.txt": b"more"})
    path.write_bytes(damage(path.read_bytes()))

    assert scan_error(path)[0] == "WDS233"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_or_unsafe_zip_names_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("1.txt", "1.txt", "../2.txt", "/3.txt"):
            archive.writestr(name, b"x")

    found = {each.code: each.severity for each in scan_path(path).findings}

    assert found == {"WDS107": "error", "WDS128": "warning"}


def test_find_damaged_entries_names_changed_entries(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"1.txt": b"text", "2.txt": b"more"})
    data = path.read_bytes().replace(b"more", b"moot")

    assert find_damaged_entries(lambda at, size: data[at : at + size], len(data)) == ["2.txt"]


def test_zip_among_raw_files_is_no_shard(tmp_path: Path) -> None:
    write_zip(tmp_path / "labels.zip", {"1.txt": b"x"})
    (tmp_path / "1.jpg").write_bytes(b"x")

    assert not list_shards(str(tmp_path)).shards
    assert len(list_shards(str(tmp_path), ("*.jpg",)).shards) == 1
