from __future__ import annotations

import io

import av
import numpy as np
import pytest

from tests.loader.decoding.av.media import make_audio, samples
from tests.loader.decoding.av.test_audio_counts import last_position, with_last_position
from wdsctl.core.convert.parts import AudioTranscodeOptions
from wdsctl.core.convert.transcode import transcode_audio
from wdsctl.loader.decoding.av import AVDecoder


@pytest.mark.parametrize("seconds", [0.2, 2.5])
@pytest.mark.parametrize("cut", [1, 700, 1500])
def test_transcoded_vorbis_ends_at_granule_position_of_last_page(seconds: float, cut: int) -> None:
    source = make_audio("ogg", "vorbis", seconds=seconds)
    source = with_last_position(source, last_position(source) - cut)
    expected = AVDecoder(source, audio_format="float").get_audio().audio_clips[0].numpy()

    name, transcoded = transcode_audio("ogg", source, AudioTranscodeOptions("flac"))

    actual = samples(transcoded)
    assert name == "flac"
    assert actual.shape == expected.shape
    assert np.abs(actual / 2.0**31 - expected).max() < 1e-4


def test_other_audio_is_transcoded_completely() -> None:
    source = make_audio("ogg", "libopus", rate=48_000)
    with av.open(io.BytesIO(source), "r") as container:
        count = sum(frame.samples for frame in container.decode(audio=0))

    _, transcoded = transcode_audio("ogg", source, AudioTranscodeOptions("wav"))

    assert samples(transcoded).shape[1] == count
