"""Pipelines in the workers of torch's DataLoader: the order of one process, and no state with unknown position."""

from __future__ import annotations

import pickle
from itertools import islice
from typing import Any

import pytest
import webdataset

from tests.loader.datasets import a_dataset, numbered
from tests.loader.running import json_round_trip
from wdsctl.core.errors import LoaderError, StateMismatch
from wdsctl.loader import WorkerConfig, as_webdataset, get_val_dataset, merge_states

SAMPLES = 46


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    split = {"train": 30.0, "val": 16.0}
    return a_dataset(tmp_path_factory.mktemp("data"), SAMPLES, shard_samples=2, parts=numbered, split=split)


def pipeline_of(path: str, rank: int = 0, world: int = 1, **options: Any) -> Any:
    options = {"batch_size": 4, "shuffle_buffer_size": 8, "worker_config": WorkerConfig(rank, world), **options}
    return as_webdataset(path, **options).to_tuple("__key__").listed(4)


def loader_of(pipeline: Any, workers: int = 2, **options: Any) -> Any:
    return webdataset.WebLoader(pipeline, batch_size=None, num_workers=workers, **options)


def keys(batches: Any, count: int) -> list[list[str]]:
    return [[key for (key,) in batch] for batch in islice(batches, count)]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_order_is_same_with_any_worker_count_dividing_lanes(workers: int, dataset: str) -> None:
    assert keys(loader_of(pipeline_of(dataset), workers), 30) == keys(pipeline_of(dataset), 30)


def test_every_rank_has_its_own_workers(dataset: str) -> None:
    for rank in range(2):
        assert keys(loader_of(pipeline_of(dataset, rank, 2)), 20) == keys(pipeline_of(dataset, rank, 2), 20)


def test_unbatched_samples_are_divided_among_workers(dataset: str) -> None:
    def make_pipeline() -> Any:
        return pipeline_of(dataset, batch_size=None).unlisted().listed(1)

    assert keys(loader_of(make_pipeline()), 30) == keys(make_pipeline(), 30)


def test_workers_start_at_loaded_state_or_current_position(dataset: str) -> None:
    pipeline = pipeline_of(dataset)
    batches = iter(pipeline)
    before = keys(batches, 5)
    state = json_round_trip(pipeline.state_dict())
    resumed, running = pipeline_of(dataset), pipeline_of(dataset)
    resumed.load_state_dict(state)
    assert keys(iter(running), 5) == before

    after = keys(batches, 12)

    assert keys(loader_of(resumed), 12) == after, "a state that was loaded"
    assert keys(loader_of(running), 12) == after, "what had come in this process"


def test_workers_of_rank_start_at_merged_job_state(dataset: str) -> None:
    world = [pipeline_of(dataset, rank, 2) for rank in range(2)]
    running = [iter(pipeline) for pipeline in world]
    for batches in running:
        keys(batches, 5)
    states = [json_round_trip(pipeline.state_dict()) for pipeline in world]

    resumed = pipeline_of(dataset, 1, 2)
    resumed.load_state_dict(merge_states(states))
    rank_pipeline = pipeline_of(dataset, 1, 2)
    rank_pipeline.load_state_dict(states[1])

    assert keys(loader_of(resumed), 12) == keys(running[1], 12)
    with pytest.raises(RuntimeError, match="pass the states of all ranks"):
        next(iter(loader_of(rank_pipeline)))


def test_pipeline_pickles_with_position(dataset: str) -> None:
    pipeline = pipeline_of(dataset)
    batches = iter(pipeline)
    keys(batches, 5)

    copy = pickle.loads(pickle.dumps(pipeline))  # noqa: S301 - our own
    loader = loader_of(copy)

    assert keys(loader, 12) == keys(batches, 12)


def test_state_dict_is_refused_after_workers_have_read(dataset: str) -> None:
    pipeline = pipeline_of(dataset)
    state = pipeline.state_dict()
    first = keys(loader_of(pipeline), 3)

    with pytest.raises(LoaderError, match="so the position of the training is unknown"):
        pipeline.state_dict()

    pipeline.load_state_dict(state)
    assert pipeline.state_dict() == state
    assert keys(pipeline, 3) == first


def test_second_iteration_refuses_new_workers_without_persistence(dataset: str) -> None:
    loader = loader_of(pipeline_of(dataset).with_epoch(4))
    assert len(keys(loader, 99)) == 8

    with pytest.raises(RuntimeError, match="persistent_workers=True"):
        next(iter(loader))


def test_persistent_workers_continue_in_next_epoch(dataset: str) -> None:
    loader = loader_of(pipeline_of(dataset).with_epoch(4), persistent_workers=True)

    epochs = keys(loader, 99) + keys(loader, 99)

    assert epochs == keys(pipeline_of(dataset), 16)


@pytest.mark.parametrize("persistent", [False, True])
def test_validation_passes_in_workers_are_equal(persistent: bool, dataset: str) -> None:
    validation = as_webdataset(get_val_dataset(dataset, batch_size=4)).to_tuple("__key__").listed(4)
    expected = keys(validation, 99)
    assert [len(batch) for batch in expected] == [4, 4, 4, 4]

    loader = loader_of(as_webdataset(get_val_dataset(dataset, batch_size=4)).to_tuple("__key__").listed(4))
    if persistent:
        loader = loader_of(validation, persistent_workers=True)

    assert [keys(loader, 99), keys(loader, 99)] == [expected, expected]


def test_refused_state_leaves_pipeline_unchanged(dataset: str) -> None:
    pipeline = pipeline_of(dataset)
    keys(pipeline, 2)
    state = pipeline.state_dict()

    with pytest.raises(StateMismatch):
        pipeline.load_state_dict(pipeline_of(dataset, seed=1).state_dict())

    assert pipeline.state_dict() == state
