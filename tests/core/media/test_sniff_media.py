from __future__ import annotations

import pytest

from tests.core.films import a_film, a_wav
from wdsctl.core.media.sniff import SniffedContent, sniff


def test_a_heic_image_is_known_by_its_brand() -> None:
    assert sniff(b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic" + bytes(40)) == SniffedContent("image", "heic")
    assert sniff(b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf" + bytes(40)) == SniffedContent("image", "avif")


@pytest.mark.parametrize(
    ("container", "codec", "form"),
    [
        ("mp4", "libx264", "mp4"),
        ("mov", "libx264", "mov"),
        ("matroska", "libx264", "matroska"),
        ("webm", "libvpx-vp9", "webm"),
        ("avi", "mpeg4", "avi"),
        ("flv", "flv", "flv"),
        ("mpegts", "libx264", "mpegts"),
    ],
)
def test_a_video_is_known_by_its_content(container: str, codec: str, form: str) -> None:
    film = a_film(container, video=codec)

    assert sniff(film) == SniffedContent("video", form)
    assert sniff(film[:1024], len(film)) == SniffedContent("video", form)


@pytest.mark.parametrize(("container", "codec"), [("mp4", "aac"), ("matroska", "libopus"), ("webm", "libopus")])
def test_a_video_with_sound_is_a_video(container: str, codec: str) -> None:
    film = a_film(container, video="libvpx-vp9", audio=codec)

    assert sniff(film).kind == "video"


@pytest.mark.parametrize(
    ("container", "codec", "form"),
    [
        ("ipod", "aac", "m4a"),
        ("ogg", "libopus", "ogg"),
        ("ogg", "flac", "ogg"),
        ("opus", "libopus", "ogg"),
        ("flac", "flac", "flac"),
        ("mp3", "libmp3lame", "mp3"),
        ("adts", "aac", "aac"),
        ("flv", "aac", "flv"),
        ("matroska", "libopus", "matroska"),
        ("webm", "libopus", "webm"),
    ],
)
def test_a_sound_is_known_by_its_content(container: str, codec: str, form: str) -> None:
    assert sniff(a_film(container, audio=codec)) == SniffedContent("audio", form)


def test_an_mp4_whose_table_of_contents_names_only_sound_is_audio() -> None:
    sound = a_film("mp4", audio="aac")

    assert sniff(sound) == SniffedContent("audio", "m4a")
    assert sniff(sound[:500], len(sound)) == SniffedContent("video", "mp4")


def test_an_mp3_without_a_tag_is_known_by_two_frames_in_a_row() -> None:
    sound = a_film("mp3", audio="libmp3lame", options={"id3v2_version": "0", "write_xing": "0"})

    assert sound[:3] != b"ID3"
    assert sniff(sound) == SniffedContent("audio", "mp3")
    assert sniff(sound[:4] + bytes(4000)) == SniffedContent("binary")


def test_an_ogg_with_pictures_is_a_video() -> None:
    def page(payload: bytes) -> bytes:
        return b"OggS\0\2" + bytes(20) + bytes([1, len(payload)]) + payload

    assert sniff(page(b"OpusHead....") + page(b"\x80theora....")) == SniffedContent("video", "ogg")
    assert sniff(page(b"fishead\0....") + page(b"\x01vorbis....")) == SniffedContent("audio", "ogg")
    assert sniff(b"OggS\0\2") == SniffedContent("audio", "ogg")


def test_a_wav_is_audio() -> None:
    assert sniff(a_wav()) == SniffedContent("audio", "wav")


def test_the_byte_order_mark_of_utf_16_is_no_mp3_frame() -> None:
    assert sniff("\ufeffhello there".encode("utf-16-le")) == SniffedContent("text", "utf-16")
    assert sniff("\ufeffhello there".encode("utf-16-be")) == SniffedContent("text", "utf-16")
