"""Every sample of every clip equals the sample of a sequential decode of the whole audio."""

from __future__ import annotations

import random
import struct
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.media_files import a_wav
from tests.loader.decoding.av.media import make_audio, make_video, samples
from wdsctl.core.errors import SampleFailed
from wdsctl.loader.decoding.av import AVDecoder

EXACT = [
    ("wav", "pcm_s16le"),
    ("wav", "pcm_s24le"),
    ("wav", "pcm_u8"),
    ("wav", "adpcm_ima_wav"),
    ("flac", "flac"),
    ("aiff", "pcm_s16be"),
    ("mov", "pcm_s16le"),
    ("ogg", "flac"),
    ("matroska", "flac"),
    ("matroska", "pcm_s16le"),  # as one packet of 2.5 s
    ("avi", "pcm_s16le"),
    ("mp3", "libmp3lame"),
    ("avi", "libmp3lame"),
    ("adts", "aac"),
    ("ipod", "aac"),
    ("flv", "aac"),
    ("matroska", "aac"),
    ("ogg", "vorbis"),
    ("webm", "vorbis"),
]
#: An Opus decoder depends on all earlier packets, ever less: after half a second, in the last bits of a float.
INEXACT = [("ogg", "libopus"), ("webm", "libopus")]
VIDEOS = [
    ("mp4", "libx264", "aac"),
    ("matroska", "libx264", "libopus"),
    ("webm", "libvpx-vp9", "libopus"),
    ("matroska", "libx264", "libmp3lame"),  # the first frame is shorter than a clock tick
    ("flv", "libx264", "aac"),
    ("mpegts", "libx264", "aac"),
    ("avi", "mpeg4", "libmp3lame"),
]


@cache
def make_sound(container: str, codec: str) -> bytes:
    return make_audio(container, codec, rate=48_000 if codec == "libopus" else 44_100)


@cache
def a_video(container: str, video: str, audio: str, start: int) -> bytes:
    return make_video(container, video, audio=audio, start=start)


@pytest.mark.parametrize(("container", "codec"), [*EXACT, *INEXACT])
def test_audio_clips_equal_slices_of_sequential_decode(container: str, codec: str) -> None:
    slack = 1e-6 if codec == "libopus" else 0
    assert_cuts(make_sound(container, codec), f"{container} {codec}", slack)


@pytest.mark.parametrize("start", [0, 120])
@pytest.mark.parametrize(("container", "video", "audio"), VIDEOS)
def test_audio_clips_of_video_equal_slices_of_sequential_decode(
    container: str, video: str, audio: str, start: int
) -> None:
    slack = 1e-6 if audio == "libopus" else 0
    assert_cuts(a_video(container, video, audio, start), f"{container} {start}", slack)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_random_wav_and_flac_clips_are_exact_to_the_sample(data: st.DataObject) -> None:
    medium = data.draw(st.sampled_from([make_sound("wav", "pcm_s16le"), make_sound("flac", "flac")]))
    whole = samples(medium)
    moments = st.integers(0, whole.shape[1] + 9000)
    ranges = [(min(pair), max(pair)) for pair in data.draw(st.lists(st.tuples(moments, moments), max_size=4))]

    clips, times = AVDecoder(medium).get_audio_clips(ranges, "samples")

    expected = [cut for cut in ((start, min(end, whole.shape[1])) for start, end in ranges) if cut[0] < cut[1]]
    assert np.array(times).reshape(-1) * 44_100 == pytest.approx(np.array(expected).reshape(-1))
    for (start, end), clip in zip(expected, clips, strict=True):
        assert np.array_equal(clip.numpy(), whole[:, start:end])


@pytest.mark.parametrize(("container", "codec"), [("wav", "pcm_s16le"), ("flac", "flac"), ("mp3", "libmp3lame")])
def test_ranges_of_equal_seconds_have_equal_sample_counts(container: str, codec: str) -> None:
    medium = make_sound(container, codec)
    starts = [0.0, 0.1, 1 / 3, 0.77777, 1.9]

    clips, times = AVDecoder(medium).get_audio_clips([(start, start + 0.25) for start in starts])

    assert {clip.shape for clip in clips} == {(2, 11_025)}
    for start, clip, (begin, end) in zip(starts, clips, times, strict=True):
        first = round(start * 44_100)
        assert np.array_equal(clip.numpy(), samples(medium)[:, first : first + 11_025])
        assert (begin, end) == pytest.approx((start, start + 0.25), abs=1 / 44_100)


def test_empty_ranges_and_ranges_past_end_return_no_clip() -> None:
    decoder = AVDecoder(make_sound("wav", "pcm_s16le"))

    assert decoder.get_audio_clips([(99, 100), (1, 1)]) == ([], [])
    clips, _ = decoder.get_audio_clips([(99, 100), (2.4, 99)])
    assert [clip.shape for clip in clips] == [(2, 4_410)]


@pytest.mark.parametrize(("codec", "dtype"), [("pcm_u8", "uint8"), ("pcm_s16le", "int16"), ("pcm_s24le", "int32")])
def test_audio_clips_keep_dtype_of_codec(codec: str, dtype: str) -> None:
    (clip,) = AVDecoder(make_sound("wav", codec)).get_audio().audio_clips

    assert clip.numpy().dtype == dtype
    assert clip.shape == (2, 110_250)


def test_unsupported_sample_format_fails_sample() -> None:
    medium = bytearray(a_wav())
    struct.pack_into("<HH", medium, 32, 8, 64)  # bytes and bits a sample

    with pytest.raises(SampleFailed, match="sample format s64 is not supported"):
        AVDecoder(bytes(medium)).get_audio()


def assert_cuts(medium: bytes, name: str, slack: float) -> None:
    whole = samples(medium)
    rng = random.Random(name)
    starts = [rng.randrange(whole.shape[1] - 100) for _ in range(8)]
    ranges = [(start, start + rng.choice([1, 100, 5000, 30_000])) for start in starts]
    decoder = AVDecoder(medium)

    together, _ = decoder.get_audio_clips(ranges, "samples")
    alone = [decoder.get_audio_clips([each], "samples")[0][0] for each in ranges]
    everything = decoder.get_audio().audio_clips[0]

    assert np.array_equal(everything.numpy(), whole)
    for clips in (together, alone):
        for (start, end), clip in zip(ranges, clips, strict=True):
            expected = whole[:, start:end]
            assert clip.shape == expected.shape
            assert np.abs(clip.numpy().astype(np.float64) - expected).max() <= slack
