from __future__ import annotations

import io

import av
import pytest
from av.audio.stream import AudioStream

from tests.core.films import a_film, a_wav
from tests.core.medley import clip
from tests.loader.decoding.av.media import film, put_noise, sound
from wdsctl.core.errors import StorageError
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.decode_check import INTACT, check_stream_decodes


@pytest.mark.parametrize(
    ("data", "form"),
    [(clip(), "mp4"), (a_wav(), "wav"), (a_film("matroska", video="libvpx-vp9", audio="libopus"), "matroska")],
)
def test_whole_streams_are_sound(data: bytes, form: str) -> None:
    assert check_stream_decodes(ByteRangeFile.from_bytes(data), form) == INTACT


def test_what_ffmpeg_conceals_is_told_in_its_words() -> None:
    data = a_film("matroska", video="libx264", times=range(4))
    damaged = [data[:at] + bytes(8) + data[at + 8 :] for at in range(len(data) // 4, len(data), 41)]
    verdicts = [check_stream_decodes(ByteRangeFile.from_bytes(each), "matroska") for each in damaged]
    doubtful = [verdict for verdict in verdicts if verdict.outcome == "doubtful"]
    assert doubtful
    assert all("FFmpeg reports" in verdict.reason or "the checksum of" in verdict.reason for verdict in doubtful)
    assert any("FFmpeg reports" in verdict.reason for verdict in doubtful)


def test_a_cut_stream_and_no_stream_are_broken() -> None:
    assert check_stream_decodes(ByteRangeFile.from_bytes(clip()[:600]), "mp4").outcome == "broken"
    assert check_stream_decodes(ByteRangeFile.from_bytes(b"rubbish"), "ogg").outcome == "broken"
    assert check_stream_decodes(ByteRangeFile.from_bytes(b"rubbish"), "midi").outcome == "broken"


@pytest.mark.parametrize(("container", "video"), [("matroska", "libx264"), ("webm", "libvpx-vp9")])
def test_a_film_that_lacks_more_than_a_second_of_what_it_announces_is_broken(container: str, video: str) -> None:
    data = a_film(container, video=video, times=range(96))
    half, nearly, whole = (
        check_stream_decodes(ByteRangeFile.from_bytes(data[:size]), container)
        for size in (len(data) // 2, len(data) - 10, len(data))
    )

    assert (half.outcome, nearly.outcome, whole) == ("broken", "doubtful", INTACT)
    assert "its video ends after" in half.reason


def test_a_wav_that_was_cut_off_is_told_by_its_header() -> None:
    verdict = check_stream_decodes(ByteRangeFile.from_bytes(a_wav()[:-800]), "wav")
    assert (verdict.outcome, "800 more bytes" in verdict.reason) == ("doubtful", True)


def test_pictures_of_more_pixels_than_allowed_are_refused() -> None:
    verdict = check_stream_decodes(ByteRangeFile.from_bytes(clip()), "mp4", max_pixels=100)
    assert (verdict.outcome, "64 x 48" in verdict.reason) == ("too large", True)


def test_a_source_that_cannot_be_read_raises_its_own_error() -> None:
    def fails(_offset: int, _size: int) -> bytes:
        raise StorageError("the disk is gone", hint="mount it")

    with pytest.raises(StorageError, match="the disk is gone"):
        check_stream_decodes(ByteRangeFile(fails, 1000, head=clip()[:100]), "mp4")


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
    assert check_stream_decodes(whole(data), form) == INTACT

    for at in range(len(data) // 4, len(data) * 3 // 4, len(data) // 11):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert check_stream_decodes(whole(damaged), form).outcome != "sound"


def test_so_is_one_in_a_film_in_matroska() -> None:
    data = film("matroska", "libx264", audio="aac")
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1

    assert check_stream_decodes(whole(data), "matroska") == INTACT
    assert check_stream_decodes(whole(bytes(damaged)), "matroska").outcome == "doubtful"


@pytest.mark.parametrize("codec", ["s16", "s32"])
def test_flac_whose_samples_are_not_those_of_its_md5_is_told(codec: str) -> None:
    data = flac(codec)
    at = data.index(b"fLaC") + 8 + 18
    assert check_stream_decodes(whole(data), "flac") == INTACT
    assert check_stream_decodes(whole(data[:at] + bytes(16) + data[at + 16 :]), "flac") == INTACT  # it states none

    verdict = check_stream_decodes(whole(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]), "flac")

    assert (verdict.outcome, "the MD5 of its samples" in verdict.reason) == ("doubtful", True)


def test_the_same_words_of_two_files_are_told_of_both() -> None:
    data = bytearray(sound("ogg", "vorbis"))
    data[len(data) // 2] ^= 1

    first, second = (check_stream_decodes(whole(bytes(data)), "ogg") for _ in range(2))

    assert (first.outcome, second) == ("doubtful", first)


def test_a_transport_stream_whose_tables_are_damaged_is_a_verdict() -> None:
    data = film("mpegts", "libx264", audio="aac", times=range(24))
    for at in range(0, len(data) // 188 * 188, 188 * 7):
        damaged = data[: at + 9] + bytes([data[at + 9] ^ 0x20]) + data[at + 10 :]
        assert check_stream_decodes(whole(damaged), "mpegts").outcome in ("sound", "doubtful", "broken")


def whole(data: bytes) -> ByteRangeFile:
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


def test_the_log_of_the_process_is_as_it_was() -> None:
    before = av.logging.get_level()
    check_stream_decodes(ByteRangeFile.from_bytes(clip()), "mp4")
    assert av.logging.get_level() == before
