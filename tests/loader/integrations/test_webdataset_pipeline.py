"""webdataset's stages over wdsctl's order, splits and states: samples equal webdataset's, and resumes are exact."""

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

from tests import children
from tests.contracts.savable import assert_savable
from tests.loader.datasets import Parts, Raw, a_dataset, a_shard, numbered
from tests.loader.decoding.pictures import a_jpeg
from tests.loader.running import json_round_trip, make_training_loader, raising_worker_config
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


def read_with_webdataset(*shards: Path) -> list[dict[str, Any]]:
    """Reads in a separate process: webdataset leaves files open, and warnings are errors here."""
    process = children.run(
        [sys.executable, "-c", READ, *map(str, shards)], check=True, stdout=subprocess.PIPE, parent="training"
    )
    read: list[dict[str, Any]] = pickle.loads(process.stdout)  # noqa: S301 - our own child
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


def test_pipeline_samples_equal_webdataset_samples(tmp_path: Path) -> None:
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

    assert samples == read_with_webdataset(*shards)
    assert len(samples) == 9
    assert all(type(sample) is dict for sample in samples)


def test_members_without_key_are_ignored_and_last_duplicate_part_wins(tmp_path: Path) -> None:
    shard = [("a", {"txt": b"1", "TXT": b"2"}), ("d/", {"hidden.jpg": b""}), ("__meta__", {"json": b"{}"})]
    a_shard(tmp_path / "a.tar", shard)
    prepare(str(tmp_path), None, PrepareRequest(sample_type="CrudeSample", split={"val": 1.0}))

    samples = list(as_webdataset(get_val_dataset(tmp_path)))

    assert [(sample["__key__"], sample["txt"]) for sample in samples] == [("a", b"2")]


def test_pipeline_samples_have_all_parts_despite_field_map(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 6, sample_type="TextSample", field_map={"text": "txt"})

    sample = next(iter(as_webdataset(root)))

    assert sample.keys() == {"__key__", "__url__", "__local_path__", "txt", "json"}


def test_lazy_part_is_converted_to_bytes() -> None:
    class Letters:
        def read(self, path: str, offset: int, size: int) -> bytes:
            return b"abcdefgh"[offset : offset + size]

    source = SourceInfo(dataset_path="/data", index=0, shard_name="a.tar", file_names=("k.mp4",))
    part = LazyPart("/data/a.tar", 2, 3, Letters())  # type: ignore[arg-type]

    sample = _to_webdataset_sample(CrudeSample({"__key__": "k", "__sources__": (source,), "mp4": part}))

    assert sample == {"__key__": "k", "__url__": "/data/a.tar", "__local_path__": "/data/a.tar", "mp4": b"cde"}


def test_sample_of_shard_at_url_has_no_local_path() -> None:
    source = SourceInfo(dataset_path="s3://bucket/data", index=0, shard_name="a.tar", file_names=("k.txt",))

    sample = _to_webdataset_sample(CrudeSample({"__key__": "k", "__sources__": (source,), "txt": b""}))

    assert sample == {"__key__": "k", "__url__": "s3://bucket/data/a.tar", "txt": b""}


def test_webdataset_stages_work_on_pipeline(tmp_path: Path) -> None:
    def make_parts(i: int) -> Parts:
        return {"jpg": a_jpeg(seed=i), "json": json.dumps({"number": i}).encode()}

    root = a_dataset(tmp_path, 40, parts=make_parts)
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
def test_pipeline_order_equals_loader_order(batch_size: int | None, dataset: str) -> None:
    loader = make_training_loader(dataset, batch_size=batch_size)
    batches = [batch["__key__"] for batch in islice(loader, 120 // (batch_size or 1))]

    actual = keys(pipeline_of(dataset, batch_size=batch_size), 120)

    assert actual == (batches if batch_size is None else [key for batch in batches for key in batch])


def test_ranks_divide_samples_of_epoch(dataset: str) -> None:
    single = keys(pipeline_of(dataset, lanes=4), 80)

    world = [keys(pipeline_of(dataset, rank, 2, lanes=4), 40) for rank in range(2)]

    rounds = [world[rank][start : start + 4] for start in range(0, 40, 4) for rank in range(2)]
    assert [key for batch in rounds for key in batch] == single


def test_validation_pipeline_is_one_pass_and_repeatable(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 10, split={"val": 1.0})
    pipeline = as_webdataset(get_val_dataset(root, batch_size=4))
    one_pass = [f"{i:06}" for i in range(10)]

    assert [keys(pipeline, 99), keys(pipeline, 99)] == [one_pass, one_pass]
    assert keys(as_webdataset(get_val_dataset(root)).repeat(2), 99) == one_pass + one_pass


# States.


def test_unbatched_state_restores_exactly_at_every_sample(dataset: str) -> None:
    def make_pipeline() -> Any:
        return pipeline_of(dataset, batch_size=None).decode().to_tuple("__key__", "json")

    assert_savable(make_pipeline, lambda pipeline: next(iter(pipeline)), SAMPLES + 5)


def test_batched_state_restores_exactly_at_every_batch(dataset: str) -> None:
    """Holds also while `batched` keeps the first sample of the next batch, as after every batch but the first."""

    def make_pipeline() -> Any:
        return pipeline_of(dataset, batch_size=4).decode().to_tuple("__key__", "json").batched(4)

    steps = 2 * SAMPLES // 4 + 5
    expected = [[*batch[0]] for batch in islice(make_pipeline(), steps)]
    running = make_pipeline()
    batches = iter(running)
    for step in range(steps):
        resumed = make_pipeline()
        resumed.load_state_dict(json_round_trip(running.state_dict()))
        assert [[*batch[0]] for batch in islice(resumed, steps - step)] == expected[step:], f"saved after batch {step}"
        assert [*next(batches)[0]] == expected[step], "saving changed what came"


def test_unfinished_batch_is_repeated_after_restore(dataset: str) -> None:
    expected = keys(pipeline_of(dataset), 20)
    pipeline = pipeline_of(dataset)
    first = keys(pipeline, 6)
    state = pipeline.state_dict()

    assert first == expected[:6]
    assert keys(pipeline, 8) == expected[4:12]
    pipeline.load_state_dict(state)
    assert keys(pipeline, 8) == expected[4:12]


def test_with_epoch_loses_no_samples(dataset: str) -> None:
    expected = [[*batch] for batch in islice(pipeline_of(dataset).to_tuple("__key__").listed(4), 12)]
    pipeline = pipeline_of(dataset).to_tuple("__key__").listed(4).with_epoch(3)

    epochs = [[*batch] for _ in range(4) for batch in pipeline]

    assert epochs == expected


def test_failing_stage_loses_no_samples(dataset: str) -> None:
    expected = keys(pipeline_of(dataset), 12)
    failing = [expected[5]]

    def fail_once(sample: Any) -> Any:
        if sample["__key__"] in failing:
            failing.clear()
            raise ValueError("no good")
        return sample

    pipeline = pipeline_of(dataset).map(fail_once)
    samples = iter(pipeline)
    assert keys(samples, 5) == expected[:5]
    with pytest.raises(ValueError, match="no good"):
        next(samples)

    assert keys(pipeline, 8) == expected[4:12]


def test_derived_pipelines_share_position(dataset: str) -> None:
    expected = keys(pipeline_of(dataset, batch_size=None), 12)
    pipeline = pipeline_of(dataset, batch_size=None)

    assert keys(pipeline.decode(), 5) == expected[:5]
    assert keys(pipeline.map(dict), 7) == expected[5:]
    assert pipeline.state_dict() == pipeline.decode().state_dict()


def test_pipeline_and_loader_restore_each_others_states(dataset: str) -> None:
    expected = keys(pipeline_of(dataset), 40)
    pipeline, loader = pipeline_of(dataset), make_training_loader(dataset)
    keys(pipeline, 12)

    with pytest.warns(UserWarning, match="each sample still appears once"):
        loader.load_state_dict(json_round_trip(pipeline.state_dict()))
    (batch,) = islice(loader, 1)
    with pytest.warns(UserWarning, match="each sample still appears once"):
        pipeline.load_state_dict(json_round_trip(loader.state_dict()))

    assert batch["__key__"] == expected[12:16]
    assert keys(pipeline, 24) == expected[16:]


def test_merged_states_of_ranks_restore_on_one_rank(dataset: str) -> None:
    world = [pipeline_of(dataset, rank, 2, lanes=4) for rank in range(2)]
    for pipeline in world:
        keys(pipeline, 12)
    single = pipeline_of(dataset, lanes=4)

    single.load_state_dict(merge_states([json_round_trip(pipeline.state_dict()) for pipeline in world]))

    assert keys(single, 40) == keys(pipeline_of(dataset, lanes=4), 64)[24:]


# Refusals.


class HookedEncoder(Raw):
    def encode_sample(self, sample: Any) -> Any:
        return sample


class DecodingEncoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder(image_decode="pil")


@pytest.mark.usefixtures("unopened_datasets")
@pytest.mark.parametrize("encoder", [HookedEncoder(), DecodingEncoder()], ids=["a hook", "a decoder"])
def test_as_webdataset_refuses_task_encoder_with_hooks_or_decoder(encoder: Any) -> None:
    with pytest.raises(UsageError, match="does not run the hooks and the decoder"):
        as_webdataset(get_train_dataset("anywhere", task_encoder=encoder))


@pytest.mark.usefixtures("unopened_datasets")
def test_as_webdataset_refuses_raw_views() -> None:
    with pytest.raises(UsageError, match="bytes, not views"):
        as_webdataset("anywhere", raw="view", task_encoder=Raw())


@pytest.mark.usefixtures("unopened_datasets")
def test_as_webdataset_refuses_options_with_dataset() -> None:
    with pytest.raises(UsageError, match="batch_size, seed cannot be changed") as raised:
        as_webdataset(get_train_dataset("anywhere"), batch_size=4, seed=1)

    assert raised.value.hint == "pass batch_size and seed to get_train_dataset"


def test_truncated_shard_error_names_shard(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, 10)
    shard = tmp_path / "shard-000.tar"
    shard.write_bytes(shard.read_bytes()[:1000])

    with pytest.raises(StorageError) as raised:
        keys(as_webdataset(root, worker_config=raising_worker_config()), 10)

    assert "shard shard-000.tar" in raised.value.where
