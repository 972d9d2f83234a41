"""Every sample of every clip is the one that a straight decode of the whole sound gives."""

from __future__ import annotations

import random
import struct
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.films import a_wav
from tests.loader.decoding.av.media import film, samples, sound
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
#: Decoders of Opus lean on all that came before, ever less: after half a second, in the last bits of a float.
NEARLY = [("ogg", "libopus"), ("webm", "libopus")]
FILMS = [
    ("mp4", "libx264", "aac"),
    ("matroska", "libx264", "libopus"),
    ("webm", "libvpx-vp9", "libopus"),
    ("matroska", "libx264", "libmp3lame"),  # the first frame is shorter than the clock is coarse
    ("flv", "libx264", "aac"),
    ("mpegts", "libx264", "aac"),
    ("avi", "mpeg4", "libmp3lame"),
]


@cache
def made(container: str, codec: str) -> bytes:
    return sound(container, codec, rate=48_000 if codec == "libopus" else 44_100)


@cache
def made_film(container: str, video: str, audio: str, start: int) -> bytes:
    return film(container, video, audio=audio, start=start)


@pytest.mark.parametrize(("container", "codec"), [*EXACT, *NEARLY])
def test_clips_in_samples_are_cuts_of_a_straight_decode(container: str, codec: str) -> None:
    slack = 1e-6 if codec == "libopus" else 0
    assert_cuts(made(container, codec), f"{container} {codec}", slack)


@pytest.mark.parametrize("start", [0, 120])
@pytest.mark.parametrize(("container", "video", "audio"), FILMS)
def test_the_sound_of_a_film_is_cut_as_exactly(container: str, video: str, audio: str, start: int) -> None:
    slack = 1e-6 if audio == "libopus" else 0
    assert_cuts(made_film(container, video, audio, start), f"{container} {start}", slack)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_clips_of_any_ranges_of_wav_and_flac_are_cuts_to_the_sample(data: st.DataObject) -> None:
    medium = data.draw(st.sampled_from([made("wav", "pcm_s16le"), made("flac", "flac")]))
    whole = samples(medium)
    moments = st.integers(0, whole.shape[1] + 9000)
    ranges = [(min(pair), max(pair)) for pair in data.draw(st.lists(st.tuples(moments, moments), max_size=4))]

    clips, times = AVDecoder(medium).get_audio_clips(ranges, "samples")

    expected = [cut for cut in ((start, min(end, whole.shape[1])) for start, end in ranges) if cut[0] < cut[1]]
    assert np.array(times).reshape(-1) * 44_100 == pytest.approx(np.array(expected).reshape(-1))
    for (start, end), clip in zip(expected, clips, strict=True):
        assert np.array_equal(clip.numpy(), whole[:, start:end])


@pytest.mark.parametrize(("container", "codec"), [("wav", "pcm_s16le"), ("flac", "flac"), ("mp3", "libmp3lame")])
def test_ranges_of_equal_seconds_have_equally_many_samples(container: str, codec: str) -> None:
    medium = made(container, codec)
    starts = [0.0, 0.1, 1 / 3, 0.77777, 1.9]

    clips, times = AVDecoder(medium).get_audio_clips([(start, start + 0.25) for start in starts])

    assert {clip.shape for clip in clips} == {(2, 11_025)}
    for start, clip, (begin, end) in zip(starts, clips, times, strict=True):
        first = round(start * 44_100)
        assert np.array_equal(clip.numpy(), samples(medium)[:, first : first + 11_025])
        assert (begin, end) == pytest.approx((start, start + 0.25), abs=1 / 44_100)


def test_what_ends_before_a_range_starts_and_an_empty_range_give_no_entry() -> None:
    decoder = AVDecoder(made("wav", "pcm_s16le"))

    assert decoder.get_audio_clips([(99, 100), (1, 1)]) == ([], [])
    clips, _ = decoder.get_audio_clips([(99, 100), (2.4, 99)])
    assert [clip.shape for clip in clips] == [(2, 4_410)]


@pytest.mark.parametrize(("codec", "dtype"), [("pcm_u8", "uint8"), ("pcm_s16le", "int16"), ("pcm_s24le", "int32")])
def test_samples_are_of_the_type_that_the_decoder_gives(codec: str, dtype: str) -> None:
    (clip,) = AVDecoder(made("wav", codec)).get_audio().audio_clips

    assert clip.numpy().dtype == dtype
    assert clip.shape == (2, 110_250)


def test_samples_of_a_type_that_numpy_does_not_get_are_told() -> None:
    medium = bytearray(a_wav())
    struct.pack_into("<HH", medium, 32, 8, 64)  # bytes and bits a sample

    with pytest.raises(SampleFailed, match="sample format s64 is not supported"):
        AVDecoder(bytes(medium)).get_audio()


def assert_cuts(medium: bytes, name: str, slack: float) -> None:
    whole = samples(medium)
    draws = random.Random(name)
    starts = [draws.randrange(whole.shape[1] - 100) for _ in range(8)]
    ranges = [(start, start + draws.choice([1, 100, 5000, 30_000])) for start in starts]
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
