from __future__ import annotations

import copy
import math
import random

import pytest
import torch

from tests.loader.decoding.av.media import RATE, UNEVEN, make_audio, make_video
from wdsctl.core.errors import SampleFailed
from wdsctl.core.samples.clips import Clip
from wdsctl.loader.decoding.av.decoder import AVDecoder
from wdsctl.loader.decoding.av.uniform import get_single_frames_uniform

VIDEOS = {
    "mp4": lambda: make_video("mp4", "h264", b_frames=2),
    "uneven": lambda: make_video("mp4", "h264", times=UNEVEN),
    "mkv": lambda: make_video("matroska", "h264"),
    "avi": lambda: make_video("avi", "mpeg4"),
    "ts": lambda: make_video("mpegts", "h264", start=48),
}
SOUNDS = {
    "wav": lambda: make_audio("wav", "pcm_s16le"),
    "flac": lambda: make_audio("flac", "flac"),
    "mp3": lambda: make_audio("mp3", "mp3"),
    "m4a": lambda: make_audio("mp4", "aac"),
}


@pytest.mark.parametrize("name", VIDEOS)
def test_clip_of_video_has_the_frames_shown_before_its_end(name: str) -> None:
    decoder, draw = AVDecoder(VIDEOS[name]()), random.Random(name)
    whole = decoder.get_video()
    frames = whole.video_clips[0]
    starts = [decoder.get_video_clips([(i, i)], "frames")[1][0][0] for i in range(len(frames))]
    ends = [*starts[1:], whole.video_timestamps[0][1]]
    for _ in range(4):
        start = draw.choice([draw.uniform(starts[0], starts[-1]), draw.choice(starts)])
        end = draw.choice([start + draw.uniform(0.001, 1.5), *(each for each in ends if each > start)])
        expected = [i for i in range(len(frames)) if starts[i] < end - 1e-7 and ends[i] > start + 1e-7]
        clip = copy.copy(decoder.using(clip=Clip(start, end)))  # as pickle does
        assert torch.equal(clip.get_video().video_clips[0], frames[expected])
        assert clip.get_metadata(get_audio=False).video_num_frames == len(expected)
        at = draw.randrange(len(expected))
        assert torch.equal(clip.get_video_clips([(at, at + 1)], "frames")[0][0], frames[expected[at : at + 2]])


@pytest.mark.parametrize("name", VIDEOS)
def test_clip_in_frames_has_these_frames(name: str) -> None:
    decoder, draw = AVDecoder(VIDEOS[name]()), random.Random(name)
    frames = decoder.get_video().video_clips[0]
    for _ in range(3):
        first = draw.randrange(len(frames))
        end = draw.randint(first + 1, len(frames))
        clip = decoder.using(clip=Clip(first, end, "frames"))
        assert torch.equal(clip.get_video().video_clips[0], frames[first:end])
        assert clip.get_video_duration(get_frame_count=True)[1] == end - first
    to_end = decoder.using(clip=Clip(len(frames) - 3, math.inf, "frames"))
    assert torch.equal(to_end.get_video().video_clips[0], frames[-3:])


@pytest.mark.parametrize("name", SOUNDS)
def test_clip_of_audio_has_exactly_its_samples(name: str) -> None:
    decoder, draw = AVDecoder(SOUNDS[name]()), random.Random(name)
    rate, samples = decoder.get_audio_samples_per_second(), decoder.get_audio().audio_clips[0]
    for _ in range(5):
        first = draw.randrange(samples.shape[1] - 1)
        end = draw.randint(first + 1, samples.shape[1])
        clip = decoder.using(clip=Clip(first / rate, end / rate))
        assert torch.equal(clip.get_audio().audio_clips[0], samples[:, first:end])
        assert clip.get_metadata(get_video=False, get_audio_num_samples=True).audio_num_samples == end - first
        at = draw.randrange(end - first)
        expected = samples[:, first + at : min(first + at + 100, end)]
        assert torch.equal(clip.get_audio_clips([(at, at + 100)], "samples")[0][0], expected)
        seconds, times = clip.get_audio_clips([(at / rate, (at + 100) / rate)])
        assert torch.equal(seconds[0], expected)
        assert times[0] == pytest.approx((at / rate, (at + expected.shape[1]) / rate), abs=1e-4)


def test_clip_is_resampled_to_samples_of_the_whole() -> None:
    decoder = AVDecoder(SOUNDS["wav"]()).using(audio_rate=8000, audio_channels=1, audio_format="float")
    whole = decoder.get_audio().audio_clips[0]
    clip = decoder.using(clip=Clip(0.5, 1.75)).get_audio().audio_clips[0]
    assert torch.equal(clip, whole[:, 4000:14000])


def test_clip_counts_times_from_its_start() -> None:
    decoder = AVDecoder(make_video("mp4", "h264", audio="aac")).using(clip=Clip(1.0, 2.0))
    data = decoder.get_clips([(0.25, 0.5)], [(0.25, 9.0)])
    whole = AVDecoder(make_video("mp4", "h264", audio="aac")).get_clips([(1.25, 1.5)], [(1.25, 2.0)])
    assert torch.equal(data.video_clips[0], whole.video_clips[0])
    assert torch.equal(data.audio_clips[0], whole.audio_clips[0])
    assert data.video_timestamps[0][0] == pytest.approx(0.25, abs=1 / RATE)
    assert decoder.get_span() == pytest.approx((0.0, 1.0), abs=0.05)
    assert decoder.get_audio_duration() == pytest.approx(1.0)
    assert len(get_single_frames_uniform(decoder, 5)) == 5
    assert decoder.get_video_clips([(1.5, 2.0)])[0] == []


@pytest.mark.parametrize("clip", [Clip(2.5, 3.0), Clip(60, 70, "frames")])
def test_clip_after_the_end_fails(clip: Clip) -> None:
    decoder = AVDecoder(make_video("mp4", "h264")).using(clip=clip)
    with pytest.raises(SampleFailed, match="ends before its part begins"):
        decoder.get_video()
