"""Every frame of every clip is the one that a straight decode of the whole film gives."""

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

from tests.loader.decoding.av.media import UNEVEN, Picture, film, pictures, pixels_of
from wdsctl.core.media.keyframes import KeyframeIndex, scan_keyframes
from wdsctl.loader.decoding.av import AVDecoder

FILMS: dict[str, dict[str, Any]] = {
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
#: Their frames are not shown when FFmpeg says, so they are counted.
COUNTED: dict[str, dict[str, Any]] = {
    "avi, B-frames": {"container": "avi", "codec": "mpeg4", "b_frames": 2},
    "avi, H.264, B-frames": {"container": "avi", "codec": "libx264", "b_frames": 2},
}


@cache
def made(name: str) -> bytes:
    return film(**{**FILMS, **COUNTED}[name])


@pytest.mark.parametrize("name", [*FILMS, *COUNTED])
def test_the_whole_film_is_a_straight_decode(name: str) -> None:
    data = AVDecoder(made(name)).get_video()

    assert_shows(data.video_clips[0], pictures(made(name)))
    assert (data.audio_clips, data.audio_timestamps) == ([], [])


@pytest.mark.parametrize("name", [*FILMS, *COUNTED])
def test_frames_are_counted_in_the_order_in_which_they_are_shown(name: str) -> None:
    frames = pictures(made(name))
    decoder = AVDecoder(made(name))
    draws = random.Random(name)
    starts = [draws.randrange(len(frames)) for _ in range(8)]
    ranges = [(start, start + draws.choice([0, 0, 1, 5, 30])) for start in starts]

    together, _ = decoder.get_video_clips(ranges, "frames")
    alone = [decoder.get_video_clips([each], "frames")[0][0] for each in ranges]

    for clips in (together, alone):
        for (start, end), clip in zip(ranges, clips, strict=True):
            assert_shows(clip, frames[start : end + 1])


@pytest.mark.parametrize("name", FILMS)
def test_a_clip_in_seconds_has_what_is_shown_from_its_start_to_its_end_inclusive(name: str) -> None:
    frames = pictures(made(name))
    draws = random.Random(name)
    starts = [draws.uniform(0, frames[-1].end - 0.01) for _ in range(5)]
    ranges = [(start, start + draws.choice([0, 0.02, 0.5])) for start in starts]
    ranges += [(frame.start, frame.start) for frame in draws.sample(frames[frames[0].start < 0 :], 3)]

    clips, times = AVDecoder(made(name)).get_video_clips(ranges)

    for (start, end), clip, (first, last) in zip(ranges, clips, times, strict=True):
        shown = within(frames, start, end)
        assert_shows(clip, shown)
        assert (first, last) == pytest.approx((shown[0].start, shown[-1].end), abs=1e-6)


def test_each_frame_of_a_stream_that_states_few_times_is_found_by_its_own() -> None:
    film_of_mpeg = made("mpg")

    for frame in pictures(film_of_mpeg):
        clips, times = AVDecoder(film_of_mpeg).get_video_clips([(frame.start, frame.start)])
        assert_shows(clips[0], [frame])
        assert times[0] == pytest.approx((frame.start, frame.end))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_clips_of_any_ranges_are_cuts_of_a_straight_decode(data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from(["mp4, B-frames", "mp4, open groups", "mkv, uneven, rotated", "mp4, uneven, rotated"])
    )
    frames = pictures(made(name))
    moments = st.floats(0, frames[-1].end + 1)
    ranges = [(min(pair), max(pair)) for pair in data.draw(st.lists(st.tuples(moments, moments), max_size=4))]

    clips, _ = AVDecoder(made(name)).get_video_clips(ranges)

    expected = [within(frames, start, end) for start, end in ranges if start < frames[-1].end - 1e-9]
    assert len(clips) == len(expected)
    for clip, shown in zip(clips, expected, strict=True):
        assert_shows(clip, shown)


def test_ranges_past_the_end_give_no_entry_and_the_others_do() -> None:
    decoder = AVDecoder(made("mp4, B-frames"))

    assert decoder.get_video_clips([(99, 100)]) == ([], [])
    assert decoder.get_video_clips([(60, 70)], "frames") == ([], [])
    clips, times = decoder.get_video_clips([(99, 100), (1, 1), (2.4, 99)])
    assert [len(clip) for clip in clips] == [1, 3]
    assert times == [(1.0, pytest.approx(25 / 24)), (pytest.approx(57 / 24), 2.5)]


@pytest.mark.parametrize("audio", ["", "aac"])
def test_a_broadcast_whose_clock_begins_anew_begins_at_0(audio: str) -> None:
    day = int((2**33 / 90_000 - 1) * 24)  # a second before the clock of 33 bits is over
    medium = film("mpegts", "libx264", start=day, audio=audio)
    with av.open(io.BytesIO(medium), "r") as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(container.streams.video[0])]

    clips, times = AVDecoder(medium).get_video_clips([(0, 9), (2, 9)])

    assert times[0] == pytest.approx((0, 2.5), abs=0.05)
    assert np.array_equal(pixels_of(clips[0]), frames)
    assert np.array_equal(pixels_of(clips[1]), frames[-clips[1].shape[0] :])
    assert times[1] == pytest.approx((2, 2.5), abs=0.05)


def test_clips_come_in_the_order_asked_for_and_may_overlap() -> None:
    decoder = AVDecoder(made("webm, VP9"))
    frames = pictures(made("webm, VP9"))

    clips, _ = decoder.get_video_clips([(50, 55), (0, 9), (5, 20), (50, 52)], "frames")

    for (start, end), clip in zip([(50, 55), (0, 9), (5, 20), (50, 52)], clips, strict=True):
        assert_shows(clip, frames[start : end + 1])


@pytest.mark.parametrize("name", ["mp4, B-frames", "mkv", "webm, VP9", "mkv, uneven, rotated"])
def test_an_index_from_elsewhere_gives_the_same_frames(name: str) -> None:
    frames = pictures(made(name))
    index = index_of(made(name))
    decoder = AVDecoder(made(name), index=KeyframeIndex.from_bytes(index.to_bytes()))

    for start, end in ((0, 0), (11, 13), (len(frames) // 2, len(frames) // 2), (len(frames) - 2, 999)):
        assert_shows(decoder.get_video_clips([(start, end)], "frames")[0][0], frames[start : end + 1])
    assert decoder.get_video_duration(get_frame_count=True)[1] == len(frames)
    moment = frames[len(frames) // 2].start
    assert_shows(decoder.get_video_clips([(moment, moment)])[0][0], within(frames, moment, moment))


def test_frames_of_an_avi_are_found_by_an_index_though_it_cannot_be_sought_to_any_time() -> None:
    medium = made("avi, H.264")
    index = index_of(medium)

    for number, frame in enumerate(pictures(medium)):
        assert_shows(AVDecoder(medium, index=index).get_video_clips([(number, number)], "frames")[0][0], [frame])


def test_by_its_index_an_uneven_film_ends_with_its_last_frame_whatever_others_claim() -> None:
    medium = film("mp4", "libx264", b_frames=2, times=(0, 1, 2, 5, 6, 20, 21, 22, 50, 51, 60, 90, 91))
    frames = pictures(medium)
    assert max(frame.end for frame in frames) > frames[-1].end

    duration, _ = AVDecoder(medium, index=index_of(medium)).get_video_duration()

    assert duration == pytest.approx(frames[-1].end)


def index_of(data: bytes) -> KeyframeIndex:
    with av.open(io.BytesIO(data), "r") as container:
        scan = scan_keyframes(container, container.streams.video[0])
        assert scan is not None
        return scan.index


def within(frames: Sequence[Picture], start: float, end: float) -> list[Picture]:
    """What is on the screen at the start (before the film: its first frame), and what follows up to the end."""
    first = max((i for i, frame in enumerate(frames) if frame.start <= start + 1e-9), default=0)
    return [frames[first], *(frame for frame in frames[first + 1 :] if frame.start <= end + 1e-9)]


def assert_shows(clip: Any, frames: Sequence[Picture]) -> None:
    found = pixels_of(clip)
    assert len(found) == len(frames)
    assert all(np.array_equal(one, frame.pixels) for one, frame in zip(found, frames, strict=True))
