from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from tests.build import an_image
from tests.core.arrays import a_checkpoint, an_array, arrays
from tests.core.films import a_wav
from tests.core.medley import clip
from tests.loader.decoding.av.media import sound
from wdsctl.core.media.facts import ImageFacts
from wdsctl.core.validate.headers import check_header

Looked = Callable[..., list[tuple[str, str]]]


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
def test_sound_headers_are_sound(looked: Looked, name: str, data: bytes) -> None:
    assert looked(check_header, name, data, {}) == []


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
def test_a_damaged_header_is_told_with_what_is_wrong(looked: Looked, name: str, data: bytes, words: str) -> None:
    ((code, message),) = looked(check_header, name, data, {})
    assert (code, words in message) == ("WDS140", True), message


def test_arrays_of_objects_are_told_and_never_loaded(looked: Looked) -> None:
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    ((code, message),) = looked(check_header, "npy", file.getvalue(), {})
    assert (code, "Python objects" in message) == ("WDS140", True)


def test_a_header_that_promises_more_than_memory_allocates_nothing(looked: Looked) -> None:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 1 << 20)})
    ((code, message),) = looked(check_header, "npy", file.getvalue() + b"12345678", {})
    assert (code, "but there are 8" in message) == ("WDS140", True)


def test_an_archive_that_unpacks_to_too_much_is_told(looked: Looked) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(5):
            archive.writestr(f"{i}.npy", bytes(1 << 20))
    data = bytearray(file.getvalue())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    ((code, message),) = looked(check_header, "npz", bytes(data), {})
    assert (code, "it unpacks to" in message) == ("WDS140", True)


@pytest.mark.parametrize(
    ("name", "form", "codes"), [("jpg", "PNG", ["WDS142"]), ("jpeg", "JPEG", []), ("tif", "TIFF", [])]
)
def test_a_picture_under_the_name_of_another_format_is_a_warning(
    looked: Looked, name: str, form: str, codes: list[str]
) -> None:
    assert [code for code, _ in looked(check_header, name, an_image(form), {})] == codes


def test_a_medium_that_is_not_what_the_catalog_says_is_told_with_the_difference(looked: Looked) -> None:
    facts = ImageFacts(
        format="JPEG", mode="RGB", width=50, height=32, display_width=50, display_height=32, orientation=1
    )
    assert looked(check_header, "jpg", an_image("JPEG"), {(0, "jpg"): facts}) == [
        ("WDS141", "width is 48, but 50 in the catalog")
    ]


@pytest.mark.parametrize(
    ("name", "container", "codec", "said"),
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
def test_a_sound_under_the_name_of_another_container_is_a_warning(
    looked: Looked, name: str, container: str, codec: str, said: str
) -> None:
    found = looked(check_header, name, sound(container, codec, rate=48_000, seconds=0.3), {})

    assert [code for code, _ in found] == (["WDS142"] if said else [])
    assert all(message.startswith(said) for _, message in found)
