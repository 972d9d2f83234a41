from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from tests.build import an_image
from tests.core.arrays import a_checkpoint, an_array, arrays
from tests.core.media_files import a_wav
from tests.core.media_samples import clip
from tests.loader.decoding.av.media import make_audio
from wdsctl.core.media.facts import ImageFacts
from wdsctl.core.validate.headers import check_header

CheckPart = Callable[..., list[tuple[str, str]]]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("jpg", an_image("JPEG")),
        ("seg.png", an_image("PNG")),
        ("tga", an_image("TGA")),
        ("sgi", an_image("SGI")),
        ("bw", an_image("SGI")),
        ("pcx", an_image("PCX")),
        ("mp4", clip()),
        ("wav", a_wav()),
        ("npy", an_array()),
        ("npz", arrays()),
        ("pth", a_checkpoint()),
    ],
)
def test_valid_headers_give_no_finding(check_part: CheckPart, name: str, data: bytes) -> None:
    assert check_part(check_header, name, data, {}) == []


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("jpg", b"", "it is empty"),
        ("wav", b"", "it is empty"),
        ("mp4", b"", "it is empty"),
        ("npy", b"", "it is empty"),
        ("jpg", b"not a picture", "not an image, audio or video"),
        ("jpg", an_image("JPEG")[:60], "damaged or cut off"),
        ("mp4", clip()[:40], "FFmpeg cannot read it"),
        ("npy", b"\x93NUMPY\x01\x00rubbish" * 9, "its header is damaged"),
        ("npy", an_array()[:-1], "declares 24 bytes of data, but there are 23"),
        ("npz", b"rubbish", "not a zip archive"),
        ("npz", arrays()[:-30], "table of contents is damaged"),
        ("pt", b"rubbish", "not a zip archive"),
    ],
)
def test_damaged_header_is_reported_with_reason(check_part: CheckPart, name: str, data: bytes, words: str) -> None:
    ((code, message),) = check_part(check_header, name, data, {})
    assert (code, words in message) == ("WDS140", True), message


def test_object_arrays_are_reported_and_never_loaded(check_part: CheckPart) -> None:
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    ((code, message),) = check_part(check_header, "npy", file.getvalue(), {})
    assert (code, "Python objects" in message) == ("WDS140", True)


def test_header_with_oversized_shape_allocates_nothing(check_part: CheckPart) -> None:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 1 << 20)})
    ((code, message),) = check_part(check_header, "npy", file.getvalue() + b"12345678", {})
    assert (code, "but there are 8" in message) == ("WDS140", True)


def test_archive_that_unpacks_to_too_much_is_reported(check_part: CheckPart) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(5):
            archive.writestr(f"{i}.npy", bytes(1 << 20))
    data = bytearray(file.getvalue())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    ((code, message),) = check_part(check_header, "npz", bytes(data), {})
    assert (code, "it unpacks to" in message) == ("WDS140", True)


@pytest.mark.parametrize(
    ("name", "image_format", "codes"), [("jpg", "PNG", ["WDS142"]), ("jpeg", "JPEG", []), ("tif", "TIFF", [])]
)
def test_image_with_wrong_extension_is_warning(
    check_part: CheckPart, name: str, image_format: str, codes: list[str]
) -> None:
    assert [code for code, _ in check_part(check_header, name, an_image(image_format), {})] == codes


def test_media_facts_that_differ_from_catalog_are_reported(check_part: CheckPart) -> None:
    facts = ImageFacts(
        format="JPEG", mode="RGB", width=50, height=32, display_width=50, display_height=32, orientation=1
    )
    assert check_part(check_header, "jpg", an_image("JPEG"), {(0, "jpg"): facts}) == [
        ("WDS141", "width is 48, but 50 in the catalog")
    ]


@pytest.mark.parametrize(
    ("name", "container", "codec", "message_start"),
    [
        ("mp3", "wav", "pcm_s16le", "the extension is mp3, but the content is wav"),
        ("wav", "wav", "pcm_s16le", ""),
        ("flac", "ogg", "flac", "the extension is flac, but the content is ogg"),
        ("opus", "ogg", "libopus", ""),
        ("m4a", "ipod", "aac", ""),
        ("mkv", "webm", "libopus", ""),
        ("mp4", "matroska", "aac", "the extension is mp4, but the content is matroska"),
    ],
)
def test_audio_with_extension_of_other_container_is_warning(
    check_part: CheckPart, name: str, container: str, codec: str, message_start: str
) -> None:
    found = check_part(check_header, name, make_audio(container, codec, rate=48_000, seconds=0.3), {})

    assert [code for code, _ in found] == (["WDS142"] if message_start else [])
    assert all(message.startswith(message_start) for _, message in found)
