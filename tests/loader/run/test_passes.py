"""Finite passes read the split in order, are all equal, run on any number of ranks and can be saved in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.contracts.savable import shape_of
from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import raising_worker_config
from wdsctl.core.errors import SampleFailed, StateMismatch
from wdsctl.loader import Loader, SkipSample, WorkerConfig, get_loader, get_train_dataset, get_val_dataset

SAMPLES = 25


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("val")
    return a_dataset(root, SAMPLES, shard_samples=7, parts=numbered, split={"val": 1.0})


class Skips(Raw):
    """Skips 9 and every sample below 8, so that the first two batches of 4 are empty."""

    def encode_sample(self, sample: Any) -> Any:
        if int(sample["__key__"]) < 8 or int(sample["__key__"]) == 9:
            raise SkipSample
        return sample


class Copies(Raw):
    """Yields sample i (i mod 3) times, each with its own random number."""

    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for copy in range(int(sample["__key__"]) % 3):
            yield {**sample, "copy": copy, "noise": float(torch.rand(1))}


class Grouped(Raw):
    def batch_group_criterion(self, sample: Any) -> tuple[bool, None]:
        return int(sample["__key__"]) % 3 == 0, None


def loader_of(path: str, rank: int = 0, world: int = 1, encoder: Any = None, **options: Any) -> Loader:
    options = {"batch_size": 4, **options}
    options = {"worker_config": WorkerConfig(rank, world), **options}
    return get_loader(get_val_dataset(path, task_encoder=encoder or Raw(), **options))


def keys(batches: list[Any]) -> list[list[int]]:
    return [[int(key) for key in batch["__key__"]] for batch in batches]


def ordered_batches(count: int = SAMPLES, size: int = 4) -> list[list[int]]:
    return [list(range(start, min(start + size, count))) for start in range(0, count, size)]


def test_every_pass_reads_split_in_order(dataset: str) -> None:
    loader = loader_of(dataset)

    passes = [list(loader) for _ in range(3)]

    assert keys(passes[0]) == ordered_batches()
    assert [[digest(batch) for batch in each] for each in passes] == [[digest(batch) for batch in passes[0]]] * 3
    assert len(loader) == 7


def test_hooks_draw_equal_random_numbers_in_every_pass(dataset: str) -> None:
    loader = loader_of(dataset, encoder=Copies())

    first, second = ([batch["noise"] for batch in loader] for _ in range(2))

    assert first == second
    numbers = [number for batch in first for number in batch]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 9])
def test_batches_are_distributed_round_robin_over_ranks(world: int, dataset: str) -> None:
    loaders = [loader_of(dataset, rank, world) for rank in range(world)]

    passes = [keys(list(loader)) for loader in loaders]

    assert passes == [ordered_batches()[rank::world] for rank in range(world)]
    assert [len(loader) for loader in loaders] == [len(each) for each in passes]


@pytest.mark.parametrize("world", [1, 2])
def test_batch_drop_last_drops_smaller_batch(world: int, dataset: str) -> None:
    loaders = [loader_of(dataset, rank, world, batch_drop_last=True) for rank in range(world)]

    assert [keys(list(loader)) for loader in loaders] == [ordered_batches()[:-1][rank::world] for rank in range(world)]
    assert [len(loader) for loader in loaders] == [6 // world] * world


def test_split_smaller_than_batch_yields_one_smaller_batch_or_none(dataset: str) -> None:
    assert keys(list(loader_of(dataset, batch_size=100))) == [list(range(SAMPLES))]
    assert list(loader_of(dataset, batch_size=100, batch_drop_last=True)) == []


def test_loader_without_batch_size_yields_single_samples(dataset: str) -> None:
    loader = loader_of(dataset, batch_size=None)

    assert [int(sample["__key__"]) for sample in loader] == list(range(SAMPLES))
    assert len(loader) == SAMPLES
    assert (loader.stats.batches, loader.stats.samples) == (SAMPLES, SAMPLES)


def test_skipped_samples_shrink_batches_and_empty_batches_are_dropped(dataset: str) -> None:
    loader = loader_of(dataset, encoder=Skips())

    assert keys(list(loader)) == [[8, 10, 11], *ordered_batches()[3:]]
    assert (loader.stats.batches, loader.stats.samples, loader.stats.skipped) == (5, 16, 9)


@pytest.mark.parametrize("workers", [0, 2])
def test_limit_ignores_batches_that_hooks_emptied(workers: int, dataset: str) -> None:
    with loader_of(dataset, encoder=Skips(), limit=3, worker_config=WorkerConfig(num_workers=workers)) as loader:
        passes = [keys(list(loader)) for _ in range(2)]

    assert passes == [[[8, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]]] * 2


def test_pass_with_all_samples_skipped_is_empty(dataset: str) -> None:
    class Nothing(Raw):
        def encode_sample(self, sample: Any) -> Any:
            raise SkipSample

    loader = loader_of(dataset, encoder=Nothing())

    assert [list(loader), list(loader)] == [[], []]
    assert loader.stats.skipped == 2 * SAMPLES


def test_generator_outputs_stay_in_batch_of_their_samples(dataset: str) -> None:
    batches = list(loader_of(dataset, encoder=Copies()))

    expected = [[i for i in batch for _ in range(i % 3)] for batch in ordered_batches()]
    assert keys(batches) == [batch for batch in expected if batch]


def test_generator_outputs_are_yielded_one_by_one_without_batch_size(dataset: str) -> None:
    loader = loader_of(dataset, encoder=Copies(), batch_size=None)

    samples = [(int(sample["__key__"]), sample["copy"]) for sample in loader]

    assert samples == [(i, copy) for i in range(SAMPLES) for copy in range(i % 3)]
    assert loader.stats.samples == len(samples)


@pytest.mark.parametrize("encoder", [Raw(), Skips(), Copies()], ids=lambda encoder: type(encoder).__name__)
@pytest.mark.parametrize("batch_size", [4, None])
def test_state_after_any_batch_resumes_pass_and_next_pass(encoder: Any, batch_size: int | None, dataset: str) -> None:
    loader = loader_of(dataset, encoder=encoder, batch_size=batch_size)
    expected_passes = [[digest(batch) for batch in loader] for _ in range(2)]
    states = [loader.state_dict()]
    assert (states[0]["pass"], states[0]["end"]) == (1, "passed")
    states += [json.loads(json.dumps(loader.state_dict())) for _ in loader]

    for step, state in enumerate(states):
        saved = json.dumps(state)
        resumed = loader_of(dataset, encoder=encoder, batch_size=batch_size)
        resumed.load_state_dict(state)
        assert json.dumps(resumed.state_dict()) == saved
        if step < len(states) - 1:
            assert [digest(batch) for batch in resumed] == expected_passes[0][step:], f"saved after batch {step}"
        assert [digest(batch) for batch in resumed] == expected_passes[0]
        assert (resumed.state_dict()["pass"], resumed.state_dict()["end"]) == (3, "passed")
        assert json.dumps(state) == saved
    assert len({json.dumps(shape_of({**state, "cursors": 0}), sort_keys=True) for state in states}) == 1


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("encoder", [Raw(), Grouped()], ids=["runs", "lanes"])
def test_every_loop_over_validation_starts_whole_pass(encoder: Raw, workers: int, dataset: str) -> None:
    with loader_of(dataset, encoder=encoder, worker_config=WorkerConfig(num_workers=workers)) as loader:
        whole = keys(list(loader))
        for count in (2, len(whole)):  # a trainer that counts takes the last batch and requests no more
            assert keys(list(islice(loader, count))) == whole[:count]
        iterator = iter(loader)
        assert keys([next(iterator)]) == whole[:1]
        assert keys(list(loader)) == whole
        loader.close()
        assert keys(list(loader)) == whole


@pytest.mark.parametrize("rank", [0, 1])
def test_loop_left_at_last_batch_is_followed_by_whole_pass(rank: int, dataset: str) -> None:
    loader = loader_of(dataset, rank, 2)

    passes = [keys(list(islice(loader, len(loader)))) for _ in range(3)]

    assert passes == [ordered_batches()[rank::2]] * 3


def test_state_of_interrupted_pass_resumes_rest_then_whole_passes(dataset: str) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 3))
    resumed = loader_of(dataset)
    resumed.load_state_dict(loader.state_dict())

    assert [keys(list(resumed)), keys(list(islice(resumed, 1))), keys(list(resumed))] == [
        ordered_batches()[3:],
        ordered_batches()[:1],
        ordered_batches(),
    ]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"batch_size": 5}, "batch_size: 4 in the state, 5 here"),
        ({"batch_size": None}, "batch_size: 4 in the state, None here"),
        ({"batch_drop_last": True}, "drop_last: False in the state, True here"),
    ],
)
def test_state_rejects_other_batch_options(options: dict[str, Any], line: str, dataset: str) -> None:
    state = loader_of(dataset).state_dict()

    with pytest.raises(StateMismatch, match=line) as raised:
        loader_of(dataset, **options).load_state_dict(state)

    assert raised.value.code == "WDS501"


def test_state_rejects_another_seed(dataset: str) -> None:
    state = loader_of(dataset).state_dict()

    with pytest.raises(StateMismatch, match="seed: 0 in the state, 1 here"):
        loader_of(dataset, seed=1).load_state_dict(state)


class Fails(Raw):
    broken = True

    def encode_sample(self, sample: Any) -> Any:
        if self.broken and int(sample["__key__"]) == 6:
            raise ValueError("not today")
        return sample


def test_failed_batch_is_drawn_again(dataset: str) -> None:
    encoder = Fails()

    def make_loader() -> Loader:
        options: dict[str, Any] = {"split_part": "val", "batch_size": 4, "repeat": False, "shuffle": False}
        return get_loader(
            get_train_dataset(dataset, task_encoder=encoder, worker_config=raising_worker_config(), **options)
        )

    loader = make_loader()
    batches = iter(loader)
    first = [next(batches)]
    for iterator in (batches, iter(loader)):
        with pytest.raises(SampleFailed, match="not today"):
            next(iterator)
    state = loader.state_dict()

    encoder.broken = False
    resumed = make_loader()
    resumed.load_state_dict(state)

    assert keys(first + list(loader)) == ordered_batches()
    assert keys(list(resumed)) == ordered_batches()[1:]
    assert (loader.stats.batches, loader.stats.samples) == (7, SAMPLES)


def test_failed_validation_continues_from_state_or_restarts(dataset: str) -> None:
    encoder = Fails()
    loader, resumed = (loader_of(dataset, encoder=encoder, worker_config=raising_worker_config()) for _ in range(2))
    with pytest.raises(SampleFailed, match="not today"):
        list(loader)
    resumed.load_state_dict(loader.state_dict())
    with pytest.raises(SampleFailed, match="not today"):
        list(resumed)
    encoder.broken = False

    assert keys(list(resumed)) == ordered_batches()[1:]
    assert keys(list(loader)) == ordered_batches()


def test_state_rejects_training_for_validation_and_vice_versa(dataset: str, tmp_path: Path) -> None:
    training = get_loader(get_train_dataset(dataset, split_part="val", batch_size=4, task_encoder=Raw()))

    with pytest.raises(StateMismatch, match="saved by a training, but this loader is a validation or a training with"):
        loader_of(dataset).load_state_dict(training.state_dict())
    with pytest.raises(StateMismatch, match=r"saved by a validation or .*, but this loader is a training"):
        training.load_state_dict(loader_of(dataset).state_dict())


@pytest.mark.parametrize("workers", [0, 2])
def test_stats_count_each_batch_of_generator_hook_when_it_is_returned(workers: int, dataset: str) -> None:
    class InThree(Raw):
        def encode_batch(self, batch: Any) -> Any:
            yield from [batch] * 3

    config = WorkerConfig(num_workers=workers)
    with loader_of(dataset, encoder=InThree(), worker_config=config) as loader:
        batches = iter(loader)
        for count in range(1, 5):
            next(batches)
            assert loader.stats.batches == count
        state = loader.state_dict()
    with loader_of(dataset, encoder=InThree(), worker_config=config) as resumed:
        resumed.load_state_dict(state)
        rest = list(resumed)
        assert (resumed.stats.batches, len(rest)) == (len(rest), 3 * len(ordered_batches()) - 4)


def test_state_after_grouped_pass_counts_its_batches(dataset: str) -> None:
    loader = loader_of(dataset, encoder=Grouped())
    batches = list(loader)

    assert loader.state_dict()["batches_drawn"] == len(batches)
