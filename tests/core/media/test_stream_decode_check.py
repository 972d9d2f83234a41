from __future__ import annotations

import io

import av
import pytest
from av.audio.stream import AudioStream

from tests.core.media_files import a_media_file, a_wav
from tests.core.media_samples import clip
from tests.loader.decoding.av.media import make_audio, make_video, put_noise
from wdsctl.core.errors import StorageError
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.decode_check import INTACT, check_stream_decodes


@pytest.mark.parametrize(
    ("data", "form"),
    [(clip(), "mp4"), (a_wav(), "wav"), (a_media_file("matroska", video="libvpx-vp9", audio="libopus"), "matroska")],
)
def test_check_stream_decodes_accepts_complete_streams(data: bytes, form: str) -> None:
    assert check_stream_decodes(ByteRangeFile.from_bytes(data), form) == INTACT


def test_check_stream_decodes_reports_damage_that_ffmpeg_conceals() -> None:
    data = a_media_file("matroska", video="libx264", times=range(4))
    damaged = [data[:at] + bytes(8) + data[at + 8 :] for at in range(len(data) // 4, len(data), 41)]
    verdicts = [check_stream_decodes(ByteRangeFile.from_bytes(each), "matroska") for each in damaged]
    doubtful = [verdict for verdict in verdicts if verdict.outcome == "doubtful"]
    assert doubtful
    assert all("FFmpeg reports" in verdict.reason or "the checksum of" in verdict.reason for verdict in doubtful)
    assert any("FFmpeg reports" in verdict.reason for verdict in doubtful)


def test_truncated_stream_and_non_stream_are_broken() -> None:
    assert check_stream_decodes(ByteRangeFile.from_bytes(clip()[:600]), "mp4").outcome == "broken"
    assert check_stream_decodes(ByteRangeFile.from_bytes(b"rubbish"), "ogg").outcome == "broken"
    assert check_stream_decodes(ByteRangeFile.from_bytes(b"rubbish"), "midi").outcome == "broken"


@pytest.mark.parametrize(("container", "video"), [("matroska", "libx264"), ("webm", "libvpx-vp9")])
def test_video_that_lacks_more_than_one_second_is_broken(container: str, video: str) -> None:
    data = a_media_file(container, video=video, times=range(96))
    half, nearly, whole = (
        check_stream_decodes(ByteRangeFile.from_bytes(data[:size]), container)
        for size in (len(data) // 2, len(data) - 10, len(data))
    )

    assert (half.outcome, nearly.outcome, whole) == ("broken", "doubtful", INTACT)
    assert "its video ends after" in half.reason


def test_truncated_wav_is_doubtful_by_header_size() -> None:
    verdict = check_stream_decodes(ByteRangeFile.from_bytes(a_wav()[:-800]), "wav")
    assert (verdict.outcome, "800 more bytes" in verdict.reason) == ("doubtful", True)


def test_check_stream_decodes_refuses_too_many_pixels() -> None:
    verdict = check_stream_decodes(ByteRangeFile.from_bytes(clip()), "mp4", max_pixels=100)
    assert (verdict.outcome, "64 x 48" in verdict.reason) == ("too large", True)


def test_check_stream_decodes_raises_storage_error() -> None:
    def raise_storage_error(_offset: int, _size: int) -> bytes:
        raise StorageError("the disk is gone", hint="mount it")

    with pytest.raises(StorageError, match="the disk is gone"):
        check_stream_decodes(ByteRangeFile(raise_storage_error, 1000, head=clip()[:100]), "mp4")


@pytest.mark.parametrize(
    ("container", "codec", "form"),
    [
        ("flac", "flac", "flac"),
        ("ogg", "flac", "ogg"),
        ("ogg", "vorbis", "ogg"),
        ("ogg", "libopus", "ogg"),
        ("mp4", "flac", "mp4"),
        ("matroska", "flac", "matroska"),
        ("matroska", "aac", "matroska"),
        ("matroska", "ac3", "matroska"),
    ],
)
def test_flipped_bit_in_audio_is_detected_by_checksums(container: str, codec: str, form: str) -> None:
    data = make_audio(container, codec, rate=48_000)
    assert check_stream_decodes(byte_range_file(data), form) == INTACT

    for at in range(len(data) // 4, len(data) * 3 // 4, len(data) // 11):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert check_stream_decodes(byte_range_file(damaged), form).outcome != "sound"


def test_flipped_bit_in_matroska_video_is_detected() -> None:
    data = make_video("matroska", "libx264", audio="aac")
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1

    assert check_stream_decodes(byte_range_file(data), "matroska") == INTACT
    assert check_stream_decodes(byte_range_file(bytes(damaged)), "matroska").outcome == "doubtful"


@pytest.mark.parametrize("codec", ["s16", "s32"])
def test_flac_with_wrong_md5_of_samples_is_doubtful(codec: str) -> None:
    data = flac(codec)
    at = data.index(b"fLaC") + 8 + 18
    assert check_stream_decodes(byte_range_file(data), "flac") == INTACT
    without_md5 = data[:at] + bytes(16) + data[at + 16 :]
    assert check_stream_decodes(byte_range_file(without_md5), "flac") == INTACT

    verdict = check_stream_decodes(byte_range_file(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]), "flac")

    assert (verdict.outcome, "the MD5 of its samples" in verdict.reason) == ("doubtful", True)


def test_same_ffmpeg_messages_are_reported_for_each_file() -> None:
    data = bytearray(make_audio("ogg", "vorbis"))
    data[len(data) // 2] ^= 1

    first, second = (check_stream_decodes(byte_range_file(bytes(data)), "ogg") for _ in range(2))

    assert (first.outcome, second) == ("doubtful", first)


def test_transport_stream_with_damaged_tables_gets_verdict() -> None:
    data = make_video("mpegts", "libx264", audio="aac", times=range(24))
    for at in range(0, len(data) // 188 * 188, 188 * 7):
        damaged = data[: at + 9] + bytes([data[at + 9] ^ 0x20]) + data[at + 10 :]
        assert check_stream_decodes(byte_range_file(damaged), "mpegts").outcome in ("sound", "doubtful", "broken")


def byte_range_file(data: bytes) -> ByteRangeFile:
    return ByteRangeFile(
        lambda at, size: data[at : at + size], len(data), max_read_bytes=3 * len(data), max_kept_pages=64
    )


def flac(samples: str) -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format="flac") as out:
        stream = out.add_stream("flac", rate=48_000)
        assert isinstance(stream, AudioStream)
        stream.layout, stream.format = "stereo", samples
        put_noise(out, stream, 20_000, 0)
    return target.getvalue()


def test_check_stream_decodes_restores_av_log_level() -> None:
    before = av.logging.get_level()
    check_stream_decodes(ByteRangeFile.from_bytes(clip()), "mp4")
    assert av.logging.get_level() == before
