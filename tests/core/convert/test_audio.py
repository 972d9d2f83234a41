from __future__ import annotations

import io

import av
import numpy as np
import pytest

from tests.loader.decoding.av.media import samples, sound
from tests.loader.decoding.av.test_audio_counts import last_position, with_last_position
from wdsctl.core.convert.parts import AudioTranscodeOptions
from wdsctl.core.convert.transcode import transcode_audio
from wdsctl.loader.decoding.av import AVDecoder


@pytest.mark.parametrize("seconds", [0.2, 2.5])
@pytest.mark.parametrize("cut", [1, 700, 1500])
def test_vorbis_is_written_to_the_sample_that_its_last_page_states(seconds: float, cut: int) -> None:
    source = sound("ogg", "vorbis", seconds=seconds)
    source = with_last_position(source, last_position(source) - cut)
    whole = AVDecoder(source, audio_format="float").get_audio().audio_clips[0].numpy()

    name, made = transcode_audio("ogg", source, AudioTranscodeOptions("flac"))

    found = samples(made)
    assert name == "flac"
    assert found.shape == whole.shape
    assert np.abs(found / 2.0**31 - whole).max() < 1e-4


def test_other_sounds_are_written_whole() -> None:
    source = sound("ogg", "libopus", rate=48_000)
    with av.open(io.BytesIO(source), "r") as container:
        count = sum(frame.samples for frame in container.decode(audio=0))

    _, made = transcode_audio("ogg", source, AudioTranscodeOptions("wav"))

    assert samples(made).shape[1] == count
