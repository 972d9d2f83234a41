"""Samples one by one in the workers of torch's DataLoader: the order of one process, and no state that nobody knows."""

from __future__ import annotations

import pickle
from itertools import islice
from typing import Any

import pytest
import webdataset

from tests.loader.datasets import a_dataset, numbered
from tests.loader.running import through_json
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
def test_the_order_is_the_same_with_any_number_of_workers_that_divides_the_lanes(workers: int, dataset: str) -> None:
    assert keys(loader_of(pipeline_of(dataset), workers), 30) == keys(pipeline_of(dataset), 30)


def test_every_rank_has_workers_of_its_own(dataset: str) -> None:
    for rank in range(2):
        assert keys(loader_of(pipeline_of(dataset, rank, 2)), 20) == keys(pipeline_of(dataset, rank, 2), 20)


def test_samples_that_are_not_batched_are_shared_too(dataset: str) -> None:
    def fresh() -> Any:
        return pipeline_of(dataset, batch_size=None).unlisted().listed(1)

    assert keys(loader_of(fresh()), 30) == keys(fresh(), 30)


def test_workers_begin_where_a_state_says(dataset: str) -> None:
    saved = pipeline_of(dataset)
    batches = iter(saved)
    before = keys(batches, 5)
    state = through_json(saved.state_dict())
    resumed, running = pipeline_of(dataset), pipeline_of(dataset)
    resumed.load_state_dict(state)
    assert keys(iter(running), 5) == before

    after = keys(batches, 12)

    assert keys(loader_of(resumed), 12) == after, "a state that was loaded"
    assert keys(loader_of(running), 12) == after, "what had come in this process"


def test_workers_of_a_rank_begin_at_the_state_of_the_job(dataset: str) -> None:
    world = [pipeline_of(dataset, rank, 2) for rank in range(2)]
    running = [iter(pipeline) for pipeline in world]
    for batches in running:
        keys(batches, 5)
    states = [through_json(pipeline.state_dict()) for pipeline in world]

    resumed = pipeline_of(dataset, 1, 2)
    resumed.load_state_dict(merge_states(states))
    of_the_rank = pipeline_of(dataset, 1, 2)
    of_the_rank.load_state_dict(states[1])

    assert keys(loader_of(resumed), 12) == keys(running[1], 12)
    with pytest.raises(RuntimeError, match="pass the states of all ranks"):
        next(iter(loader_of(of_the_rank)))


def test_a_pipeline_is_pickled_with_its_place_for_workers_that_are_spawned(dataset: str) -> None:
    pipeline = pipeline_of(dataset)
    batches = iter(pipeline)
    keys(batches, 5)

    copy = pickle.loads(pickle.dumps(pipeline))  # noqa: S301 - our own
    loader = loader_of(copy)

    assert keys(loader, 12) == keys(batches, 12)


def test_what_workers_make_is_not_saved_as_if_nothing_had_come(dataset: str) -> None:
    pipeline = pipeline_of(dataset)
    state = pipeline.state_dict()
    first = keys(loader_of(pipeline), 3)

    with pytest.raises(LoaderError, match="so the position of the training is unknown"):
        pipeline.state_dict()

    pipeline.load_state_dict(state)
    assert pipeline.state_dict() == state
    assert keys(pipeline, 3) == first


def test_new_workers_do_not_begin_a_training_again(dataset: str) -> None:
    loader = loader_of(pipeline_of(dataset).with_epoch(4))
    assert len(keys(loader, 99)) == 8

    with pytest.raises(RuntimeError, match="persistent_workers=True"):
        next(iter(loader))


def test_workers_that_stay_go_on(dataset: str) -> None:
    loader = loader_of(pipeline_of(dataset).with_epoch(4), persistent_workers=True)

    epochs = keys(loader, 99) + keys(loader, 99)

    assert epochs == keys(pipeline_of(dataset), 16)


@pytest.mark.parametrize("persistent", [False, True])
def test_every_pass_of_a_validation_in_workers_is_the_same(persistent: bool, dataset: str) -> None:
    validation = as_webdataset(get_val_dataset(dataset, batch_size=4)).to_tuple("__key__").listed(4)
    truth = keys(validation, 99)
    assert [len(batch) for batch in truth] == [4, 4, 4, 4]

    loader = loader_of(as_webdataset(get_val_dataset(dataset, batch_size=4)).to_tuple("__key__").listed(4))
    if persistent:
        loader = loader_of(validation, persistent_workers=True)

    assert [keys(loader, 99), keys(loader, 99)] == [truth, truth]


def test_a_state_of_another_job_is_refused_before_anything_changes(dataset: str) -> None:
    pipeline = pipeline_of(dataset)
    keys(pipeline, 2)
    state = pipeline.state_dict()

    with pytest.raises(StateMismatch):
        pipeline.load_state_dict(pipeline_of(dataset, seed=1).state_dict())

    assert pipeline.state_dict() == state
