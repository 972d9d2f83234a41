"""webdataset's stages over our order, splits and states: samples as webdataset has them, and resumed exactly."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import webdataset

from tests.contracts.savable import assert_savable
from tests.loader.datasets import Parts, Raw, a_dataset, a_shard, numbered
from tests.loader.decoding.pictures import a_jpeg
from tests.loader.running import strict, through_json, training_of
from wdsctl.core.errors import StorageError, UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.loader import (
    CrudeSample,
    DefaultTaskEncoder,
    LazyPart,
    SampleDecoder,
    SourceInfo,
    WorkerConfig,
    as_webdataset,
    get_train_dataset,
    get_val_dataset,
    merge_states,
)
from wdsctl.loader.integrations.webdataset import WebDatasetPipeline, _to_webdataset_sample

SAMPLES = 46

READ = """
import pickle, sys
import webdataset
read = list(webdataset.WebDataset(sys.argv[1:], shardshuffle=False))
sys.stdout.buffer.write(pickle.dumps(read))
"""


def as_webdataset_reads(*shards: Path) -> list[dict[str, Any]]:
    """In a process of its own: it leaves the closing of its files to chance, and warnings are errors here."""
    done = subprocess.run([sys.executable, "-c", READ, *map(str, shards)], check=True, stdout=subprocess.PIPE)
    read: list[dict[str, Any]] = pickle.loads(done.stdout)  # noqa: S301 - our own child
    return read


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=15, parts=numbered)


def pipeline_of(path: str, rank: int = 0, world: int = 1, **options: Any) -> WebDatasetPipeline:
    options = {"batch_size": 4, "shuffle_buffer_size": 8, **options}
    return as_webdataset(path, worker_config=WorkerConfig(rank, world), **options)


def keys(pipeline: WebDatasetPipeline | Iterator[Any], count: int) -> list[str]:
    return [sample["__key__"] for sample in islice(pipeline, count)]


# Samples.


def test_samples_are_those_that_webdataset_reads_field_for_field(tmp_path: Path) -> None:
    picture = a_jpeg()
    shards = [
        a_shard(
            tmp_path / "a.tar",
            [
                ("plain", {"jpg": picture, "json": b"{}"}),
                ("in/folders.with.dots/7", {"JPG": b"big letters", "seg.PNG": b"several", "txt": b""}),
                ("in/folders.with.dots/8", {"txt": b"fewer parts"}),
                ("./here", {"txt": b"dot"}),
                ("again", {"txt": b"one"}),
                ("other", {"txt": b"two"}),
                ("again", {"txt": b"three"}),
            ],
        ),
        a_shard(tmp_path / "sub" / "b.tar", [("again", {"txt": b"in another shard"}), ("\u00e4", {"txt": b"letters"})]),
    ]
    prepare(str(tmp_path), None, PrepareRequest(sample_type="CrudeSample", split={"val": 1.0}))

    samples = list(as_webdataset(get_val_dataset(tmp_path)))

    assert samples == as_webdataset_reads(*shards)
    assert len(samples) == 9
    assert all(type(sample) is dict for sample in samples)


def test_members_without_a_key_of_ours_are_no_samples_and_of_two_parts_the_last_counts(tmp_path: Path) -> None:
    shard = [("a", {"txt": b"1", "TXT": b"2"}), ("d/", {"hidden.jpg": b""}), ("__meta__", {"json": b"{}"})]
    a_shard(tmp_path / "a.tar", shard)
    prepare(str(tmp_path), None, PrepareRequest(sample_type="CrudeSample", split={"val": 1.0}))

    samples = list(as_webdataset(get_val_dataset(tmp_path)))

    assert [(sample["__key__"], sample["txt"]) for sample in samples] == [("a", b"2")]


def test_all_parts_come_whatever_the_field_map_says(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 6, sample_type="TextSample", field_map={"text": "txt"})

    sample = next(iter(as_webdataset(root)))

    assert sample.keys() == {"__key__", "__url__", "__local_path__", "txt", "json"}


def test_a_large_part_comes_as_bytes() -> None:
    class Letters:
        def read(self, path: str, offset: int, size: int) -> bytes:
            return b"abcdefgh"[offset : offset + size]

    source = SourceInfo(dataset_path="/data", index=0, shard_name="a.tar", file_names=("k.mp4",))
    part = LazyPart("/data/a.tar", 2, 3, Letters())  # type: ignore[arg-type]

    sample = _to_webdataset_sample(CrudeSample({"__key__": "k", "__sources__": (source,), "mp4": part}))

    assert sample == {"__key__": "k", "__url__": "/data/a.tar", "__local_path__": "/data/a.tar", "mp4": b"cde"}


def test_a_shard_at_a_url_has_no_local_path() -> None:
    source = SourceInfo(dataset_path="s3://bucket/data", index=0, shard_name="a.tar", file_names=("k.txt",))

    sample = _to_webdataset_sample(CrudeSample({"__key__": "k", "__sources__": (source,), "txt": b""}))

    assert sample == {"__key__": "k", "__url__": "s3://bucket/data/a.tar", "txt": b""}


def test_the_stages_of_webdataset_work_on_it(tmp_path: Path) -> None:
    def pictured(i: int) -> Parts:
        return {"jpg": a_jpeg(seed=i), "json": json.dumps({"number": i}).encode()}

    root = a_dataset(tmp_path, 40, parts=pictured)
    pipeline = (
        as_webdataset(root, batch_size=16, shuffle=False, lanes=1)
        .decode("pil")
        .to_tuple("jpg", "json")
        .map_tuple(lambda image: image.size, lambda facts: facts["number"])
        .batched(16)
    )

    sizes, numbers = next(iter(pipeline))

    assert isinstance(pipeline, webdataset.DataPipeline)
    assert sizes == [(30, 20)] * 16
    assert numbers.tolist() == list(range(16))


# Order and splits.


@pytest.mark.parametrize("batch_size", [None, 4])
def test_the_order_is_that_of_our_loader(batch_size: int | None, dataset: str) -> None:
    loader = training_of(dataset, batch_size=batch_size)
    found = [batch["__key__"] for batch in islice(loader, 120 // (batch_size or 1))]

    came = keys(pipeline_of(dataset, batch_size=batch_size), 120)

    assert came == (found if batch_size is None else [key for batch in found for key in batch])


def test_ranks_share_the_samples_of_an_epoch(dataset: str) -> None:
    alone = keys(pipeline_of(dataset, lanes=4), 80)

    world = [keys(pipeline_of(dataset, rank, 2, lanes=4), 40) for rank in range(2)]

    rounds = [world[rank][start : start + 4] for start in range(0, 40, 4) for rank in range(2)]
    assert [key for batch in rounds for key in batch] == alone


def test_a_validation_is_one_pass_and_can_be_repeated(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 10, split={"val": 1.0})
    pipeline = as_webdataset(get_val_dataset(root, batch_size=4))
    one = [f"{i:06}" for i in range(10)]

    assert [keys(pipeline, 99), keys(pipeline, 99)] == [one, one]
    assert keys(as_webdataset(get_val_dataset(root)).repeat(2), 99) == one + one


# States.


def test_a_state_is_exact_between_any_two_samples(dataset: str) -> None:
    def fresh() -> Any:
        return pipeline_of(dataset, batch_size=None).decode().to_tuple("__key__", "json")

    assert_savable(fresh, lambda pipeline: next(iter(pipeline)), 2 * SAMPLES + 5)


def test_a_state_is_exact_between_batches_of_the_datasets_batch_size(dataset: str) -> None:
    """Also while `batched` holds the first sample of the next batch, as it does after each but the first."""

    def fresh() -> Any:
        return pipeline_of(dataset, batch_size=4).decode().to_tuple("__key__", "json").batched(4)

    steps = 2 * SAMPLES // 4 + 5
    truth = [[*batch[0]] for batch in islice(fresh(), steps)]
    running = fresh()
    batches = iter(running)
    for step in range(steps):
        resumed = fresh()
        resumed.load_state_dict(through_json(running.state_dict()))
        assert [[*batch[0]] for batch in islice(resumed, steps - step)] == truth[step:], f"saved after batch {step}"
        assert [*next(batches)[0]] == truth[step], "saving changed what came"


def test_a_batch_that_was_begun_comes_again(dataset: str) -> None:
    truth = keys(pipeline_of(dataset), 20)
    pipeline = pipeline_of(dataset)
    first = keys(pipeline, 6)
    state = pipeline.state_dict()

    assert first == truth[:6]
    assert keys(pipeline, 8) == truth[4:12]
    pipeline.load_state_dict(state)
    assert keys(pipeline, 8) == truth[4:12]


def test_epochs_of_any_length_lose_nothing(dataset: str) -> None:
    truth = [[*batch] for batch in islice(pipeline_of(dataset).to_tuple("__key__").listed(4), 12)]
    pipeline = pipeline_of(dataset).to_tuple("__key__").listed(4).with_epoch(3)

    epochs = [[*batch] for _ in range(4) for batch in pipeline]

    assert epochs == truth


def test_a_stage_that_fails_loses_nothing(dataset: str) -> None:
    truth = keys(pipeline_of(dataset), 12)
    failing = [truth[5]]

    def sometimes(sample: Any) -> Any:
        if sample["__key__"] in failing:
            failing.clear()
            raise ValueError("no good")
        return sample

    pipeline = pipeline_of(dataset).map(sometimes)
    samples = iter(pipeline)
    assert keys(samples, 5) == truth[:5]
    with pytest.raises(ValueError, match="no good"):
        next(samples)

    assert keys(pipeline, 8) == truth[4:12]


def test_pipelines_that_are_made_from_one_share_its_place(dataset: str) -> None:
    truth = keys(pipeline_of(dataset, batch_size=None), 12)
    pipeline = pipeline_of(dataset, batch_size=None)

    assert keys(pipeline.decode(), 5) == truth[:5]
    assert keys(pipeline.map(dict), 7) == truth[5:]
    assert pipeline.state_dict() == pipeline.decode().state_dict()


def test_a_pipeline_and_our_loader_go_on_from_each_others_states(dataset: str) -> None:
    truth = keys(pipeline_of(dataset), 40)
    pipeline, loader = pipeline_of(dataset), training_of(dataset)
    keys(pipeline, 12)

    with pytest.warns(UserWarning, match="each sample still appears once"):
        loader.load_state_dict(through_json(pipeline.state_dict()))
    (batch,) = islice(loader, 1)
    with pytest.warns(UserWarning, match="each sample still appears once"):
        pipeline.load_state_dict(through_json(loader.state_dict()))

    assert batch["__key__"] == truth[12:16]
    assert keys(pipeline, 24) == truth[16:]


def test_the_states_of_all_ranks_are_gone_on_with_by_one(dataset: str) -> None:
    world = [pipeline_of(dataset, rank, 2, lanes=4) for rank in range(2)]
    for pipeline in world:
        keys(pipeline, 12)
    alone = pipeline_of(dataset, lanes=4)

    alone.load_state_dict(merge_states([through_json(pipeline.state_dict()) for pipeline in world]))

    assert keys(alone, 40) == keys(pipeline_of(dataset, lanes=4), 64)[24:]


# What is refused.


class Hooked(Raw):
    def encode_sample(self, sample: Any) -> Any:
        return sample


class Decodes(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder(image_decode="pil")


@pytest.mark.usefixtures("unopened")
@pytest.mark.parametrize("encoder", [Hooked(), Decodes()], ids=["a hook", "a decoder"])
def test_a_task_encoder_that_would_not_run_is_refused(encoder: Any) -> None:
    with pytest.raises(UsageError, match="does not run the hooks and the decoder"):
        as_webdataset(get_train_dataset("anywhere", task_encoder=encoder))


@pytest.mark.usefixtures("unopened")
def test_views_are_refused() -> None:
    with pytest.raises(UsageError, match="bytes, not views"):
        as_webdataset("anywhere", raw="view", task_encoder=Raw())


@pytest.mark.usefixtures("unopened")
def test_options_beside_a_dataset_are_refused() -> None:
    with pytest.raises(UsageError, match="batch_size, seed cannot be changed"):
        as_webdataset(get_train_dataset("anywhere"), batch_size=4, seed=1)


def test_a_shard_that_was_cut_off_is_named(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 10)
    shard = tmp_path / "shard-000.tar"
    shard.write_bytes(shard.read_bytes()[:1000])

    with pytest.raises(StorageError) as raised:
        keys(as_webdataset(root, worker_config=strict()), 10)

    assert "shard shard-000.tar" in raised.value.where
