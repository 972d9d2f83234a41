"""RangeStream reads a part of a shard like a file: correct bytes, few reads, and no lost errors."""

from __future__ import annotations

import io
import random
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loader.decoding.av.media import add_pictures
from wdsctl.core.errors import StorageError
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.loader.decoding.av import AVDecoder, get_clips_uniform
from wdsctl.loader.decoding.av.media_source import RangeStream
from wdsctl.loader.samples.lazy_part import LazyPart

DATA = random.Random(0).randbytes(10_000)


class CountingStorage(LocalStorage):
    """Counts the bytes read."""

    def __init__(self) -> None:
        super().__init__("/")
        self.bytes = 0

    def read(self, path: str, offset: int, size: int) -> bytes:
        self.bytes += size
        return super().read(path, offset, size)


def stream(block: int, cached: int) -> RangeStream:
    return RangeStream(lambda at, size: DATA[at : at + size], len(DATA), block_bytes=block, cached_bytes=cached)


@given(st.lists(st.tuples(st.integers(0, 11_000), st.integers(-1, 5000)), max_size=20))
def test_range_stream_reads_like_bytes_io(reads: list[tuple[int, int]]) -> None:
    actual, expected = stream(block=64, cached=640), io.BytesIO(DATA)

    for place, size in reads:
        assert actual.seek(place) == expected.seek(place)
        assert actual.read(size) == expected.read(size)
        assert actual.tell() == expected.tell()


def test_range_stream_reads_blocks_once_and_long_ranges_at_once() -> None:
    reads: list[tuple[int, int]] = []

    def read(at: int, size: int) -> bytes:
        reads.append((at, size))
        return DATA[at : at + size]

    file = RangeStream(read, len(DATA), block_bytes=100)
    for place, size in ((0, 10), (50, 40), (150, 5), (0, 200), (250, 800), (9_990, 100)):
        file.seek(place)
        file.read(size)

    assert reads == [(0, 100), (100, 100), (200, 900), (9_900, 100)]
    assert file.fetched == 1200


def test_range_stream_caches_at_most_cached_bytes() -> None:
    file = stream(block=100, cached=300)
    for place in (0, 100, 200, 300, 200, 100, 0):
        file.seek(place)
        file.read(1)

    assert file.fetched == 500  # reading block 300 evicted block 0, and nothing else


def test_range_stream_keeps_read_error_and_returns_eof() -> None:
    def failing_read(at: int, size: int) -> bytes:
        raise StorageError("gone", hint="")

    file = RangeStream(failing_read, 100)

    assert file.read(10) == b""
    assert isinstance(file.failure, StorageError)


@cache
def ten_minutes(container: str) -> bytes:
    """A video of ten minutes at 12 frames per second, a keyframe every 10 s, with noise that compresses badly."""
    target = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (48, 256), dtype=np.uint8)
    with av.open(target, "w", format=container) as out:
        pictures = add_pictures(out, "libx264", gop=120, b_frames=2, options={"preset": "ultrafast", "tune": "grain"})
        for number in range(7200):
            grey = np.full((72, 64), 128, np.uint8)
            grey[:48] = np.roll(noise, number * 3, axis=1)[:, :64]
            frame = av.VideoFrame.from_ndarray(grey, format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, 12)
            out.mux(pictures.encode(frame))
        out.mux(pictures.encode(None))
    return target.getvalue()


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_five_clips_of_long_video_read_under_15_percent(container: str, tmp_path: Path) -> None:
    data = ten_minutes(container)
    (tmp_path / "a.tar").write_bytes(bytes(512) + data)
    storage = CountingStorage()

    part = LazyPart(str(tmp_path / "a.tar"), 512, len(data), storage)
    clips = get_clips_uniform(AVDecoder(part), 2, 5, request_video=True).video_clips

    assert {clip.shape for clip in clips} == {(25, 3, 48, 64)}
    assert storage.bytes < 0.15 * len(data)


def test_mp4_frame_number_seek_reads_under_10_percent(tmp_path: Path) -> None:
    data = ten_minutes("mp4")
    (tmp_path / "a.tar").write_bytes(data)
    storage = CountingStorage()

    decoder = AVDecoder(LazyPart(str(tmp_path / "a.tar"), 0, len(data), storage))
    _, times = decoder.get_video_clips([(5000, 5003)], "frames")

    assert times[0] == pytest.approx((5000 / 12, 5004 / 12), abs=0.05)
    assert storage.bytes < 0.1 * len(data)
