from __future__ import annotations

import io

import pytest

from tests.core.media_files import a_media_file, a_wav
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import AudioFacts, ImageFacts, Unreadable, VideoFacts
from wdsctl.core.samples.preview import PREVIEW_TEXT_CHARS, preview_part


def line(data: bytes) -> str:
    return preview_part(ByteRangeFile.from_bytes(data)).line


def a_picture(format_name: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (30, 20)).save(file, format_name)
    return file.getvalue()


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP"])
def test_image_preview_has_size_format_and_mode(format_name: str) -> None:
    shown = preview_part(ByteRangeFile.from_bytes(a_picture(format_name)))

    assert shown.line == f"30x20 {format_name} RGB"
    assert isinstance(shown.facts, ImageFacts)


def test_video_preview_has_size_codec_rate_duration_and_sound() -> None:
    shown = preview_part(ByteRangeFile.from_bytes(a_media_file("mp4", video="libx264", audio="aac")))

    assert shown.line == "64x48 h264 24 fps 0.33 s, sound: aac 2 ch 48 kHz"
    assert isinstance(shown.facts, VideoFacts)


def test_audio_preview_has_codec_channels_rate_and_duration() -> None:
    shown = preview_part(ByteRangeFile.from_bytes(a_wav()))

    assert shown.line == "pcm_s16le 1 ch 8 kHz 0.1 s"
    assert isinstance(shown.facts, AudioFacts)


def test_damaged_image_preview_has_format_and_problem() -> None:
    shown = preview_part(ByteRangeFile.from_bytes(a_picture("PNG")[:20]))

    assert shown.line == "png: its header is damaged or cut off"
    assert isinstance(shown.facts, Unreadable)


def test_preview_of_unknown_format_is_binary() -> None:
    assert line(bytes(range(256)) * 8) == "binary"


def test_text_preview_has_no_media_facts() -> None:
    assert preview_part(ByteRangeFile.from_bytes(b"words")).facts is None


def test_jpeg_xl_without_container_is_recognized_by_name() -> None:
    shown = preview_part(ByteRangeFile.from_bytes(b"\xff\x0a\x98\xc0"), "left.jxl")
    assert shown.line == "jxl: wdsctl cannot read jxl"


@pytest.mark.parametrize(
    ("data", "shown"),
    [(b"", "empty"), (b"two  words\nand\tmore ", "two words and more"), (b"42", "42"), ("é漢".encode(), "é漢")],
)
def test_text_preview_is_one_line(data: bytes, shown: str) -> None:
    assert line(data) == shown


def test_long_text_preview_is_truncated() -> None:
    shown = line(b"word " * 100)

    assert len(shown) == PREVIEW_TEXT_CHARS
    assert shown.endswith("…")


def test_preview_removes_control_characters() -> None:
    assert "\x1b" not in line(b"red \x1b[31m text and more of it")
