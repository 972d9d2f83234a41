"""get_clips_uniform and get_single_frames_uniform spread clips and frames evenly."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loader.decoding.av.media import UNEVEN, decode_frames, make_audio, make_video, pixels_of
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.decoding.av import AVDecoder, get_clips_uniform, get_single_frames_uniform

MP4 = make_video("mp4", "libx264", b_frames=3, audio="aac", times=range(96))


def test_get_clips_uniform_covers_start_to_end_with_equal_lengths() -> None:
    data = get_clips_uniform(AVDecoder(MP4), 1, 3, request_video=True, request_audio=True)

    assert [start for start, _ in data.video_timestamps] == [0.0, 1.5, 3.0]
    assert data.video_timestamps[-1][1] == 4.0
    assert data.audio_timestamps == [(0.0, 1.0), (1.5, 2.5), (3.0, 4.0)]
    assert [len(clip) for clip in data.video_clips] == [25, 25, 24]  # no frame follows at the end of the video
    assert {clip.shape for clip in data.audio_clips} == {(2, 48_000)}


def test_get_clips_uniform_returns_only_requested_streams() -> None:
    assert get_clips_uniform(AVDecoder(MP4), 1, 2, request_video=True).audio_clips == []
    assert get_clips_uniform(AVDecoder(MP4), 1, 2, request_audio=True).video_clips == []
    wav = AVDecoder(make_audio("wav", "pcm_s16le"))
    assert get_clips_uniform(wav, 1, 2, request_audio=True).audio_timestamps == [(0.0, 1.0), (1.5, 2.5)]


@pytest.mark.parametrize(("container", "start"), [("mp4", 0), ("mp4", 120), ("matroska", 120), ("mpegts", 240)])
def test_single_frames_of_video_with_late_start_cover_it(container: str, start: int) -> None:
    medium = make_video(container, "libx264", start=start)

    frames, times = get_single_frames_uniform(AVDecoder(medium), 60, return_timestamps=True)

    assert np.array_equal(pixels_of(frames), [frame.pixels for frame in decode_frames(medium)])
    assert times == pytest.approx([i / 24 for i in range(60)], abs=0.001)


def test_single_frames_match_requested_count_and_include_first_and_last() -> None:
    decoder = AVDecoder(MP4)

    frames = get_single_frames_uniform(decoder, 5, video_out_frame_size=(32, 24))
    whole, times = get_single_frames_uniform(decoder, 2, return_timestamps=True)

    assert frames.shape == (5, 3, 24, 32)
    assert times == [0.0, pytest.approx(95 / 24)]
    assert np.array_equal(pixels_of(whole), [decode_frames(MP4)[0].pixels, decode_frames(MP4)[95].pixels])
    assert get_single_frames_uniform(decoder, 200).shape[0] == 200


def test_single_frames_of_uneven_video_are_evenly_spaced_in_time() -> None:
    medium = make_video("matroska", "libx264", times=UNEVEN)

    _, times = get_single_frames_uniform(AVDecoder(medium), 10, return_timestamps=True)

    shown = [frame.start for frame in decode_frames(medium)]
    end = AVDecoder(medium).get_span(audio=False)
    assert end is not None
    moments = np.linspace(1 / 48, end[1] - 1 / 48, 10)
    assert times == pytest.approx([max(start for start in shown if start <= moment) for moment in moments])


def test_single_frames_of_uneven_video_include_first_and_last() -> None:
    medium = make_video("mp4", "libx264", times=(0, 1, 30, 60, 90, 91))

    frames, times = get_single_frames_uniform(AVDecoder(medium), 3, return_timestamps=True)
    alone, at = get_single_frames_uniform(AVDecoder(medium), 1, return_timestamps=True)

    assert times == pytest.approx([0, 30 / 24, 91 / 24])
    assert np.array_equal(pixels_of(frames), [decode_frames(medium)[i].pixels for i in (0, 2, 5)])
    assert np.array_equal(pixels_of(alone), [decode_frames(medium)[0].pixels])
    assert at == [0]


def test_single_frames_fail_without_frame_in_span() -> None:
    class LateSpan(AVDecoder):
        def get_span(self, video: bool = True, audio: bool = True) -> tuple[float, float] | None:
            return 50, 60

    with pytest.raises(SampleFailed, match="has no frame within"):
        get_single_frames_uniform(LateSpan(MP4), 3)


@pytest.mark.parametrize("end", [4.1, 4.6, 5.5])
def test_uniform_clips_and_frames_are_complete_if_stated_end_is_too_late(end: float) -> None:
    class LateEnd(AVDecoder):
        def get_span(self, video: bool = True, audio: bool = True) -> tuple[float, float] | None:
            return 0, end

    frames, times = get_single_frames_uniform(LateEnd(MP4), 8, return_timestamps=True)
    data = get_clips_uniform(LateEnd(MP4), 0.1, 8, request_video=True, request_audio=True)

    assert frames.shape[0] == 8
    assert times[0] < 0.05
    assert 2.5 < times[-1] < 4
    assert [len(data.video_clips), len(data.audio_clips)] == [8, 8]


def test_get_clips_uniform_refuses_empty_requests() -> None:
    with pytest.raises(UsageError):
        get_clips_uniform(AVDecoder(MP4), 1, 3)
    with pytest.raises(UsageError):
        get_clips_uniform(AVDecoder(MP4), 1, 0, request_video=True)
    with pytest.raises(UsageError):
        get_clips_uniform(AVDecoder(MP4), -1, 2, request_video=True)


def test_clips_longer_than_video_return_whole_video() -> None:
    data = get_clips_uniform(AVDecoder(MP4), 99, 2, request_video=True)

    assert [len(clip) for clip in data.video_clips] == [96, 96]
