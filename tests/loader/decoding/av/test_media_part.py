"""Video and audio parts in a training."""

from __future__ import annotations

import pickle
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.datasets import Parts, a_dataset
from tests.loader.decoding.av.media import decode_frames, make_audio, make_video, pixels_of, samples
from tests.open_files import sizes_read
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.media.kinds import decodable_extensions
from wdsctl.core.storage.storage import LocalStorage
from wdsctl.loader import (
    AVData,
    AVDecoder,
    DefaultTaskEncoder,
    LazyPart,
    SampleDecoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
)


@cache
def parts() -> Parts:
    return {
        "mp4": make_video("mp4", "libx264", audio="aac", times=range(24)),
        "txt": b"a film",
        "wav": make_audio("wav", "pcm_u8"),
    }


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("films"), 6, shard_samples=3, parts=lambda _: parts())


class Clips(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Reads a clip in the worker."""

    def encode_sample(self, sample: Any) -> Any:
        sample["clip"] = sample["mp4"].get_video_clips([(0.5, 0.5)])[0][0]
        return sample


def encoder(**options: Any) -> DefaultTaskEncoder[Any, Any, Any, Any]:
    task_encoder = DefaultTaskEncoder[Any, Any, Any, Any]()
    task_encoder.decoder = SampleDecoder(**options)
    return task_encoder


def test_video_and_audio_parts_become_lazy_decoders(dataset: str) -> None:
    (sample,) = islice(get_loader(get_train_dataset(dataset)), 1)

    assert sample["txt"] == "a film"
    assert np.array_equal(
        pixels_of(sample["mp4"].get_video().video_clips[0])[3], decode_frames(parts()["mp4"])[3].pixels
    )
    assert np.array_equal(sample["wav"].get_audio().audio_clips[0].numpy(), samples(parts()["wav"]))


def test_unused_decoders_read_no_media_bytes(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = sizes_read(monkeypatch)
    list(islice(get_loader(get_train_dataset(dataset)), 6))

    assert sum(reads) == 6 * len(b"a film")


def test_decoders_from_workers_open_shard_in_main_process(dataset: str) -> None:
    config = WorkerConfig(num_workers=2)
    loader = get_loader(get_train_dataset(dataset, batch_size=2, worker_config=config, task_encoder=Clips()))

    for batch in islice(loader, 2):
        assert len(batch["clip"]) == len(batch["mp4"]) == 2
        for clip in batch["clip"]:
            assert np.array_equal(pixels_of(clip)[0], decode_frames(parts()["mp4"])[12].pixels)
        for decoder in batch["mp4"]:
            assert isinstance(decoder, AVDecoder)
            frames = pixels_of(decoder.get_video_clips([(0, 1)], "frames")[0][0])
            assert np.array_equal(frames, [frame.pixels for frame in decode_frames(parts()["mp4"])[:2]])


def test_cataloged_keyframes_save_scan_of_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_video("matroska", "mpeg4", times=range(240), size=(320, 240))
    path = a_dataset(tmp_path, 2, parts=lambda i: {"mkv": data, "txt": b"%d" % i})
    reads = sizes_read(monkeypatch)
    clips, costs = [], []
    for media in (None, MediaRequest(selection="auto", keyframes=True)):
        index(path, media=media)
        (sample,) = islice(get_loader(get_train_dataset(path)), 1)
        for decoder in (sample["mkv"], pickle.loads(pickle.dumps(sample["mkv"]))):  # noqa: S301 - our own
            reads.clear()
            clips.append(pixels_of(decoder.get_video_clips([(200, 203)], "frames")[0][0]))
            costs.append(sum(reads))

    assert all(np.array_equal(clip, clips[0]) for clip in clips[1:])
    assert min(costs[:2]) >= len(data)
    assert 0 < max(costs[2:]) < len(data) / 2


def test_reading_samples_opens_no_catalog_for_videos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_dataset(tmp_path, 4, parts=lambda _: {"mkv": make_video("matroska", "mpeg4")})
    index(path, media=MediaRequest(selection="auto", keyframes=True))
    samples_ = iter(get_loader(get_train_dataset(path)))
    next(samples_)

    monkeypatch.delattr("sqlite3.connect")

    assert all(next(samples_)["mkv"].get_metadata(get_video=True).video_num_frames == 60 for _ in range(3))


@pytest.mark.parametrize(("with_sound", "sounds"), [(False, 0), (True, 1)])
def test_av_decode_torch_decodes_video_and_optional_audio(dataset: str, with_sound: bool, sounds: int) -> None:
    task_encoder = encoder(av_decode="torch", video_decode_audio=with_sound)
    (sample,) = islice(get_loader(get_train_dataset(dataset, task_encoder=task_encoder)), 1)

    assert isinstance(sample["mp4"], AVData)
    assert sample["mp4"].video_clips[0].shape == (24, 3, 48, 64)
    assert len(sample["mp4"].audio_clips) == sounds
    assert sample["wav"].audio_clips[0].shape == (2, 110_250)


def test_av_decode_pyav_returns_open_container(dataset: str) -> None:
    (sample,) = islice(get_loader(get_train_dataset(dataset, task_encoder=encoder(av_decode="pyav"))), 1)

    with sample["mp4"] as container:
        assert sum(1 for _ in container.decode(video=0)) == 24
    sample["wav"].close()


def test_av_decode_none_returns_bytes(dataset: str) -> None:
    (sample,) = islice(get_loader(get_train_dataset(dataset, task_encoder=encoder(av_decode=None))), 1)

    assert (sample["mp4"], sample["wav"]) == (parts()["mp4"], parts()["wav"])


@pytest.mark.parametrize("extension", sorted(decodable_extensions("video") | decodable_extensions("audio")))
def test_every_media_extension_becomes_av_decoder(extension: str) -> None:
    assert isinstance(SampleDecoder()(extension.upper(), b""), AVDecoder)


def test_guess_content_turns_media_bytes_into_decoders() -> None:
    decoder = SampleDecoder(guess_content=True)

    assert decoder("bin", parts()["mp4"]).get_video_fps() == 24.0
    assert isinstance(decoder("jpg", parts()["wav"]), AVDecoder)


def test_sample_decoder_refuses_unknown_av_decode() -> None:
    with pytest.raises(UsageError, match="decord"):
        SampleDecoder(av_decode="decord")


def test_undecodable_video_reports_shard_key_and_part(tmp_path: Path) -> None:
    broken = a_dataset(tmp_path, 1, parts=lambda _: {"mp4": b"no film", "txt": b""})
    errors: list[Any] = []

    class EagerDecoding(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = SampleDecoder(av_decode="torch")

    config = WorkerConfig(num_workers=0, global_error_handler=lambda error, *_: errors.append(error))
    with pytest.raises(LoaderError, match="WDS5"):
        list(islice(get_loader(get_train_dataset(broken, task_encoder=EagerDecoding(), worker_config=config)), 1))

    assert errors[0].code == "WDS503"
    for words in ("shard-000.tar", "000000", "part 'mp4'"):
        assert words in errors[0].where


def test_failing_video_hook_reports_shard_key_and_part(tmp_path: Path) -> None:
    good = parts()["mp4"]
    path = a_dataset(tmp_path, 6, shard_samples=3, parts=lambda i: {"mp4": good[:99] if i == 4 else good})
    errors: list[Any] = []
    config = WorkerConfig(global_error_handler=lambda error, *_: errors.append(error))
    loader = get_loader(get_train_dataset(path, repeat=False, task_encoder=Clips(), worker_config=config))

    assert (len(list(loader)), loader.stats.failed) == (5, 1)
    assert errors[0].code == "WDS503"
    assert errors[0].where == f"dataset {path}, shard shard-001.tar, key 000004, part 'mp4'"


def test_av_decode_torch_decodes_lazy_part(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(parts()["mp4"])
    part = LazyPart(str(tmp_path / "a.tar"), 0, len(parts()["mp4"]), LocalStorage("/"))
    decode: Any = SampleDecoder(av_decode="torch").function_for("mp4")

    assert decode(part).video_clips[0].shape == (24, 3, 48, 64)
