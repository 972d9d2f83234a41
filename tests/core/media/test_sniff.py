from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.build import an_image
from wdsctl.core.media.sniff import SniffedContent, sniff

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def a_zip(*names: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as out:
        for name in names:
            out.writestr(name, b"hello")
    return target.getvalue()


def a_tar() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as out:
        out.addfile(tarfile.TarInfo("a.txt"))
    return target.getvalue()


def an_array(*, zipped: bool) -> bytes:
    target = io.BytesIO()
    if zipped:
        np.savez(target, a=np.arange(3))
    else:
        np.save(target, np.arange(3))
    return target.getvalue()


def a_torch_file(*, is_legacy: bool = False) -> bytes:
    target = io.BytesIO()
    torch.save({"a": torch.zeros(2)}, target, _use_new_zipfile_serialization=not is_legacy)
    return target.getvalue()


@pytest.mark.parametrize(
    ("writer", "form"),
    [
        ("JPEG", "jpeg"),
        ("PNG", "png"),
        ("WEBP", "webp"),
        ("GIF", "gif"),
        ("BMP", "bmp"),
        ("TIFF", "tiff"),
        ("AVIF", "avif"),
        ("JPEG2000", "jpeg2000"),
        ("ICO", "ico"),
        ("TGA", "tga"),
        ("SGI", "sgi"),
        ("PCX", "pcx"),
        ("PPM", "pnm"),
    ],
)
def test_sniff_detects_image_formats(writer: str, form: str) -> None:
    assert sniff(an_image(writer)) == SniffedContent("image", form)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (an_array(zipped=False), SniffedContent("array", "npy")),
        (an_array(zipped=True), SniffedContent("array", "npz")),
        (a_torch_file(), SniffedContent("pickle", "torch")),
        (a_torch_file(is_legacy=True), SniffedContent("pickle", "torch")),
        (a_zip("a.txt"), SniffedContent("archive", "zip")),
        (a_zip(), SniffedContent("archive", "zip")),
        (a_tar(), SniffedContent("archive", "tar")),
        (gzip.compress(b"x", mtime=0), SniffedContent("archive", "gzip")),
        (bz2.compress(b"x"), SniffedContent("archive", "bzip2")),
        (lzma.compress(b"x"), SniffedContent("archive", "xz")),
        (b"\x28\xb5\x2f\xfd\x24\x00", SniffedContent("archive", "zstd")),
        (b"%PDF-1.7\n%\xe2\xe3", SniffedContent("binary", "pdf")),
        (b"PAR1\x15\x04\x15\x10", SniffedContent("binary", "parquet")),
        (b"\x10\0\0\0\0\0\0\0" + b'{"a":{}}' + bytes(9), SniffedContent("array", "safetensors")),
        (bytes(range(256)), SniffedContent("binary")),
        (b"", SniffedContent("empty")),
    ],
)
def test_sniff_detects_non_media_formats(data: bytes, expected: SniffedContent) -> None:
    assert sniff(data) == expected


def test_sniff_detects_jpeg_xl_without_container_by_name() -> None:
    data = b"\xff\x0a\x98\xc0\x01\x00"

    assert sniff(data, name="photo.JXL") == sniff(b"\0\0\0\x0cJXL \r\n\x87\n") == SniffedContent("image", "jxl")
    assert sniff(data, name="jxl") == SniffedContent("image", "jxl")
    assert sniff(data, name="bin") == sniff(data) == SniffedContent("binary")


def test_sniff_does_not_mistake_tokens_and_safetensors_for_jpeg_xl() -> None:
    tokens = np.array([2815, 17], np.uint16).tobytes()
    header_of_2815_bytes = (2815).to_bytes(8, "little") + b'{"a":{}}' + bytes(9)

    assert tokens.startswith(b"\xff\x0a")
    assert sniff(tokens) == SniffedContent("binary")
    assert sniff(header_of_2815_bytes, name="jxl") == SniffedContent("array", "safetensors")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", [None, 7, {"a": [1, 2.5, "x" * 3000]}])
def test_sniff_detects_pickle(protocol: int, value: object) -> None:
    data = pickle.dumps(value, protocol)

    assert sniff(data) == SniffedContent("pickle", "pickle")


class MakesFolder:
    """Creates a folder when its pickle is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_sniff_never_loads_pickle(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "made"
    data = pickle.dumps(MakesFolder(path), protocol)

    assert sniff(data) == SniffedContent("pickle", "pickle")
    assert not path.exists()
    pickle.loads(data)  # noqa: S301 - our own bytes, to show that loading them would be seen
    assert path.exists()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"17\n", SniffedContent("integer", "utf-8")),
        (b"-3", SniffedContent("integer", "utf-8")),
        (b"9" * 5000, SniffedContent("integer", "utf-8")),
        (b" 0.25\n", SniffedContent("number", "utf-8")),
        (b"1e-3", SniffedContent("number", "utf-8")),
        (b"a dog in the snow", SniffedContent("text", "utf-8")),
        ("ein Hündchen, 子犬 🐶".encode(), SniffedContent("text", "utf-8")),
        (b"\xef\xbb\xbfwith a byte order mark", SniffedContent("text", "utf-8")),
        ("mit Umlauten: äöü".encode("utf-16"), SniffedContent("text", "utf-16")),
        ("mit Umlauten: äöü".encode("latin-1"), SniffedContent("binary")),
        (b"true", SniffedContent("text", "utf-8")),
        (b"   \n", SniffedContent("text", "utf-8")),
        (b'{"caption": "a dog"}', SniffedContent("json", "object")),
        (b'\n[1, 2, {"a": null}]\n', SniffedContent("json", "array")),
        (b'"a dog"', SniffedContent("json", "string")),
        (b'{"caption": "a dog"', SniffedContent("text", "utf-8")),
        (b'{"a": 1}\n{"a": 2}\n', SniffedContent("text", "utf-8")),
        (b"[1] Smith et al.", SniffedContent("text", "utf-8")),
        (b"[" * 100_000 + b"]" * 100_000, SniffedContent("text", "utf-8")),
    ],
)
def test_sniff_distinguishes_text_numbers_and_json(data: bytes, expected: SniffedContent) -> None:
    assert sniff(data) == expected


@pytest.mark.parametrize(
    "text",
    [
        "BM is what a bitmap begins with, and so does this sentence of more than twenty letters",
        "ID3 tags stand before the sound",
        "the wide river",
        "the moov box",
        "FLV is old",
        "BZh5 is not how bzip2 goes on",
        "P5 was a processor",
        "PK was here",
        "RIFF raff",
        "GGG" * 300,
    ],
)
def test_sniff_classifies_text_with_signature_prefix_as_text(text: str) -> None:
    assert sniff(text.encode()) == SniffedContent("text", "utf-8")


def test_sniff_accepts_text_truncated_within_character() -> None:
    data = ("ä" * 100).encode()

    assert sniff(data[:51], len(data)) == SniffedContent("text", "utf-8")
    assert sniff(data[:51]) == SniffedContent("binary")


def test_sniff_classifies_truncated_number_as_text() -> None:
    assert sniff(b"17", size=30) == SniffedContent("text", "utf-8")


@settings(max_examples=40)
@given(st.dictionaries(st.text(), JSON_VALUES, min_size=1), st.booleans(), st.data())
def test_sniff_detects_truncated_json_object(value: dict[str, object], is_ascii: bool, data: st.DataObject) -> None:
    whole = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "replace")
    cut = data.draw(st.integers(1, len(whole)))

    assert sniff(whole) == SniffedContent("json", "object")
    assert sniff(whole[:cut], len(whole)) == SniffedContent("json", "object")


@given(st.binary(max_size=600), st.booleans())
def test_sniff_never_raises(data: bytes, is_cut: bool) -> None:
    assert sniff(data, len(data) + 1 if is_cut else None).kind


@given(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "BMP"]), st.integers(64, 600))
def test_sniff_detects_image_from_64_bytes(writer: str, cut: int) -> None:
    data = an_image(writer)

    assert sniff(data[:cut], len(data)).kind == "image"


def test_sniff_of_unread_part_with_size_is_not_empty() -> None:
    assert sniff(b"", size=10) == SniffedContent("binary")
    assert sniff(b"", size=0) == SniffedContent("empty")
