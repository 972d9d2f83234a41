"""count_missing_bytes compares the size that a media file states with the bytes that it has."""

from __future__ import annotations

import pytest

from tests.core.media_files import a_media_file, a_wav
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.stream_damage import count_missing_bytes

FILES = {
    "wav": a_wav(),
    "aiff": a_media_file("aiff", audio="pcm_s16be"),
    "avi": a_media_file("avi", video="mpeg4", audio="libmp3lame"),
    "matroska": a_media_file("matroska", video="libx264"),
    "webm": a_media_file("webm", video="libvpx-vp9"),
}


def missing(data: bytes, form: str) -> int:
    return count_missing_bytes(ByteRangeFile.from_bytes(data), form)


@pytest.mark.parametrize("form", FILES)
def test_count_missing_bytes_of_complete_file_is_zero(form: str) -> None:
    assert missing(FILES[form], form) == 0
    assert missing(FILES[form] + b"TAG" + b"\xff" * 125, form) == 0


@pytest.mark.parametrize("form", ["wav", "matroska", "webm"])
@pytest.mark.parametrize("cut", [1, 100, 300])
def test_count_missing_bytes_counts_truncated_bytes(form: str, cut: int) -> None:
    assert missing(FILES[form][:-cut], form) == cut


@pytest.mark.parametrize("form", ["aiff", "avi"])
def test_count_missing_bytes_uses_chunk_of_samples_or_frames(form: str) -> None:
    data = FILES[form]
    name = b"SSND" if form == "aiff" else b"movi"

    assert missing(data[: data.index(name) + 100], form) > 100


@pytest.mark.parametrize("size", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\xff\x7f"])
def test_count_missing_bytes_ignores_placeholder_size_of_wav(size: bytes) -> None:
    at = FILES["wav"].index(b"data") + 4

    assert missing(FILES["wav"][:at] + size + FILES["wav"][at + 4 :], "wav") == 0


def test_count_missing_bytes_ignores_unknown_segment_size() -> None:
    data = FILES["matroska"]
    at = data.index(b"\x18\x53\x80\x67") + 4

    assert missing(data[:at] + b"\x01" + b"\xff" * 7 + data[at + 8 : -100], "matroska") == 0


@pytest.mark.parametrize("form", [*FILES, "mp3"])
@pytest.mark.parametrize("size", [0, 1, 5, 13, 45])
def test_count_missing_bytes_accepts_file_truncated_in_header(form: str, size: int) -> None:
    assert missing(FILES.get(form, b"")[:size], form) >= 0
