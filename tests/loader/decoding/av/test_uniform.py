"""Clips and frames spread evenly."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loader.decoding.av.media import UNEVEN, film, pictures, pixels_of, sound
from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.loader.decoding.av import AVDecoder, get_clips_uniform, get_single_frames_uniform

MP4 = film("mp4", "libx264", b_frames=3, audio="aac", times=range(96))


def test_clips_go_from_the_beginning_to_the_end_and_are_equally_long() -> None:
    data = get_clips_uniform(AVDecoder(MP4), 1, 3, request_video=True, request_audio=True)

    assert [start for start, _ in data.video_timestamps] == [0.0, 1.5, 3.0]
    assert data.video_timestamps[-1][1] == 4.0
    assert data.audio_timestamps == [(0.0, 1.0), (1.5, 2.5), (3.0, 4.0)]
    assert [len(clip) for clip in data.video_clips] == [25, 25, 24]  # at the end of the film nothing comes after
    assert {clip.shape for clip in data.audio_clips} == {(2, 48_000)}


def test_only_what_is_requested_comes() -> None:
    assert get_clips_uniform(AVDecoder(MP4), 1, 2, request_video=True).audio_clips == []
    assert get_clips_uniform(AVDecoder(MP4), 1, 2, request_audio=True).video_clips == []
    wav = AVDecoder(sound("wav", "pcm_s16le"))
    assert get_clips_uniform(wav, 1, 2, request_audio=True).audio_timestamps == [(0.0, 1.0), (1.5, 2.5)]


@pytest.mark.parametrize(("container", "start"), [("mp4", 0), ("mp4", 120), ("matroska", 120), ("mpegts", 240)])
def test_a_film_that_begins_later_is_spread_over_where_it_is(container: str, start: int) -> None:
    medium = film(container, "libx264", start=start)

    frames, times = get_single_frames_uniform(AVDecoder(medium), 60, return_timestamps=True)

    assert np.array_equal(pixels_of(frames), [frame.pixels for frame in pictures(medium)])
    assert times == pytest.approx([i / 24 for i in range(60)], abs=0.001)


def test_single_frames_are_as_many_as_asked_for_the_first_and_the_last_among_them() -> None:
    decoder = AVDecoder(MP4)

    frames = get_single_frames_uniform(decoder, 5, video_out_frame_size=(32, 24))
    whole, times = get_single_frames_uniform(decoder, 2, return_timestamps=True)

    assert frames.shape == (5, 3, 24, 32)
    assert times == [0.0, pytest.approx(95 / 24)]
    assert np.array_equal(pixels_of(whole), [pictures(MP4)[0].pixels, pictures(MP4)[95].pixels])
    assert get_single_frames_uniform(decoder, 200).shape[0] == 200


def test_frames_of_an_uneven_film_are_evenly_far_apart_in_time() -> None:
    medium = film("matroska", "libx264", times=UNEVEN)

    _, times = get_single_frames_uniform(AVDecoder(medium), 10, return_timestamps=True)

    shown = [frame.start for frame in pictures(medium)]
    end = AVDecoder(medium).get_span(audio=False)
    assert end is not None
    wanted = np.linspace(1 / 48, end[1] - 1 / 48, 10)
    assert times == pytest.approx([max(start for start in shown if start <= moment) for moment in wanted])


def test_the_first_and_the_last_frame_of_an_uneven_film_are_among_them_however_short_they_are() -> None:
    medium = film("mp4", "libx264", times=(0, 1, 30, 60, 90, 91))

    frames, times = get_single_frames_uniform(AVDecoder(medium), 3, return_timestamps=True)
    alone, at = get_single_frames_uniform(AVDecoder(medium), 1, return_timestamps=True)

    assert times == pytest.approx([0, 30 / 24, 91 / 24])
    assert np.array_equal(pixels_of(frames), [pictures(medium)[i].pixels for i in (0, 2, 5)])
    assert np.array_equal(pixels_of(alone), [pictures(medium)[0].pixels])
    assert at == [0]


def test_a_film_that_shows_nothing_while_it_is_said_to_last_is_told() -> None:
    class Late(AVDecoder):
        def get_span(self, video: bool = True, audio: bool = True) -> tuple[float, float] | None:
            return 50, 60

    with pytest.raises(SampleFailed, match="has no frame within"):
        get_single_frames_uniform(Late(MP4), 3)


def test_requests_for_nothing_are_refused() -> None:
    with pytest.raises(UsageError):
        get_clips_uniform(AVDecoder(MP4), 1, 3)
    with pytest.raises(UsageError):
        get_clips_uniform(AVDecoder(MP4), 1, 0, request_video=True)
    with pytest.raises(UsageError):
        get_clips_uniform(AVDecoder(MP4), -1, 2, request_video=True)


def test_clips_that_are_longer_than_the_film_are_all_of_it() -> None:
    data = get_clips_uniform(AVDecoder(MP4), 99, 2, request_video=True)

    assert [len(clip) for clip in data.video_clips] == [96, 96]
