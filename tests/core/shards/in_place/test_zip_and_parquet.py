"""Zips and Parquet files read in place: positions of values, and refused files."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.core.formats import read_samples
from tests.core.shards.in_place.test_mds_and_litdata import samples_of, scan_error, scan_path
from tests.in_place import write_parquet, write_zip
from wdsctl.core.shards.in_place.zip import find_damaged_entries
from wdsctl.core.shards.list import list_shards

pa = pytest.importorskip("pyarrow")

ENTRIES = {"a/1.jpg": b"one", "a/2.jpg": b"two", "a/1.seg.png": b"mask", "a/2.txt": b"", "README": b"no key"}


def test_zip_entries_with_one_key_are_one_sample(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", ENTRIES)

    assert samples_of(path) == {
        "a/1": {"jpg": b"one", "seg.png": b"mask"},
        "a/2": {"jpg": b"two", "txt": b""},
    }
    assert {each.code for each in scan_path(path).findings} == {"WDS110", "WDS112"}


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


JPEGS = [b"\xff\xd8\xff" + bytes([i]) * (i * 70_000 + 9) for i in range(12)]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("group", [3, 100])
def test_parquet_values_equal_pyarrow_values(tmp_path: Path, version: str, group: int) -> None:
    columns = {
        "image": pa.array([None if i % 5 == 2 else data for i, data in enumerate(JPEGS)], pa.binary()),
        "caption": pa.array([f"é {i}" for i in range(12)]),
        "label": pa.array([None if i == 7 else i for i in range(12)], pa.int64()),
        "score": pa.array([i / 2 for i in range(12)], pa.float32()),
        "digest": pa.array([bytes([i]) * 16 for i in range(12)], pa.binary(16)),
    }
    path = write_parquet(
        tmp_path / "part-0.parquet", columns, data_page_version=version, row_group_size=group, data_page_size=1000
    )

    found = samples_of(path)

    assert list(found) == [f"part-0/{i}" for i in range(12)]
    for i, parts in enumerate(found.values()):
        assert parts.get("image.jpg") == (None if i % 5 == 2 else JPEGS[i])
        assert parts["caption.txt"].decode() == f"é {i}"
        assert parts.get("label.int64") == (None if i == 7 else struct.pack("<q", i))
        assert parts["score.float32"] == struct.pack("<f", i / 2)
        assert parts["digest.bin"] == bytes([i]) * 16


def test_parquet_struct_fields_are_columns_and_hugging_face_media_are_bytes(tmp_path: Path) -> None:
    rows = [{"bytes": JPEGS[0], "path": "a.jpg"}, None, {"bytes": None, "path": None}]
    columns = {"image": rows, "at": [{"x": 1}, {"x": None}, None]}
    path = write_parquet(tmp_path / "t.parquet", columns)

    assert samples_of(path) == {
        "t/0": {"image.jpg": JPEGS[0], "image_path.txt": b"a.jpg", "at_x.int64": struct.pack("<q", 1)},
        "t/1": {},
        "t/2": {},
    }


def test_parquet_rows_written_by_convert_are_original_samples(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "t.parquet", {"__key__": ["a/1", "b/2"], "seg.png": [b"x", b"y"], "txt": ["t", None]}
    )

    assert samples_of(path) == {"a/1": {"seg.png": b"x", "txt": b"t"}, "b/2": {"seg.png": b"y"}} == read_samples(path)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"a": [b"x"]}, {"compression": "snappy"}, "the column 'a' is compressed with Snappy"),
        ({"a": [b"x"]}, {"compression": "zstd"}, "the column 'a' is compressed with Zstandard"),
        ({"a": [b"x"]}, {"use_dictionary": True}, "the column 'a' is dictionary-encoded"),
        ({"a": [b"x"], "b": [True]}, {}, "the column 'b' has the type BOOLEAN"),
        ({"a": [b"x"], "b": [[1, 2]]}, {}, "the column 'b.list.element' is a list"),
        ({"a": ["x"]}, {"column_encoding": {"a": "DELTA_BYTE_ARRAY"}}, "has the encoding DELTA_BYTE_ARRAY"),
        ({"a": [1.5]}, {"column_encoding": {"a": "BYTE_STREAM_SPLIT"}}, "has the encoding BYTE_STREAM_SPLIT"),
    ],
)  # fmt: skip
def test_parquet_column_without_byte_ranges_is_refused_by_name(
    tmp_path: Path, columns: Any, options: Any, words: str
) -> None:
    path = write_parquet(tmp_path / "t.parquet", columns, **options)

    code, message = scan_error(path)

    assert (code, words in message) == ("WDS167", True), message
    assert "wdsctl convert --from parquet" in message


def test_parquet_dates_and_decimals_are_refused(tmp_path: Path) -> None:
    for value in (dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), decimal.Decimal("1.5")):
        assert "whose values are no bytes" in scan_error(write_parquet(tmp_path / "t.parquet", {"a": [value]}))[1]


@pytest.mark.parametrize("cut", [1, 9, 60, 200, 10**6])
def test_truncated_parquet_file_is_reported(tmp_path: Path, cut: int) -> None:
    path = write_parquet(tmp_path / "t.parquet", {"a": [b"x" * 100]})
    path.write_bytes(path.read_bytes()[:-cut])

    assert scan_error(path)[0] == "WDS233"


def test_damaged_parquet_never_gives_ranges_outside_file(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "t.parquet", {"a": [b"x" * 50, None, b"y"], "n": [1, 2, 3]})
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        scan = scan_path(path)
        assert scan.status == "bad" or int((scan.part_offsets + scan.part_sizes).max(initial=0)) <= len(data)


def test_zip_among_raw_files_is_no_shard(tmp_path: Path) -> None:
    write_zip(tmp_path / "labels.zip", {"1.txt": b"x"})
    (tmp_path / "1.jpg").write_bytes(b"x")

    assert not list_shards(str(tmp_path)).shards
    assert len(list_shards(str(tmp_path), ("*.jpg",)).shards) == 1
