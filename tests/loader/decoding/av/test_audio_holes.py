"""A clip of samples [a, b) is `get_audio()[a:b]`, whatever the timestamps in the file: holes, edit lists, priming."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.decoding.av.media import make_audio, make_video, samples
from wdsctl.core.errors import SampleFailed
from wdsctl.loader.decoding.av import AVDecoder

FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}


class Medium(NamedTuple):
    source: tuple[str, ...]  # container, codecs
    container: str
    options: tuple[tuple[str, str], ...] = ()
    holes: tuple[tuple[int, float], ...] = ()  # (audio packet after the hole, seconds); negative seconds: an overlap
    lost: tuple[int, ...] = ()  # dropped audio packets, which leave a hole

    def __str__(self) -> str:
        return " ".join(map(str, (*self.source, self.container, dict(self.options), self.holes, self.lost)))


_HOLES: tuple[tuple[tuple[int, float], ...], ...] = (
    (),
    ((1, 0.05),),  # after the first frame, as a remux leaves it
    ((30, 0.4),),
    ((3, 0.003), (40, 0.01), (60, 1.5)),
    ((5, 0.0007), (6, 0.0007), (7, 0.0007), (8, 0.0007), (9, 0.0007)),  # each shorter than a millisecond
)
_FRAGMENTS = tuple(FRAGMENTS.items())
_SOUNDS = [
    (("mp4", "aac"), ("mp4", "mov", "ipod", "matroska", "mpegts", "flv", "avi")),
    (("mp3", "libmp3lame"), ("mp4", "matroska", "mpegts", "avi", "flv")),
    (("ogg", "libopus"), ("ogg", "matroska", "webm", "mp4", "mpegts")),
    (("ogg", "vorbis"), ("ogg", "webm", "mp4")),
    (("flac", "flac"), ("matroska", "mp4", "ogg", "flac")),
    (("wav", "pcm_s16le"), ("matroska", "mov", "avi", "wav")),
    (("wav", "pcm_s24le"), ("mov",)),
]
MEDIA = [
    *(
        Medium(source, container, (), holes)
        for source, containers in _SOUNDS
        for container in containers
        for holes in _HOLES
    ),
    *(
        Medium(source, "mp4", _FRAGMENTS, holes)
        for source in (("mp4", "aac"), ("flac", "flac"), ("mp4", "libx264", "aac"))
        for holes in _HOLES
    ),
    *(
        Medium(("mp4", "libx264", "aac"), container, (), holes)
        for container in ("mp4", "mov", "matroska", "mpegts", "flv", "avi")
        for holes in _HOLES
    ),
    *(Medium(("webm", "libvpx-vp9", codec), "webm", (), holes) for codec in ("libopus", "vorbis") for holes in _HOLES),
    Medium(("mp4", "libx264", "aac"), "mp4", (("movflags", "frag_keyframe"),)),
    Medium(("mp4", "libx264", "aac"), "mp4", (("use_editlist", "0"),)),
    Medium(("mp4", "aac"), "mp4", (("movie_timescale", "600"),), ((20, 0.1),)),
    Medium(("mp3", "libmp3lame"), "avi", (), (), (50, 51)),
    Medium(("mp4", "aac"), "matroska", (), (), (40,)),
    Medium(("ogg", "libopus"), "ogg", (), (), (60, 61)),
]
SOURCES = sorted({medium.source for medium in MEDIA})


@given(st.sampled_from(MEDIA), st.data())
@settings(max_examples=40, deadline=None)
def test_clip_in_samples_is_slice_of_all_samples(medium: Medium, data: st.DataObject) -> None:
    content = remux(medium)
    if content is None:
        return
    whole = decode_all(content)
    place = st.integers(0, whole.shape[1] + 2000)
    ranges = [(min(pair), max(pair)) for pair in data.draw(st.lists(st.tuples(place, place), min_size=1, max_size=3))]
    assert_slices(content, whole, ranges)


def pairs_of(medium: Medium) -> set[Any]:
    """Returns its pairs of codec and container, codec and hole, and container and hole."""
    source, container, options, holes, lost = medium
    return {(source, container, options), (source[1:], holes), (container, holes), lost}


def some_of(media: Sequence[Medium]) -> list[Medium]:
    """Returns fewer media with the same pairs: each time the one that adds most of them."""
    missing = set().union(*map(pairs_of, media))
    some = []
    while missing:
        some.append(max(media, key=lambda medium: len(pairs_of(medium) & missing)))
        missing -= pairs_of(some[-1])
    return some


@pytest.mark.parametrize("source", SOURCES, ids=" ".join)
def test_late_clip_is_slice_of_all_samples_in_every_container(source: tuple[str, ...]) -> None:
    assert_late_clips_are_slices([medium for medium in some_of(MEDIA) if medium.source == source])


@pytest.mark.slow
def test_late_clip_is_slice_of_all_samples_for_every_hole_in_every_container() -> None:
    assert_late_clips_are_slices(MEDIA)


def assert_late_clips_are_slices(media: Sequence[Medium]) -> None:
    wrong: list[str] = []
    supported = 0
    for medium in media:
        content = remux(medium)
        if content is None:  # this container does not support this codec
            continue
        supported += 1
        whole = decode_all(content)
        count = whole.shape[1]
        try:
            assert_slices(content, whole, [(count * 2 // 3, count * 2 // 3 + 5000)])
            assert_slices(content, whole, [(0, 5000), (count // 2, count // 2 + 100), (count - 777, count + 50_000)])
        except (AssertionError, SampleFailed) as error:
            wrong.append(f"{medium}: {error}")
    assert supported
    assert wrong == []


def test_sample_numbers_of_fragmented_remux_skip_holes() -> None:
    source = make_video("mp4", "libx264", audio="aac", times=range(96), b_frames=2)
    content = copy_packets(source, "mp4", FRAGMENTS, [], ())
    decoder = AVDecoder(content)
    whole = decoder.get_audio().audio_clips[0].numpy()

    (clip,), ((start, end),) = decoder.get_audio_clips([(0, 5000)], "samples")

    assert np.array_equal(clip.numpy(), whole[:, :5000])
    assert start == 0
    assert end == pytest.approx((5000 + 2976) / 48_000)  # which includes the hole of 62 ms


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_clip_in_seconds_over_hole_is_shorter_by_hole(container: str) -> None:
    decoder = AVDecoder(copy_packets(make_audio("mp4", "aac"), container, {}, [(60, 0.5)], ()))
    whole = decoder.get_audio().audio_clips[0].numpy()
    hole = 60 * 1024 - 1024  # the first packet only primes the decoder

    (across, behind), times = decoder.get_audio_clips([(1.2, 2.2), (2.0, 2.5)])

    first = round(1.2 * 44_100)
    assert np.array_equal(across.numpy(), whole[:, first : first + across.shape[1]])
    assert across.shape[1] == pytest.approx(44_100 // 2, abs=100)
    assert times[0] == pytest.approx((1.2, 2.2), abs=0.002)
    late = round(2.0 * 44_100) - round(0.5 * 44_100)
    assert late > hole
    offset = next(i for i in range(late - 100, late + 100) if np.array_equal(behind[:, :500], whole[:, i : i + 500]))
    assert offset == pytest.approx(late, abs=100 if container == "matroska" else 1)


def test_resampled_clip_after_hole_starts_at_requested_time() -> None:
    """The hole is in the samples read before the clip, and is as long as 480 samples of the other rate."""
    content = copy_packets(make_audio("mp4", "aac"), "mp4", {}, [(60, 0.03)], ())
    plain, other = AVDecoder(content), AVDecoder(content, audio_rate=16_000, audio_format="float")
    whole = other.get_audio().audio_clips[0].numpy()
    hole = 59 * 1024 / 44_100

    for start in (hole + 0.05, hole + 0.04):
        (clip,), ((begin, end),) = other.get_audio_clips([(start, start + 0.1)])

        first = round(begin * 16_000) - 480
        assert (begin, end) == pytest.approx(plain.get_audio_clips([(start, start + 0.1)])[1][0], abs=2 / 16_000)
        assert np.abs(clip.numpy() - whole[:, first : first + 1600]).max() < 1e-5


def test_hole_over_one_second_is_not_reported_as_truncation() -> None:
    decoder = AVDecoder(copy_packets(make_audio("mp4", "aac"), "mp4", {}, [(60, 3)], ()))
    count = decoder.get_audio().audio_clips[0].shape[1]

    assert decoder.get_audio_clips([(count, count + 99_999)], "samples") == ([], [])
    assert decoder.get_audio_clips([(2, 3.5)]) == ([], [])
    assert decoder.get_audio_clips([(2, 9)])[0][0].shape[1] < 3 * 44_100


def test_flac_with_lost_frames_fails_only_for_clips_over_them() -> None:
    content = make_audio("flac", "flac")
    with av.open(io.BytesIO(content), "r") as container:
        frames = [packet.pos for packet in container.demux(audio=0) if packet.size]
    whole = samples(content)
    decoder = AVDecoder(content[: frames[8]] + content[frames[10] :])
    late = 16 * 4608

    for ranges in ([(0, None)], [(4608 * 7, 4608 * 11)]):
        with pytest.raises(SampleFailed, match=r"jump from sample 36,864 to 46,080: some are missing"):
            decoder.get_audio() if ranges[0][1] is None else decoder.get_audio_clips(ranges, "samples")
    clips, _ = decoder.get_audio_clips([(0, 1000), (late, late + 1000)], "samples")
    assert np.array_equal(clips[0].numpy(), whole[:, :1000])
    assert np.array_equal(clips[1].numpy(), whole[:, late : late + 1000])


def assert_slices(content: bytes, whole: np.ndarray[Any, Any], ranges: Sequence[tuple[int, int]]) -> None:
    slack = 2e-5 if whole.dtype.kind == "f" and is_opus(content) else 0
    cuts = [whole[:, start:end] for start, end in ranges]
    clips, _ = AVDecoder(content).get_audio_clips(ranges, "samples")

    assert [clip.shape for clip in clips] == [cut.shape for cut in cuts if cut.shape[1]]
    for clip, cut in zip(clips, (cut for cut in cuts if cut.shape[1]), strict=True):
        assert np.abs(clip.numpy().astype(np.float64) - cut).max() <= slack


@cache
def is_opus(content: bytes) -> bool:
    with av.open(io.BytesIO(content)) as container:
        return container.streams.audio[0].codec_context.codec.canonical_name == "opus"


@cache
def decode_all(content: bytes) -> np.ndarray[Any, Any]:
    audio: np.ndarray[Any, Any] = AVDecoder(content).get_audio().audio_clips[0].numpy()
    return audio


@cache
def remux(medium: Medium) -> bytes | None:
    """Copies the streams into another container; None if the container does not support the codec."""
    try:
        return copy_packets(encode(medium.source), medium.container, dict(medium.options), medium.holes, medium.lost)
    except (av.FFmpegError, ValueError):
        return None


@cache
def encode(source: tuple[str, ...]) -> bytes:
    """Encodes 3.5 seconds with these codecs."""
    kind, *codecs = source
    if len(codecs) == 2:
        return make_video(
            kind, codecs[0], audio=codecs[1], times=range(84), b_frames=2 if codecs[0] == "libx264" else 0
        )
    return make_audio(kind, codecs[0], rate=48_000 if codecs[0] == "libopus" else 44_100, seconds=3.5)


def copy_packets(
    data: bytes,
    container: str,
    options: dict[str, str],
    holes: Sequence[tuple[int, float]],
    lost: Sequence[int],
) -> bytes:
    """Copies the packets into another container and delays audio packets by all holes before them."""
    target = io.BytesIO()
    with av.open(io.BytesIO(data), "r") as source, av.open(target, "w", format=container, options=options) as out:
        streams = {stream.index: out.add_stream_from_template(stream) for stream in source.streams}
        number, delay = -1, Fraction(0)
        for packet in source.demux():
            if packet.dts is None or packet.pts is None:
                continue
            if packet.stream.type == "audio":
                number += 1
                delay += sum(Fraction(str(seconds)) for at, seconds in holes if at == number)
                if number in lost:
                    continue
                ticks = round(delay / packet.time_base)
                packet.pts, packet.dts = packet.pts + ticks, packet.dts + ticks
            packet.stream = streams[packet.stream.index]
            out.mux(packet)
    return target.getvalue()
