from __future__ import annotations

import av
import pytest

from tests.core.films import a_film, a_wav
from tests.core.medley import clip
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
    assert all("FFmpeg says" in verdict.reason for verdict in doubtful)


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


def test_the_log_of_the_process_is_as_it_was() -> None:
    before = av.logging.get_level()
    judge_stream(ByteRange.in_memory(clip()), "mp4")
    assert av.logging.get_level() == before
