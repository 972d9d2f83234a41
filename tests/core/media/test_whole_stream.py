from __future__ import annotations

import io

import av
import pytest
from av.audio.stream import AudioStream

from tests.core.films import a_film, a_wav
from tests.core.medley import clip
from tests.loader.av.media import film, put_noise, sound
from wdsctl.core.errors import StorageError
from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.verdict import SOUND
from wdsctl.core.media.whole_stream import judge_stream


@pytest.mark.parametrize(
    ("data", "form"),
    [(clip(), "mp4"), (a_wav(), "wav"), (a_film("matroska", video="libvpx-vp9", audio="libopus"), "matroska")],
)
def test_whole_streams_are_sound(data: bytes, form: str) -> None:
    assert judge_stream(ByteRange.in_memory(data), form) == SOUND


def test_what_ffmpeg_conceals_is_told_in_its_words() -> None:
    data = a_film("matroska", video="libx264", times=range(4))
    damaged = [data[:at] + bytes(8) + data[at + 8 :] for at in range(len(data) // 4, len(data), 41)]
    verdicts = [judge_stream(ByteRange.in_memory(each), "matroska") for each in damaged]
    doubtful = [verdict for verdict in verdicts if verdict.is_ == "doubtful"]
    assert doubtful
    assert all("FFmpeg says" in verdict.reason or "the checksum of" in verdict.reason for verdict in doubtful)
    assert any("FFmpeg says" in verdict.reason for verdict in doubtful)


def test_a_cut_stream_and_no_stream_are_broken() -> None:
    assert judge_stream(ByteRange.in_memory(clip()[:600]), "mp4").is_ == "broken"
    assert judge_stream(ByteRange.in_memory(b"rubbish"), "ogg").is_ == "broken"
    assert judge_stream(ByteRange.in_memory(b"rubbish"), "midi").is_ == "broken"


@pytest.mark.parametrize(("container", "video"), [("matroska", "libx264"), ("webm", "libvpx-vp9")])
def test_a_film_that_lacks_more_than_a_second_of_what_it_announces_is_broken(container: str, video: str) -> None:
    data = a_film(container, video=video, times=range(96))
    half, nearly, whole = (
        judge_stream(ByteRange.in_memory(data[:size]), container)
        for size in (len(data) // 2, len(data) - 10, len(data))
    )

    assert (half.is_, nearly.is_, whole) == ("broken", "doubtful", SOUND)
    assert "its video ends after" in half.reason


def test_a_wav_that_was_cut_off_is_told_by_its_header() -> None:
    verdict = judge_stream(ByteRange.in_memory(a_wav()[:-800]), "wav")
    assert (verdict.is_, "800 more bytes" in verdict.reason) == ("doubtful", True)


def test_pictures_of_more_pixels_than_allowed_are_refused() -> None:
    verdict = judge_stream(ByteRange.in_memory(clip()), "mp4", max_pixels=100)
    assert (verdict.is_, "64 x 48" in verdict.reason) == ("too large", True)


def test_a_source_that_cannot_be_read_raises_its_own_error() -> None:
    def fails(_offset: int, _size: int) -> bytes:
        raise StorageError("the disk is gone", hint="mount it")

    with pytest.raises(StorageError, match="the disk is gone"):
        judge_stream(ByteRange(fails, 1000, head=clip()[:100]), "mp4")


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
def test_a_bit_that_is_flipped_is_told_by_the_checksums_of_format_and_codec(
    container: str, codec: str, form: str
) -> None:
    data = sound(container, codec, rate=48_000)
    assert judge_stream(whole(data), form) == SOUND

    for at in range(len(data) // 4, len(data) * 3 // 4, len(data) // 11):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert judge_stream(whole(damaged), form).is_ != "sound"


def test_so_is_one_in_a_film_in_matroska() -> None:
    data = film("matroska", "libx264", audio="aac")
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1

    assert judge_stream(whole(data), "matroska") == SOUND
    assert judge_stream(whole(bytes(damaged)), "matroska").is_ == "doubtful"


@pytest.mark.parametrize("codec", ["s16", "s32"])
def test_flac_whose_samples_are_not_those_of_its_md5_is_told(codec: str) -> None:
    data = flac(codec)
    at = data.index(b"fLaC") + 8 + 18
    assert judge_stream(whole(data), "flac") == SOUND
    assert judge_stream(whole(data[:at] + bytes(16) + data[at + 16 :]), "flac") == SOUND  # it states none

    verdict = judge_stream(whole(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]), "flac")

    assert (verdict.is_, "the MD5 of its samples" in verdict.reason) == ("doubtful", True)


def test_the_same_words_of_two_files_are_told_of_both() -> None:
    data = bytearray(sound("ogg", "vorbis"))
    data[len(data) // 2] ^= 1

    first, second = (judge_stream(whole(bytes(data)), "ogg") for _ in range(2))

    assert (first.is_, second) == ("doubtful", first)


def test_a_transport_stream_whose_tables_are_damaged_is_a_verdict() -> None:
    data = film("mpegts", "libx264", audio="aac", times=range(24))
    for at in range(0, len(data) // 188 * 188, 188 * 7):
        damaged = data[: at + 9] + bytes([data[at + 9] ^ 0x20]) + data[at + 10 :]
        assert judge_stream(whole(damaged), "mpegts").is_ in ("sound", "doubtful", "broken")


def whole(data: bytes) -> ByteRange:
    return ByteRange(lambda at, size: data[at : at + size], len(data), most=3 * len(data), kept=64)


def flac(samples: str) -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format="flac") as out:
        stream = out.add_stream("flac", rate=48_000)
        assert isinstance(stream, AudioStream)
        stream.layout, stream.format = "stereo", samples
        put_noise(out, stream, 20_000, 0)
    return target.getvalue()


def test_the_log_of_the_process_is_as_it_was() -> None:
    before = av.logging.get_level()
    judge_stream(ByteRange.in_memory(clip()), "mp4")
    assert av.logging.get_level() == before
