"""What becomes of films and sounds in a training."""

from __future__ import annotations

import pickle
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.datasets import Parts, a_dataset
from tests.loader.decoding.av.media import film, pictures, pixels_of, samples, sound
from tests.opened import sizes_read
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
        "mp4": film("mp4", "libx264", audio="aac", times=range(24)),
        "txt": b"a film",
        "wav": sound("wav", "pcm_u8"),
    }


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("films"), 6, shard_samples=3, parts=lambda _: parts())


class Clips(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Cuts a clip in the worker."""

    def encode_sample(self, sample: Any) -> Any:
        sample["clip"] = sample["mp4"].get_video_clips([(0.5, 0.5)])[0][0]
        return sample


def encoder(**options: Any) -> DefaultTaskEncoder[Any, Any, Any, Any]:
    made = DefaultTaskEncoder[Any, Any, Any, Any]()
    made.decoder = SampleDecoder(**options)
    return made


def test_films_and_sounds_become_lazy_decoders_and_their_neighbours_what_they_were(dataset: str) -> None:
    (sample,) = islice(get_loader(get_train_dataset(dataset)), 1)

    assert sample["txt"] == "a film"
    assert np.array_equal(pixels_of(sample["mp4"].get_video().video_clips[0])[3], pictures(parts()["mp4"])[3].pixels)
    assert np.array_equal(sample["wav"].get_audio().audio_clips[0].numpy(), samples(parts()["wav"]))


def test_a_decoder_that_is_not_asked_reads_nothing(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = sizes_read(monkeypatch)
    list(islice(get_loader(get_train_dataset(dataset)), 6))

    assert sum(reads) == 6 * len(b"a film")


def test_decoders_cross_from_workers_and_open_the_shard_where_they_arrive(dataset: str) -> None:
    config = WorkerConfig(num_workers=2)
    loader = get_loader(get_train_dataset(dataset, batch_size=2, worker_config=config, task_encoder=Clips()))

    for batch in islice(loader, 2):
        assert [np.array_equal(pixels_of(clip)[0], pictures(parts()["mp4"])[12].pixels) for clip in batch["clip"]]
        for decoder in batch["mp4"]:
            assert isinstance(decoder, AVDecoder)
            assert decoder.get_video_clips([(0, 1)], "frames")[0][0].shape == (2, 3, 48, 64)


def test_the_keyframes_that_the_catalog_knows_come_with_a_film_and_spare_a_pass_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = film("matroska", "mpeg4", times=range(240), size=(320, 240))
    path = a_dataset(tmp_path, 2, parts=lambda i: {"mkv": data, "txt": b"%d" % i})
    fetched = sizes_read(monkeypatch)
    clips, costs = [], []
    for media in (None, MediaRequest(selection="auto", keyframes=True)):
        index(path, media=media)
        (sample,) = islice(get_loader(get_train_dataset(path)), 1)
        for decoder in (sample["mkv"], pickle.loads(pickle.dumps(sample["mkv"]))):  # noqa: S301 - our own
            fetched.clear()
            clips.append(pixels_of(decoder.get_video_clips([(200, 203)], "frames")[0][0]))
            costs.append(sum(fetched))

    assert all(np.array_equal(clip, clips[0]) for clip in clips[1:])
    assert min(costs[:2]) >= len(data)
    assert 0 < max(costs[2:]) < len(data) / 2


def test_who_reads_samples_opens_no_catalog_for_their_films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_dataset(tmp_path, 4, parts=lambda _: {"mkv": film("matroska", "mpeg4")})
    index(path, media=MediaRequest(selection="auto", keyframes=True))
    samples_ = iter(get_loader(get_train_dataset(path)))
    next(samples_)

    monkeypatch.delattr("sqlite3.connect")

    assert all(next(samples_)["mkv"].get_metadata(get_video=True).video_num_frames == 60 for _ in range(3))


@pytest.mark.parametrize(("with_sound", "sounds"), [(False, 0), (True, 1)])
def test_torch_decodes_all_of_it_with_the_sound_of_films_if_asked(dataset: str, with_sound: bool, sounds: int) -> None:
    task_encoder = encoder(av_decode="torch", video_decode_audio=with_sound)
    (sample,) = islice(get_loader(get_train_dataset(dataset, task_encoder=task_encoder)), 1)

    assert isinstance(sample["mp4"], AVData)
    assert sample["mp4"].video_clips[0].shape == (24, 3, 48, 64)
    assert len(sample["mp4"].audio_clips) == sounds
    assert sample["wav"].audio_clips[0].shape == (2, 110_250)


def test_pyav_gives_an_open_container(dataset: str) -> None:
    (sample,) = islice(get_loader(get_train_dataset(dataset, task_encoder=encoder(av_decode="pyav"))), 1)

    with sample["mp4"] as container:
        assert sum(1 for _ in container.decode(video=0)) == 24
    sample["wav"].close()


def test_none_gives_bytes(dataset: str) -> None:
    (sample,) = islice(get_loader(get_train_dataset(dataset, task_encoder=encoder(av_decode=None))), 1)

    assert (sample["mp4"], sample["wav"]) == (parts()["mp4"], parts()["wav"])


@pytest.mark.parametrize("ending", sorted(decodable_extensions("video") | decodable_extensions("audio")))
def test_every_ending_of_media_is_known(ending: str) -> None:
    assert isinstance(SampleDecoder()(ending.upper(), b""), AVDecoder)


def test_a_part_that_is_a_medium_by_its_content_becomes_a_decoder_where_content_is_guessed() -> None:
    decoder = SampleDecoder(guess_content=True)

    assert decoder("bin", parts()["mp4"]).get_video_fps() == 24.0
    assert isinstance(decoder("jpg", parts()["wav"]), AVDecoder)


def test_a_way_of_decoding_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="decord"):
        SampleDecoder(av_decode="decord")


def test_a_sample_whose_film_cannot_be_decoded_is_told_with_shard_key_and_part(tmp_path: Path) -> None:
    broken = a_dataset(tmp_path, 1, parts=lambda _: {"mp4": b"no film", "txt": b""})
    told: list[Any] = []

    class Tells(DefaultTaskEncoder[Any, Any, Any, Any]):
        decoder = SampleDecoder(av_decode="torch")

    config = WorkerConfig(num_workers=0, global_error_handler=lambda error, *_: told.append(error))
    with pytest.raises(LoaderError, match="WDS5"):
        list(islice(get_loader(get_train_dataset(broken, task_encoder=Tells(), worker_config=config)), 1))

    assert told[0].code == "WDS503"
    for words in ("shard-000.tar", "000000", "part 'mp4'"):
        assert words in told[0].where


def test_a_film_that_fails_in_a_hook_is_told_with_shard_key_and_part(tmp_path: Path) -> None:
    good = parts()["mp4"]
    path = a_dataset(tmp_path, 6, shard_samples=3, parts=lambda i: {"mp4": good[:99] if i == 4 else good})
    told: list[Any] = []
    config = WorkerConfig(global_error_handler=lambda error, *_: told.append(error))
    loader = get_loader(get_train_dataset(path, repeat=False, task_encoder=Clips(), worker_config=config))

    assert (len(list(loader)), loader.stats.failed) == (5, 1)
    assert told[0].code == "WDS503"
    assert told[0].where == f"dataset {path}, shard shard-001.tar, key 000004, part 'mp4'"


def test_a_large_part_is_decoded_through_its_handle(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(parts()["mp4"])
    part = LazyPart(str(tmp_path / "a.tar"), 0, len(parts()["mp4"]), LocalStorage("/"))
    decode: Any = SampleDecoder(av_decode="torch").function_for("mp4")

    assert decode(part).video_clips[0].shape == (24, 3, 48, 64)
