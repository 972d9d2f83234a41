"""Damaged and unusual media: a clear error, or the documented result."""

from __future__ import annotations

import io
from contextlib import suppress
from fractions import Fraction
from functools import cache
from typing import Any

import av
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.decoding.av.media import RATE, add_pictures, make_audio, make_video, picture
from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.decode_check import INTACT, check_stream_decodes
from wdsctl.core.media.sniff import sniff
from wdsctl.loader.decoding.av import AVDecoder, get_clips_uniform, get_single_frames_uniform


@cache
def mp4() -> bytes:
    return make_video("mp4", "libx264", b_frames=2, audio="aac", times=range(96))


@cache
def mkv() -> bytes:
    return make_video("matroska", "libx264", b_frames=2, audio="aac", times=range(96))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (b"some text " * 50, "not a video or audio format"),
        (bytes(5000), "not a video or audio format"),
        (mp4()[:100], "FFmpeg: "),
        (mp4()[:-4000], "table of contents"),
    ],
    ids=["empty", "text", "zeros", "a beginning", "without moov"],
)
def test_non_media_bytes_fail_with_part_and_cause(data: bytes, message: str) -> None:
    decoder = AVDecoder(data, part="mp4")

    for call in (decoder.get_video, decoder.get_audio, decoder.get_frames, decoder.get_metadata):
        with pytest.raises(SampleFailed, match=message) as raised:
            call()
        assert "cannot decode part 'mp4'" in raised.value.message
        assert raised.value.where == "part 'mp4'"


@pytest.mark.parametrize("data", [mkv(), make_video("avi", "mpeg4", times=range(96))], ids=["mkv", "avi"])
def test_truncated_video_decodes_up_to_cut_then_fails(data: bytes) -> None:
    decoder = AVDecoder(data[: len(data) // 2])

    assert decoder.get_video_clips([(0, 0.25)])[0][0].shape[0] == 7
    for ranges in ([(3.5, 3.6)], [(0, 99)]):
        with pytest.raises(SampleFailed, match="truncated or damaged"):
            decoder.get_video_clips(ranges)
    with pytest.raises(SampleFailed, match="truncated or damaged"):
        decoder.get_video()


def test_truncated_audio_of_video_decodes_up_to_cut_then_fails() -> None:
    decoder = AVDecoder(mkv()[: len(mkv()) // 2])

    assert decoder.get_audio_clips([(0, 0.25)])[0][0].shape == (2, 12_000)
    with pytest.raises(SampleFailed, match="its audio ends after"):
        decoder.get_audio_clips([(0, 4)])


def test_truncated_fragmented_mp4_decodes_up_to_cut_then_fails() -> None:
    fragments = make_video(
        "mp4", "libx264", times=range(96), container_options={"movflags": "frag_keyframe+empty_moov"}
    )
    decoder = AVDecoder(fragments[: len(fragments) // 2])

    assert decoder.get_video_clips([(0, 0.25)])[0][0].shape[0] == 7
    with pytest.raises(SampleFailed):
        decoder.get_video()


@pytest.mark.parametrize(("container", "codec"), [("matroska", "libx264"), ("webm", "libvpx-vp9")])
def test_video_without_keyframes_fails_sample(container: str, codec: str) -> None:
    decoder = AVDecoder(video_without_keyframes(container, codec))

    for call in (decoder.get_video, lambda: decoder.get_video_clips([(0.5, 0.6)])):
        with pytest.raises(SampleFailed, match="cannot decode"):
            call()


def test_audio_longer_than_video_affects_neither_stream() -> None:
    for container in ("mp4", "matroska"):
        decoder = AVDecoder(make_video(container, "libx264", audio="aac", times=range(24), sound_seconds=4))

        facts = decoder.get_metadata()
        assert facts.video_duration == 1.0
        assert facts.audio_duration == pytest.approx(4.0, abs=0.03)
        data = get_clips_uniform(decoder, 0.5, 3, request_video=True, request_audio=True)
        assert [len(clip) for clip in data.video_clips] == [13, 13, 12]
        assert {clip.shape for clip in data.audio_clips} == {(2, 24_000)}
        late = decoder.get_clips([(3, 3.5)], [(3, 3.5)])
        assert (late.video_clips, [clip.shape for clip in late.audio_clips]) == ([], [(2, 24_000)])


@pytest.mark.parametrize("container", ["matroska", "mpegts", "mp4"])
def test_video_of_few_frames_is_intact_with_longer_audio(container: str) -> None:
    medium = make_video(container, "libx264", times=(0, 1, 240), audio="aac", sound_seconds=13)

    data = AVDecoder(medium).get_video_with_audio()

    assert (data.video_clips[0].shape[0], data.audio_clips[0].shape[1] // 48_000) == (3, 13)
    assert check_stream_decodes(ByteRangeFile.from_bytes(medium), sniff(medium).format) == INTACT


@pytest.mark.parametrize("container", ["mp4", "matroska"])
def test_video_of_one_frame_returns_that_frame(container: str) -> None:
    decoder = AVDecoder(make_video(container, "libx264", times=[0]))

    assert decoder.get_video().video_clips[0].shape == (1, 3, 48, 64)
    assert get_single_frames_uniform(decoder, 3).shape == (3, 3, 48, 64)


def test_get_clips_uniform_fails_on_video_without_duration() -> None:
    # No frames at all: Matroska allows such a header, MP4 does not.
    target = io.BytesIO()
    with av.open(target, "w", format="matroska") as out:
        add_pictures(out, "mpeg4")
        out.start_encoding()
    decoder = AVDecoder(target.getvalue())

    with pytest.raises(SampleFailed):
        get_clips_uniform(decoder, 1, 2, request_video=True)
    with pytest.raises(SampleFailed, match="end of file"):
        decoder.get_video()


def test_video_that_changes_size_fails_unless_scaled_or_clip_has_one_size() -> None:
    decoder = AVDecoder(video_of_two_sizes())

    with pytest.raises(SampleFailed, match="changes from 64 x 48 to 32 x 24"):
        decoder.get_video()
    clips, _ = decoder.get_video_clips([(0, 0.5), (1.5, 1.8)])
    assert [clip.shape[2:] for clip in clips] == [(48, 64), (24, 32)]
    (scaled,), _ = decoder.get_video_clips([(0, 1.9)], video_out_frame_size=(40, 30))
    assert scaled.shape == (46, 3, 30, 40)


def test_missing_stream_fails_sample() -> None:
    with pytest.raises(SampleFailed, match="no video stream"):
        AVDecoder(make_audio("wav", "pcm_s16le")).get_video()
    silent = AVDecoder(make_video("mp4", "libx264"))
    with pytest.raises(SampleFailed, match="no audio stream"):
        silent.get_audio()
    assert silent.get_video_with_audio().audio_clips == []


def test_max_pixels_and_max_bytes_limit_decoded_media() -> None:
    with pytest.raises(SampleFailed, match="64 x 48 pixels, the limit is 100"):
        AVDecoder(mp4(), max_pixels=100).get_video()
    with pytest.raises(SampleFailed, match="more than 100,000 bytes"):
        AVDecoder(mp4(), max_bytes=100_000).get_video()
    with pytest.raises(SampleFailed, match="more than 100,000 bytes"):
        AVDecoder(mp4(), max_bytes=100_000).get_audio()


@given(st.sampled_from(["mp4", "mkv", "flac"]), st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_decode_or_raise_sample_failed(name: str, data: st.DataObject) -> None:
    medium = bytearray({"mp4": mp4, "mkv": mkv, "flac": flac}[name]())
    for place in data.draw(st.lists(st.integers(0, len(medium) - 1) | st.integers(0, 2000), min_size=1, max_size=50)):
        medium[place] = data.draw(st.integers(0, 255))
    decoder = AVDecoder(bytes(medium), max_bytes=1 << 28)

    calls: list[Any] = [
        lambda: decoder.get_clips([(0.3, 0.5), (1.9, 2)], [(0.4, 0.5)]),
        lambda: decoder.get_video_clips([(3, 5), (40, 45)], "frames"),
        decoder.get_metadata,
    ]
    for call in calls:
        with suppress(SampleFailed):
            call()


@cache
def flac() -> bytes:
    return make_audio("flac", "flac", seconds=1)


def video_without_keyframes(container: str, codec: str) -> bytes:
    target = io.BytesIO()
    with (
        av.open(io.BytesIO(make_video(container, codec)), "r") as source,
        av.open(target, "w", format=container) as out,
    ):
        stream = out.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size and not packet.is_keyframe:
                packet.stream = stream
                out.mux(packet)
    return target.getvalue()


def video_of_two_sizes() -> bytes:
    """A second of 64 x 48, then one of 32 x 24, in one stream of VP8: its keyframes state their size."""
    target = io.BytesIO()
    with av.open(target, "w", format="webm") as out:
        stream = add_pictures(out, "libvpx", options={"cpu-used": "8", "deadline": "realtime"})
        small: Any = av.CodecContext.create("libvpx", "w")
        small.width, small.height, small.pix_fmt, small.time_base = 32, 24, "yuv420p", Fraction(1, RATE)
        for encoder, numbers, size in ((stream, range(24), (64, 48)), (small, range(24, 48), (32, 24))):
            for number in (*numbers, None):
                frame = None if number is None else picture(number, size)
                if frame is not None:
                    frame.pts, frame.time_base = number, Fraction(1, RATE)
                for packet in encoder.encode(frame):
                    packet.stream = stream
                    out.mux(packet)
    return target.getvalue()
