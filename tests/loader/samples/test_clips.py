"""Samples with the part of a file: what the loader returns with each way of decoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import a_dataset
from tests.loader.decoding.av.media import make_audio, make_video
from wdsctl.core.errors import SampleFailed, WdsctlError
from wdsctl.core.samples.clips import Clip, read_clip
from wdsctl.dataset import Dataset
from wdsctl.loader import AVDecoder, SampleDecoder, compose_fields, get_loader, get_train_dataset
from wdsctl.loader.samples.types import AudioSample, VidQASample

SOUND = make_audio("wav", "pcm_s16le", rate=8000)


def recordings(root: Path, *clips: Any) -> str:
    def parts(i: int) -> dict[str, bytes]:
        return {"wav": SOUND, "json": json.dumps({"clip": clips[i]}).encode()}

    fields = {"audio": "wav", "clip": "json[clip]"}
    return a_dataset(root, len(clips), parts=parts, sample_type="AudioSample", field_map=fields)


def test_batch_has_parts_and_their_ranges(tmp_path: Path) -> None:
    path = recordings(tmp_path, {"start": 0.5, "end": 1}, {"start": 2, "end": None})
    batch = next(iter(get_loader(get_train_dataset(path, batch_size=2, shuffle_buffer_size=None))))
    whole = AVDecoder(SOUND).get_audio().audio_clips[0]
    expected = {0.5: whole[:, 4000:8000], 2: whole[:, 16_000:]}
    for decoder, clip in zip(batch.audio, batch.clip, strict=True):
        assert torch.equal(decoder.get_audio().audio_clips[0], expected[clip["start"]])


def test_bytes_are_not_cut(tmp_path: Path) -> None:
    path = recordings(tmp_path, {"start": 0.5, "end": 1})
    (sample,) = Dataset(path, decode=SampleDecoder(av_decode=None))
    assert (sample.audio, sample.clip) == (SOUND, {"start": 0.5, "end": 1})


@pytest.mark.parametrize("decoder", [SampleDecoder(av_decode="torch"), SampleDecoder(decoders={"wav": len})])
def test_whole_files_are_never_returned_as_parts(tmp_path: Path, decoder: SampleDecoder) -> None:
    path = recordings(tmp_path, {"start": 0.5, "end": 1})
    with pytest.raises(WdsctlError, match="decoded as a whole"):
        Dataset(path, decode=decoder)[0]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"start": -1, "end": 1}, "before the start"),
        ({"start": 1, "end": 1}, "no length"),
        ({"start": float("nan"), "end": 1}, "NaN"),
        ({"start": "1", "end": 2}, "needs numbers"),
        ({"start": True, "end": 2}, "needs numbers"),
        ({"start_frame": 0.5, "end_frame": 2}, "no whole number"),
        ({"start": 1}, "is an object with"),
        ([1, 2], "is an object with"),
        ("1-2", "is an object with"),
    ],
)
def test_bad_clip_fails_its_sample(value: Any, words: str) -> None:
    with pytest.raises(SampleFailed, match=words):
        compose_fields(AudioSample, {"audio": AVDecoder(SOUND), "clip": value})


def test_null_is_no_clip() -> None:
    decoder = AVDecoder(SOUND)
    assert compose_fields(AudioSample, {"audio": decoder, "clip": None})["audio"] is decoder


def test_question_about_a_part_of_a_video() -> None:
    video = make_video("mp4", "h264")
    values = {"video": AVDecoder(video), "context": "what?", "clip": {"start_frame": 6, "end_frame": 12}}
    limited = compose_fields(VidQASample, values)["video"]
    assert torch.equal(limited.get_video().video_clips[0], AVDecoder(video).get_video().video_clips[0][6:12])


@pytest.mark.parametrize("clip", [Clip(0.5, 2), Clip(3), Clip(0, 7, "frames")])
def test_clip_is_written_as_it_is_read(clip: Clip) -> None:
    assert read_clip(json.loads(json.dumps(clip.as_json()))) == clip
