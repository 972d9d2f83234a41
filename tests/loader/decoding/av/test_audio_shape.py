"""Options for rate, channels and format: a clip equals a slice of the whole resampled audio."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest

from tests.loader.decoding.av.media import add_sound, make_audio, samples
from wdsctl.core.errors import UsageError
from wdsctl.loader.decoding.av import AVDecoder

WAV = make_audio("wav", "pcm_s16le")


@pytest.mark.parametrize("rate", [16_000, 22_050, 48_000])
def test_resampled_clip_is_slice_of_resampled_audio(rate: int) -> None:
    decoder = AVDecoder(WAV, audio_rate=rate, audio_format="float")
    whole = decoder.get_audio().audio_clips[0].numpy()
    assert whole.shape[1] == pytest.approx(2.5 * rate, abs=2)

    clips, times = decoder.get_audio_clips([(0, 1000), (rate, rate + 777), (2 * rate - 5, 9 * rate)], "samples")

    for (start, end), clip in zip([(0, 1000), (rate, rate + 777), (2 * rate - 5, None)], clips, strict=True):
        assert clip.shape == whole[:, start:end].shape
        assert np.abs(clip.numpy() - whole[:, start:end]).max() < 1e-5
    assert times[1] == pytest.approx((1.0, 1.0 + 777 / rate))


def test_resampling_keeps_pitch() -> None:
    """A tone of 1 kHz stays 1 kHz at every rate."""
    import io
    import wave

    tone = (np.sin(np.arange(44_100) * 2 * np.pi * 1000 / 44_100) * 20_000).astype("<i2")
    target = io.BytesIO()
    with wave.open(target, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(44_100)
        out.writeframes(tone.tobytes())
    (clip,), _ = AVDecoder(target.getvalue(), audio_rate=16_000).get_audio_clips([(0.2, 0.8)])

    assert clip.dtype.is_floating_point is False
    expected = np.sin((np.arange(9600) / 16_000 + 0.2) * 2 * np.pi * 1000) * 20_000
    assert np.abs(clip.numpy()[0] - expected).max() < 40


def test_audio_format_float_scales_to_minus_one_to_one() -> None:
    native, floats = (AVDecoder(WAV, audio_format=form).get_audio().audio_clips[0] for form in ("native", "float"))

    assert floats.numpy().dtype == np.float32
    assert np.array_equal(native.numpy() / np.float32(32_768), floats.numpy())


def test_audio_channels_mixes_down_picks_or_adds_channels() -> None:
    stereo = samples(WAV)
    mono = AVDecoder(WAV, audio_channels=1).get_audio().audio_clips[0].numpy()
    right = AVDecoder(WAV, audio_channels=(1,)).get_audio().audio_clips[0].numpy()
    swapped = AVDecoder(WAV).using(audio_channels=(1, 0)).get_audio_clips([(5, 9)], "samples")[0][0].numpy()
    surround = AVDecoder(WAV, audio_channels="5.1").get_audio().audio_clips[0]

    assert mono.dtype == np.int16
    assert np.abs(mono[0] - stereo.astype(np.int32).mean(axis=0)).max() <= 1
    assert np.array_equal(right, stereo[1:])
    assert np.array_equal(swapped, stereo[::-1, 5:9])
    assert surround.shape[0] == 6


def test_mono_clip_is_slice_of_mono_audio() -> None:
    decoder = AVDecoder(WAV, audio_channels=1)
    whole = decoder.get_audio().audio_clips[0].numpy()

    (clip,), _ = decoder.get_audio_clips([(70_000, 80_000)], "samples")

    assert np.array_equal(clip.numpy(), whole[:, 70_000:80_000])


@pytest.mark.parametrize(
    "options",
    [{"audio_rate": 0}, {"audio_channels": "quadrophonia"}, {"audio_channels": 0}, {"audio_format": "s16"}],
)
def test_constructor_refuses_invalid_audio_options(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        AVDecoder(WAV, **options)  # type: ignore[arg-type]


def test_missing_audio_channel_fails_sample() -> None:
    from wdsctl.core.errors import SampleFailed

    with pytest.raises(SampleFailed, match="2 channels"):
        AVDecoder(WAV, audio_channels=(0, 5)).get_audio()


@pytest.mark.parametrize(
    ("container", "codec", "layout"),
    [
        ("wav", "pcm_s16le", "7.1"),
        ("flac", "flac", "7.1"),
        ("mp4", "aac", "7.1"),
        ("ogg", "libopus", "7.1"),
        ("wav", "pcm_s24le", "hexadecagonal"),
    ],
)
def test_audio_of_eight_channels_or_more_is_decoded_and_converted(container: str, codec: str, layout: str) -> None:
    channels = av.AudioLayout(layout).nb_channels
    sound = np.zeros((48_000, channels), np.float32)
    for i in range(channels):  # a pulse in one channel after the other
        sound[i * 2_500 + 1_000 : i * 2_500 + 2_000, i] = np.sin(np.arange(1_000) / 10) / 2
    target = io.BytesIO()
    with av.open(target, "w", format=container) as out:
        stream = add_sound(out, codec, 48_000, layout)
        frame = av.AudioFrame.from_ndarray(sound.reshape(1, -1), format="flt", layout=layout)
        frame.sample_rate, frame.pts = 48_000, 0
        resampler = av.AudioResampler(stream.format.name, layout, 48_000, frame_size=stream.frame_size or None)
        for piece in (*resampler.resample(frame), *resampler.resample(None)):
            out.mux(stream.encode(piece))
        out.mux(stream.encode(None))
    decoder = AVDecoder(target.getvalue(), audio_format="float")

    native, slow = (each.get_audio().audio_clips[0].numpy() for each in (decoder, decoder.using(audio_rate=24_000)))

    silent = 3 if layout == "7.1" and codec in ("aac", "libopus") else -1  # these cut the frequencies of a subwoofer
    assert native.shape[0] == slow.shape[0] == channels
    for i in (i for i in range(channels) if i != silent):
        at = slice(i * 2_500 + 1_200, i * 2_500 + 1_800)
        assert np.abs(native[:, at]).max(axis=1).argmax() == i
        assert np.abs(slow[:, at.start // 2 : at.stop // 2]).max(axis=1).argmax() == i
    assert decoder.using(audio_channels=1).get_audio().audio_clips[0].shape == (1, native.shape[1])
    assert np.array_equal(decoder.get_audio_clips([(0.25, 0.5)])[0][0].numpy()[:, :64], native[:, 12_000:12_064])
