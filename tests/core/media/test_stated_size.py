"""What a file says of its size, and how much of that is missing."""

from __future__ import annotations

import pytest

from tests.core.films import a_film, a_wav
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.stream import count_missing_bytes

FILES = {
    "wav": a_wav(),
    "aiff": a_film("aiff", audio="pcm_s16be"),
    "avi": a_film("avi", video="mpeg4", audio="libmp3lame"),
    "matroska": a_film("matroska", video="libx264"),
    "webm": a_film("webm", video="libvpx-vp9"),
}


def missing(data: bytes, form: str) -> int:
    return count_missing_bytes(ByteRangeFile.from_bytes(data), form)


@pytest.mark.parametrize("form", FILES)
def test_of_a_whole_file_nothing_is_missing_whatever_comes_behind_it(form: str) -> None:
    assert missing(FILES[form], form) == 0
    assert missing(FILES[form] + b"TAG" + b"\xff" * 125, form) == 0


@pytest.mark.parametrize("form", ["wav", "matroska", "webm"])
@pytest.mark.parametrize("cut", [1, 100, 300])
def test_what_was_cut_off_is_counted(form: str, cut: int) -> None:
    assert missing(FILES[form][:-cut], form) == cut


@pytest.mark.parametrize("form", ["aiff", "avi"])
def test_of_chunks_the_one_with_the_samples_or_frames_counts(form: str) -> None:
    data = FILES[form]
    name = b"SSND" if form == "aiff" else b"movi"

    assert missing(data[: data.index(name) + 100], form) > 100


@pytest.mark.parametrize("size", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\xff\x7f"])
def test_who_wrote_to_a_pipe_did_not_know_the_size(size: bytes) -> None:
    at = FILES["wav"].index(b"data") + 4

    assert missing(FILES["wav"][:at] + size + FILES["wav"][at + 4 :], "wav") == 0


def test_a_segment_of_unknown_size_is_as_long_as_it_is() -> None:
    data = FILES["matroska"]
    at = data.index(b"\x18\x53\x80\x67") + 4

    assert missing(data[:at] + b"\x01" + b"\xff" * 7 + data[at + 8 : -100], "matroska") == 0


@pytest.mark.parametrize("form", [*FILES, "mp3"])
@pytest.mark.parametrize("size", [0, 1, 5, 13, 45])
def test_a_file_that_ends_in_its_header_says_nothing(form: str, size: int) -> None:
    assert missing(FILES.get(form, b"")[:size], form) >= 0
