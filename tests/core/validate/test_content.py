from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from tests.build import an_image
from tests.core.arrays import a_checkpoint, an_array, arrays
from tests.core.films import a_wav
from tests.core.medley import clip
from wdsctl.core.validate.content import check_content, has_decodable_content

Looked = Callable[..., list[tuple[str, str]]]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at:][1:]


def an_evil_checkpoint() -> bytes:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (print, ("run",))

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Evil()))
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("jpg", an_image("JPEG")),
        ("png", an_image("PNG")),
        ("webp", an_image("WEBP")),
        ("mp4", clip()),
        ("wav", a_wav()),
        ("json", b'{"a": [1, 2.5, null]}'),
        ("jsonl", b'{"a": 1}\n\n{"b": 2}\r\n'),
        ("txt", "grün".encode()),
        ("cls", b" 17\n"),
        ("npy", an_array()),
        ("npz", arrays()),
        ("pth", a_checkpoint()),
        ("txt", b""),
        ("jsonl", b""),
    ],
)
def test_what_decodes_is_sound(looked: Looked, name: str, data: bytes) -> None:
    assert has_decodable_content(name)
    assert looked(check_content, name, data) == []


@pytest.mark.parametrize(
    ("name", "data", "code", "words"),
    [
        ("jpg", an_image("JPEG")[:-200], "WDS143", "it "),
        ("png", flipped(an_image("PNG"), -14), "WDS147", "the checksum of its chunk IDAT"),
        ("json", b"", "WDS144", "at character 0"),
        ("cls", b"", "WDS143", "not a whole number: b''"),
        ("json", b'{"a": }', "WDS144", "at character 6"),
        ("json", b"[" * 100_000, "WDS144", "nested too deep"),
        ("json", b"1" * 5000, "WDS144", "too many digits"),
        ("json", '{"a": "é"}'.encode("latin-1"), "WDS145", "not UTF-8"),
        ("json", '{"a": 1}'.encode("utf-16"), "WDS145", "not UTF-8"),
        ("jsonl", b'{"a": 1}\n{"a"\n', "WDS144", "line 2"),
        ("txt", b"\xff\xfe", "WDS145", "byte 0"),
        ("cls", b"seven", "WDS143", "not a whole number: b'seven'"),
        ("npy", an_array()[:-4], "WDS143", "declares 24 bytes"),
        ("npz", flipped(arrays(), 60), "WDS143", "damaged"),
        ("pth", a_checkpoint().replace(b"ctorch", b"cos\nxx", 1), "WDS143", "damaged"),
        ("pth", an_evil_checkpoint(), "WDS143", "never loads"),
        ("wav", a_wav()[:20], "WDS143", "FFmpeg"),
        ("mp4", clip()[: len(clip()) // 2], "WDS143", "can be decoded"),
    ],
)
def test_what_does_not_decode_is_told_with_what_is_wrong(
    looked: Looked, name: str, data: bytes, code: str, words: str
) -> None:
    ((found, message),) = looked(check_content, name, data)
    assert found.startswith(code), (found, message)
    assert words in message


def test_an_image_that_is_too_large_is_refused_by_its_header(looked: Looked) -> None:
    png = bytearray(an_image("PNG"))
    png[16:24] = (60_000).to_bytes(4, "big") * 2
    import zlib

    png[29:33] = zlib.crc32(png[12:29]).to_bytes(4, "big")
    ((code, message),) = looked(check_content, "png", bytes(png))
    assert (code, "pixels" in message) == ("WDS146", True)


def test_an_archive_bomb_is_refused_by_its_table_of_contents(looked: Looked) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(1 << 20))
    data = bytearray(file.getvalue())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    assert [code for code, _ in looked(check_content, "npz", bytes(data))] == ["WDS146"]


def test_an_array_in_an_archive_that_lies_about_its_shape_allocates_nothing(looked: Looked) -> None:
    inner = io.BytesIO()
    np.lib.format.write_array_header_1_0(inner, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", inner.getvalue())
    ((code, message),) = looked(check_content, "npz", file.getvalue())
    assert (code, "a.npy: its header declares" in message) == ("WDS143", True)


def test_bytes_of_no_known_kind_are_not_looked_at() -> None:
    assert not any(map(has_decodable_content, ("bin", "pkl", "emb.f16", "url")))


@pytest.mark.parametrize(
    ("name", "data", "codes"),
    [
        ("json", b'{"a": NaN}', ["WDS158"]),
        ("json", b"[1, -Infinity]", ["WDS158"]),
        ("json", b'{"a": 1, "b": {"c": 1, "c": 1}}', ["WDS159"]),
        ("json", b'{"a": NaN, "a": 1}', ["WDS158", "WDS159"]),
        ("json", b'{"a": "NaN", "b": {"a": 1}}', []),
        ("jsonl", b'{"a": 1}\n\n{"a": 1, "a": 2}\n{"a": NaN}\n{"a": NaN}\n', ["WDS158", "WDS159"]),
        ("jsonl", b'{"a": NaN}\n{"a"}\n', ["WDS144"]),
    ],
)
def test_json_that_others_refuse_or_read_otherwise_is_told(
    looked: Looked, name: str, data: bytes, codes: list[str]
) -> None:
    assert [code for code, _ in looked(check_content, name, data)] == codes


def test_where_in_the_lines_it_is_is_said(looked: Looked) -> None:
    ((_, said),) = looked(check_content, "jsonl", b'{"a": 1}\n\n{"b": 1, "b": 2}\n')
    assert said == "line 3: an object has the name 'b' more than once"
