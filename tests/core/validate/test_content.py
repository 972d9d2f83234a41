from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from tests.build import an_image
from tests.core.arrays import a_checkpoint, an_array, arrays
from tests.core.media_files import a_wav
from tests.core.media_samples import clip
from wdsctl.core.validate.content import check_content, has_decodable_content

CheckPart = Callable[..., list[tuple[str, str]]]


def flip_bit(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at:][1:]


def make_malicious_checkpoint() -> bytes:
    class Malicious:
        def __reduce__(self) -> tuple[object, ...]:
            return (print, ("run",))

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Malicious()))
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
def test_decodable_content_gives_no_finding(check_part: CheckPart, name: str, data: bytes) -> None:
    assert has_decodable_content(name)
    assert check_part(check_content, name, data) == []


@pytest.mark.parametrize(
    ("name", "data", "code", "words"),
    [
        ("jpg", an_image("JPEG")[:-200], "WDS143", "it "),
        ("png", flip_bit(an_image("PNG"), -14), "WDS147", "the checksum of its chunk IDAT"),
        ("json", b"", "WDS144", "at character 0"),
        ("cls", b"", "WDS143", "not a whole number: b''"),
        ("json", b'{"a": }', "WDS144", "at character 6"),
        ("json", b"[" * 100_000, "WDS144", "nested too deep"),
        ("json", b"1" * 5000, "WDS144", "more than 100 digits"),
        ("json", '{"a": "é"}'.encode("latin-1"), "WDS145", "not UTF-8"),
        ("json", '{"a": 1}'.encode("utf-16"), "WDS145", "not UTF-8"),
        ("jsonl", b'{"a": 1}\n{"a"\n', "WDS144", "line 2"),
        ("txt", b"\xff\xfe", "WDS145", "byte 0"),
        ("cls", b"seven", "WDS143", "not a whole number: b'seven'"),
        ("npy", an_array()[:-4], "WDS143", "declares 24 bytes"),
        ("npy", b"\x93NUMPY\x01\x00\x76\x00" + b"{" * 118, "WDS143", "its header is damaged"),
        ("npz", flip_bit(arrays(), 60), "WDS143", "damaged"),
        ("pth", a_checkpoint().replace(b"ctorch", b"cos\nxx", 1), "WDS143", "damaged"),
        ("pth", make_malicious_checkpoint(), "WDS143", "never loads"),
        ("wav", a_wav()[:20], "WDS143", "FFmpeg"),
        ("mp4", clip()[: len(clip()) // 2], "WDS143", "can be decoded"),
    ],
)
def test_undecodable_content_is_reported_with_reason(
    check_part: CheckPart, name: str, data: bytes, code: str, words: str
) -> None:
    ((found, message),) = check_part(check_content, name, data)
    assert found.startswith(code), (found, message)
    assert words in message


def test_oversized_image_is_refused_by_its_header(check_part: CheckPart) -> None:
    png = bytearray(an_image("PNG"))
    png[16:24] = (60_000).to_bytes(4, "big") * 2
    import zlib

    png[29:33] = zlib.crc32(png[12:29]).to_bytes(4, "big")
    ((code, message),) = check_part(check_content, "png", bytes(png))
    assert (code, "pixels" in message) == ("WDS146", True)


def test_archive_bomb_is_refused_by_its_table_of_contents(check_part: CheckPart) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(1 << 20))
    data = bytearray(file.getvalue())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    assert [code for code, _ in check_part(check_content, "npz", bytes(data))] == ["WDS146"]


def test_array_with_false_shape_in_archive_allocates_nothing(check_part: CheckPart) -> None:
    inner = io.BytesIO()
    np.lib.format.write_array_header_1_0(inner, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", inner.getvalue())
    ((code, message),) = check_part(check_content, "npz", file.getvalue())
    assert (code, "a.npy: its header declares" in message) == ("WDS143", True)


def test_content_of_unknown_kinds_is_not_checked() -> None:
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
def test_non_standard_json_is_reported(check_part: CheckPart, name: str, data: bytes, codes: list[str]) -> None:
    assert [code for code, _ in check_part(check_content, name, data)] == codes


def test_finding_in_jsonl_names_line(check_part: CheckPart) -> None:
    ((_, message),) = check_part(check_content, "jsonl", b'{"a": 1}\n\n{"b": 1, "b": 2}\n')
    assert message == "line 3: an object has the name 'b' more than once"
