from __future__ import annotations

import pytest

from tests.core.media_files import a_media_file, a_wav
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import AudioFacts
from wdsctl.core.media.kinds import USUAL_EXTENSION, part_kind
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.sniff import SniffedContent, sniff


def test_sniff_detects_heic_and_avif_by_brand() -> None:
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
def test_sniff_detects_video_formats(container: str, codec: str, form: str) -> None:
    video = a_media_file(container, video=codec)

    assert sniff(video) == SniffedContent("video", form)
    assert sniff(video[:1024], len(video)) == SniffedContent("video", form)


@pytest.mark.parametrize(("container", "codec"), [("mp4", "aac"), ("matroska", "libopus"), ("webm", "libopus")])
def test_sniff_classifies_video_with_audio_as_video(container: str, codec: str) -> None:
    video = a_media_file(container, video="libvpx-vp9", audio=codec)

    assert sniff(video).kind == "video"


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
def test_sniff_detects_audio_formats(container: str, codec: str, form: str) -> None:
    assert sniff(a_media_file(container, audio=codec)) == SniffedContent("audio", form)


def test_sniff_detects_audio_only_mp4_by_table_of_contents() -> None:
    sound = a_media_file("mp4", audio="aac")

    assert sniff(sound) == SniffedContent("audio", "m4a")
    assert sniff(sound[:500], len(sound)) == SniffedContent("video", "mp4")


def test_sniff_detects_mp3_without_tag_by_two_frames() -> None:
    sound = a_media_file("mp3", audio="libmp3lame", options={"id3v2_version": "0", "write_xing": "0"})

    assert sound[:3] != b"ID3"
    assert sniff(sound) == SniffedContent("audio", "mp3")
    assert sniff(sound[:4] + bytes(4000)) == SniffedContent("binary")


def test_sniff_distinguishes_ogg_video_and_audio() -> None:
    def page(payload: bytes) -> bytes:
        return b"OggS\0\2" + bytes(20) + bytes([1, len(payload)]) + payload

    assert sniff(page(b"OpusHead....") + page(b"\x80theora....")) == SniffedContent("video", "ogg")
    assert sniff(page(b"fishead\0....") + page(b"\x01vorbis....")) == SniffedContent("audio", "ogg")
    assert sniff(b"OggS\0\2") == SniffedContent("audio", "ogg")


def test_sniff_detects_wav() -> None:
    assert sniff(a_wav()) == SniffedContent("audio", "wav")


def test_sniff_does_not_mistake_utf_16_bom_for_mp3() -> None:
    assert sniff("\ufeffhello there".encode("utf-16-le")) == SniffedContent("text", "utf-16")
    assert sniff("\ufeffhello there".encode("utf-16-be")) == SniffedContent("text", "utf-16")


def a_sphere() -> bytes:
    """NIST SPHERE: 800 samples of 16 bits at 8 kHz."""
    header = (
        "NIST_1A\n   1024\nchannel_count -i 1\nsample_rate -i 8000\nsample_n_bytes -i 2\nsample_byte_format -s2 01\n"
    )
    header += "sample_byte_format -s2 01\nsample_count -i 800\nsample_coding -s3 pcm\nend_head\n"
    return header.encode().ljust(1024) + bytes(1600)


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("sphere", a_sphere()),
        ("au", a_media_file("au", audio="pcm_s16be")),
        ("caf", a_media_file("caf", audio="pcm_s16le")),
        ("w64", a_media_file("w64", audio="pcm_s16le")),
    ],
)
def test_audio_of_older_recorders_is_audio(form: str, data: bytes) -> None:
    content = sniff(data)
    facts = probe_media(ByteRangeFile.from_bytes(data), content)

    assert content == SniffedContent("audio", form)
    assert isinstance(facts, AudioFacts)
    assert facts.samples == (800 if form == "sphere" else 16_000)
    assert part_kind(f"x.{USUAL_EXTENSION[form]}") == "audio"
