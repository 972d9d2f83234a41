"""Every frame of every clip equals the frame of a sequential decode of the whole video."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.decoding.av.media import UNEVEN, Frame, decode_frames, make_video, pixels_of
from wdsctl.core.media.keyframes import KeyframeIndex, scan_keyframes
from wdsctl.loader.decoding.av import AVDecoder

VIDEOS: dict[str, dict[str, Any]] = {
    "mp4, B-frames": {"container": "mp4", "codec": "libx264", "b_frames": 3, "audio": "aac"},
    "mp4, open groups": {
        "container": "mp4",
        "codec": "libx264",
        "b_frames": 3,
        "gop": 10,
        "options": {"x264-params": "open-gop=1:scenecut=0"},
    },
    "mp4, refreshed bit by bit": {
        "container": "mp4",
        "codec": "libx264",
        "options": {"x264-params": "intra-refresh=1"},
    },
    "mp4, H.265": {"container": "mp4", "codec": "libx265", "b_frames": 2, "options": {"x265-params": "log-level=0"}},
    "mp4, keyframes alone": {"container": "mp4", "codec": "libx264", "gop": 1},
    "mp4, fragments": {
        "container": "mp4",
        "codec": "libx264",
        "b_frames": 2,
        "container_options": {"movflags": "frag_keyframe+empty_moov"},
    },
    "mp4, begins at 5 s": {"container": "mp4", "codec": "libx264", "b_frames": 3, "start": 120, "audio": "aac"},
    "mp4, uneven, rotated": {
        "container": "mp4",
        "codec": "libx264",
        "b_frames": 2,
        "times": UNEVEN,
        "rotation": 90,
    },
    "mov": {"container": "mov", "codec": "libx264", "b_frames": 2},
    "mkv": {"container": "matroska", "codec": "libx264", "b_frames": 3, "audio": "libopus", "start": 120},
    "mkv, uneven, rotated": {
        "container": "matroska",
        "codec": "libx264",
        "b_frames": 2,
        "times": UNEVEN,
        "rotation": -90,
    },
    "webm, VP9": {"container": "webm", "codec": "libvpx-vp9", "audio": "libopus", "options": {"cpu-used": "8"}},
    "avi": {"container": "avi", "codec": "mpeg4", "audio": "libmp3lame"},
    "avi, H.264": {"container": "avi", "codec": "libx264"},
    "flv": {"container": "flv", "codec": "libx264", "b_frames": 2, "audio": "aac"},
    "mpg": {"container": "mpeg", "codec": "mpeg2video", "b_frames": 2},
    "ts": {"container": "mpegts", "codec": "libx264", "b_frames": 2, "audio": "aac", "start": 240},
}
#: FFmpeg's timestamps of these frames are wrong, so frames are counted.
COUNTED: dict[str, dict[str, Any]] = {
    "avi, B-frames": {"container": "avi", "codec": "mpeg4", "b_frames": 2},
    "avi, H.264, B-frames": {"container": "avi", "codec": "libx264", "b_frames": 2},
}


@cache
def a_video(name: str) -> bytes:
    return make_video(**{**VIDEOS, **COUNTED}[name])


@pytest.mark.parametrize("name", [*VIDEOS, *COUNTED])
def test_get_video_equals_sequential_decode(name: str) -> None:
    data = AVDecoder(a_video(name)).get_video()

    assert_shows(data.video_clips[0], decode_frames(a_video(name)))
    assert (data.audio_clips, data.audio_timestamps) == ([], [])


@pytest.mark.parametrize("name", [*VIDEOS, *COUNTED])
def test_frame_ranges_count_frames_in_presentation_order(name: str) -> None:
    frames = decode_frames(a_video(name))
    decoder = AVDecoder(a_video(name))
    rng = random.Random(name)
    starts = [rng.randrange(len(frames)) for _ in range(8)]
    ranges = [(start, start + rng.choice([0, 0, 1, 5, 30])) for start in starts]

    together, _ = decoder.get_video_clips(ranges, "frames")
    alone = [decoder.get_video_clips([each], "frames")[0][0] for each in ranges]

    for clips in (together, alone):
        for (start, end), clip in zip(ranges, clips, strict=True):
            assert_shows(clip, frames[start : end + 1])


@pytest.mark.parametrize("name", VIDEOS)
def test_clip_in_seconds_has_frames_shown_from_start_to_end_inclusive(name: str) -> None:
    frames = decode_frames(a_video(name))
    rng = random.Random(name)
    starts = [rng.uniform(0, frames[-1].end - 0.01) for _ in range(5)]
    ranges = [(start, start + rng.choice([0, 0.02, 0.5])) for start in starts]
    ranges += [(frame.start, frame.start) for frame in rng.sample(frames[frames[0].start < 0 :], 3)]

    clips, times = AVDecoder(a_video(name)).get_video_clips(ranges)

    for (start, end), clip, (first, last) in zip(ranges, clips, times, strict=True):
        shown = frames_within(frames, start, end)
        assert_shows(clip, shown)
        assert (first, last) == pytest.approx((shown[0].start, shown[-1].end), abs=1e-6)


def test_mpeg_frames_with_few_timestamps_are_found_by_time() -> None:
    mpeg = a_video("mpg")

    for frame in decode_frames(mpeg):
        clips, times = AVDecoder(mpeg).get_video_clips([(frame.start, frame.start)])
        assert_shows(clips[0], [frame])
        assert times[0] == pytest.approx((frame.start, frame.end))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_clips_of_random_ranges_equal_slices_of_sequential_decode(data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from(["mp4, B-frames", "mp4, open groups", "mkv, uneven, rotated", "mp4, uneven, rotated"])
    )
    frames = decode_frames(a_video(name))
    moments = st.floats(0, frames[-1].end + 1)
    ranges = [(min(pair), max(pair)) for pair in data.draw(st.lists(st.tuples(moments, moments), max_size=4))]

    clips, _ = AVDecoder(a_video(name)).get_video_clips(ranges)

    expected = [frames_within(frames, start, end) for start, end in ranges if start < frames[-1].end - 1e-9]
    assert len(clips) == len(expected)
    for clip, shown in zip(clips, expected, strict=True):
        assert_shows(clip, shown)


def test_ranges_past_end_return_no_clip() -> None:
    decoder = AVDecoder(a_video("mp4, B-frames"))

    assert decoder.get_video_clips([(99, 100)]) == ([], [])
    assert decoder.get_video_clips([(60, 70)], "frames") == ([], [])
    clips, times = decoder.get_video_clips([(99, 100), (1, 1), (2.4, 99)])
    assert [len(clip) for clip in clips] == [1, 3]
    assert times == [(1.0, pytest.approx(25 / 24)), (pytest.approx(57 / 24), 2.5)]


@pytest.mark.parametrize("audio", ["", "aac"])
def test_mpegts_clock_wraparound_starts_at_zero(audio: str) -> None:
    day = int((2**33 / 90_000 - 1) * 24)  # a second before the 33-bit clock wraps around
    medium = make_video("mpegts", "libx264", start=day, audio=audio)
    with av.open(io.BytesIO(medium), "r") as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(container.streams.video[0])]

    clips, times = AVDecoder(medium).get_video_clips([(0, 9), (2, 9)])

    assert times[0] == pytest.approx((0, 2.5), abs=0.05)
    assert np.array_equal(pixels_of(clips[0]), frames)
    assert np.array_equal(pixels_of(clips[1]), frames[-clips[1].shape[0] :])
    assert times[1] == pytest.approx((2, 2.5), abs=0.05)


def test_clips_keep_requested_order_and_may_overlap() -> None:
    decoder = AVDecoder(a_video("webm, VP9"))
    frames = decode_frames(a_video("webm, VP9"))

    clips, _ = decoder.get_video_clips([(50, 55), (0, 9), (5, 20), (50, 52)], "frames")

    for (start, end), clip in zip([(50, 55), (0, 9), (5, 20), (50, 52)], clips, strict=True):
        assert_shows(clip, frames[start : end + 1])


@pytest.mark.parametrize("name", ["mp4, B-frames", "mkv", "webm, VP9", "mkv, uneven, rotated"])
def test_stored_keyframe_index_returns_same_frames(name: str) -> None:
    frames = decode_frames(a_video(name))
    index = index_of(a_video(name))
    decoder = AVDecoder(a_video(name), index=KeyframeIndex.from_bytes(index.to_bytes()))

    for start, end in ((0, 0), (11, 13), (len(frames) // 2, len(frames) // 2), (len(frames) - 2, 999)):
        assert_shows(decoder.get_video_clips([(start, end)], "frames")[0][0], frames[start : end + 1])
    assert decoder.get_video_duration(get_frame_count=True)[1] == len(frames)
    moment = frames[len(frames) // 2].start
    assert_shows(decoder.get_video_clips([(moment, moment)])[0][0], frames_within(frames, moment, moment))


def test_keyframe_index_finds_avi_frames_without_exact_seek() -> None:
    medium = a_video("avi, H.264")
    index = index_of(medium)

    for number, frame in enumerate(decode_frames(medium)):
        assert_shows(AVDecoder(medium, index=index).get_video_clips([(number, number)], "frames")[0][0], [frame])


def test_indexed_duration_of_uneven_video_ends_with_last_frame() -> None:
    medium = make_video("mp4", "libx264", b_frames=2, times=(0, 1, 2, 5, 6, 20, 21, 22, 50, 51, 60, 90, 91))
    frames = decode_frames(medium)
    assert max(frame.end for frame in frames) > frames[-1].end

    duration, _ = AVDecoder(medium, index=index_of(medium)).get_video_duration()

    assert duration == pytest.approx(frames[-1].end)


def index_of(data: bytes) -> KeyframeIndex:
    with av.open(io.BytesIO(data), "r") as container:
        scan = scan_keyframes(container, container.streams.video[0])
        assert scan is not None
        return scan.index


def frames_within(frames: Sequence[Frame], start: float, end: float) -> list[Frame]:
    """The frame on screen at the start (before the video: its first frame), and all later ones up to the end."""
    first = max((i for i, frame in enumerate(frames) if frame.start <= start + 1e-9), default=0)
    return [frames[first], *(frame for frame in frames[first + 1 :] if frame.start <= end + 1e-9)]


def assert_shows(clip: Any, frames: Sequence[Frame]) -> None:
    pixels = pixels_of(clip)
    assert len(pixels) == len(frames)
    assert all(np.array_equal(one, frame.pixels) for one, frame in zip(pixels, frames, strict=True))
