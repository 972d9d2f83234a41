"""KeyframeIndex: a small value that round-trips through bytes."""

from __future__ import annotations

import io
from fractions import Fraction

import av
from hypothesis import given
from hypothesis import strategies as st

from tests.core.media_files import a_media_file
from wdsctl.core.errors import InputError
from wdsctl.core.media.keyframes import KeyframeIndex, KeyframeScan, scan_keyframes

NUMBERS = st.integers(-(1 << 62), 1 << 62)


@st.composite
def indexes(draw: st.DrawFn) -> KeyframeIndex:
    count = draw(st.integers(0, 20))
    columns = [tuple(draw(st.lists(NUMBERS, min_size=count, max_size=count))) for _ in range(3)]
    tick = Fraction(draw(st.integers(1, 1 << 31)), draw(st.integers(1, 1 << 31)))
    return KeyframeIndex(tick, draw(st.integers(0, 1 << 40)), draw(NUMBERS), draw(NUMBERS), *columns)


@given(indexes())
def test_keyframe_index_round_trips_through_bytes(index: KeyframeIndex) -> None:
    assert KeyframeIndex.from_bytes(index.to_bytes()) == index


@given(st.binary(max_size=40) | st.binary(max_size=40).map(b"WKI1".__add__))
def test_keyframe_index_from_bytes_raises_only_input_error(data: bytes) -> None:
    try:
        index = KeyframeIndex.from_bytes(data)
    except InputError:
        return
    assert len(index.pts) == len(index.frame_numbers) == len(index.byte_offsets)


def test_keyframe_index_of_one_hour_takes_few_kilobytes() -> None:
    every_5_s = range(720)
    index = KeyframeIndex(
        Fraction(1, 90_000),
        86_400,
        0,
        324_000_000,
        tuple(i * 450_000 for i in every_5_s),
        tuple(i * 120 for i in every_5_s),
        tuple(i * 2_500_000 + i % 7 * 1000 for i in every_5_s),
    )

    assert len(index.to_bytes()) < 9.1 * 720


def test_keyframe_at_tick_is_last_keyframe_not_after_tick() -> None:
    index = KeyframeIndex(Fraction(1, 10), 30, 5, 35, (5, 15, 25), (0, 10, 20), (0, 100, 200))

    assert [index.keyframe_at_tick(tick) for tick in (0, 5, 14, 15, 99)] == [0, 0, 0, 1, 2]


def test_scan_keyframes_lists_frames_in_display_order() -> None:
    times = [3, 4, 5, 6, 8, 9, 10, 15, 20, 21]
    scan = scan_video(a_media_file("mp4", video="libx264", times=times))

    assert scan is not None
    ticks = [tick * scan.index.time_base for tick in scan.pts]
    assert ticks == [Fraction(time, 24) for time in times]
    assert (scan.index.frames, scan.index.frame_numbers[0], scan.index.pts[0]) == (10, 0, scan.pts[0])
    assert scan.index.end > scan.pts[-1]


def test_scan_keyframes_without_display_times_is_none() -> None:
    assert scan_video(a_media_file("avi", video="libx264")) is None


def scan_video(data: bytes) -> KeyframeScan | None:
    with av.open(io.BytesIO(data), "r") as container:
        return scan_keyframes(container, container.streams.video[0])
