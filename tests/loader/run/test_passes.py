"""Finite passes: the order of the split, every one the same, on any number of ranks, and saved in their middle too."""

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
from tests.loader.running import strict
from wdsctl.core.errors import SampleFailed, StateMismatch
from wdsctl.loader import Loader, SkipSample, WorkerConfig, get_loader, get_train_dataset, get_val_dataset

SAMPLES = 25


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("val")
    return a_dataset(root, SAMPLES, shard_samples=7, parts=numbered, split={"val": 1.0})


class Skips(Raw):
    """Leaves out every sample below 8, so that the first two batches of 4 are empty, and 9."""

    def encode_sample(self, sample: Any) -> Any:
        if int(sample["__key__"]) < 8 or int(sample["__key__"]) == 9:
            raise SkipSample
        return sample


class Copies(Raw):
    """Number i comes i mod 3 times, each with a draw of its own."""

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


def in_order(count: int = SAMPLES, size: int = 4) -> list[list[int]]:
    return [list(range(start, min(start + size, count))) for start in range(0, count, size)]


def test_a_pass_is_the_split_in_its_order_and_every_pass_is_the_same(dataset: str) -> None:
    loader = loader_of(dataset)

    passes = [list(loader) for _ in range(3)]

    assert keys(passes[0]) == in_order()
    assert [[digest(batch) for batch in each] for each in passes] == [[digest(batch) for batch in passes[0]]] * 3
    assert len(loader) == 7


def test_hooks_draw_the_same_in_every_pass(dataset: str) -> None:
    loader = loader_of(dataset, encoder=Copies())

    first, second = ([batch["noise"] for batch in loader] for _ in range(2))

    assert first == second
    drawn = [number for batch in first for number in batch]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 9])
def test_batch_b_goes_to_rank_b_mod_world(world: int, dataset: str) -> None:
    loaders = [loader_of(dataset, rank, world) for rank in range(world)]

    passes = [keys(list(loader)) for loader in loaders]

    assert passes == [in_order()[rank::world] for rank in range(world)]
    assert [len(loader) for loader in loaders] == [len(each) for each in passes]


@pytest.mark.parametrize("world", [1, 2])
def test_drop_last_leaves_the_smaller_batch_out(world: int, dataset: str) -> None:
    loaders = [loader_of(dataset, rank, world, batch_drop_last=True) for rank in range(world)]

    assert [keys(list(loader)) for loader in loaders] == [in_order()[:-1][rank::world] for rank in range(world)]
    assert [len(loader) for loader in loaders] == [6 // world] * world


def test_a_split_smaller_than_a_batch_gives_one_smaller_batch_or_none(dataset: str) -> None:
    assert keys(list(loader_of(dataset, batch_size=100))) == [list(range(SAMPLES))]
    assert list(loader_of(dataset, batch_size=100, batch_drop_last=True)) == []


def test_without_a_batch_size_samples_come_one_by_one(dataset: str) -> None:
    loader = loader_of(dataset, batch_size=None)

    assert [int(sample["__key__"]) for sample in loader] == list(range(SAMPLES))
    assert len(loader) == SAMPLES
    assert (loader.stats.batches, loader.stats.samples) == (SAMPLES, SAMPLES)


def test_a_sample_that_is_skipped_makes_its_batch_smaller_and_an_empty_batch_does_not_come(dataset: str) -> None:
    loader = loader_of(dataset, encoder=Skips())

    assert keys(list(loader)) == [[8, 10, 11], *in_order()[3:]]
    assert (loader.stats.batches, loader.stats.samples, loader.stats.skipped) == (5, 16, 9)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_hooks_left_out_do_not_count_for_a_limit(workers: int, dataset: str) -> None:
    with loader_of(dataset, encoder=Skips(), limit=3, worker_config=WorkerConfig(num_workers=workers)) as loader:
        passes = [keys(list(loader)) for _ in range(2)]

    assert passes == [[[8, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]]] * 2


def test_a_pass_in_which_everything_is_skipped_is_empty(dataset: str) -> None:
    class Nothing(Raw):
        def encode_sample(self, sample: Any) -> Any:
            raise SkipSample

    loader = loader_of(dataset, encoder=Nothing())

    assert [list(loader), list(loader)] == [[], []]
    assert loader.stats.skipped == 2 * SAMPLES


def test_all_that_a_generator_makes_of_a_batch_is_in_it(dataset: str) -> None:
    batches = list(loader_of(dataset, encoder=Copies()))

    expected = [[i for i in batch for _ in range(i % 3)] for batch in in_order()]
    assert keys(batches) == [batch for batch in expected if batch]


def test_all_that_a_generator_makes_of_a_sample_comes_one_by_one_too(dataset: str) -> None:
    loader = loader_of(dataset, encoder=Copies(), batch_size=None)

    samples = [(int(sample["__key__"]), sample["copy"]) for sample in loader]

    assert samples == [(i, copy) for i in range(SAMPLES) for copy in range(i % 3)]
    assert loader.stats.samples == len(samples)


@pytest.mark.parametrize("encoder", [Raw(), Skips(), Copies()], ids=lambda encoder: type(encoder).__name__)
@pytest.mark.parametrize("batch_size", [4, None])
def test_a_state_of_any_batch_gives_the_rest_of_the_pass_and_the_next_pass(
    encoder: Any, batch_size: int | None, dataset: str
) -> None:
    loader = loader_of(dataset, encoder=encoder, batch_size=batch_size)
    truth = [[digest(batch) for batch in loader] for _ in range(2)]
    states = [loader.state_dict()]
    assert (states[0]["pass"], states[0]["end"]) == (1, "passed")
    states += [json.loads(json.dumps(loader.state_dict())) for _ in loader]

    for step, state in enumerate(states):
        given = json.dumps(state)
        resumed = loader_of(dataset, encoder=encoder, batch_size=batch_size)
        resumed.load_state_dict(state)
        assert json.dumps(resumed.state_dict()) == given
        if step < len(states) - 1:
            assert [digest(batch) for batch in resumed] == truth[0][step:], f"saved after batch {step}"
        assert [digest(batch) for batch in resumed] == truth[0]
        assert (resumed.state_dict()["pass"], resumed.state_dict()["end"]) == (3, "passed")
        assert json.dumps(state) == given
    assert len({json.dumps(shape_of({**state, "cursors": 0}), sort_keys=True) for state in states}) == 1


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("encoder", [Raw(), Grouped()], ids=["runs", "lanes"])
def test_a_loop_over_a_validation_is_a_whole_pass_whatever_the_last_loop_had(
    encoder: Raw, workers: int, dataset: str
) -> None:
    with loader_of(dataset, encoder=encoder, worker_config=WorkerConfig(num_workers=workers)) as loader:
        whole = keys(list(loader))
        for left_after in (2, len(whole)):  # a trainer that counts has the last batch, and does not ask for more
            assert keys(list(islice(loader, left_after))) == whole[:left_after]
        held = iter(loader)
        assert keys([next(held)]) == whole[:1]
        assert keys(list(loader)) == whole
        loader.close()
        assert keys(list(loader)) == whole


@pytest.mark.parametrize("rank", [0, 1])
def test_a_pass_whose_last_batch_is_left_at_is_no_empty_pass_on_a_rank_that_has_more(rank: int, dataset: str) -> None:
    loader = loader_of(dataset, rank, 2)

    passes = [keys(list(islice(loader, len(loader)))) for _ in range(3)]

    assert passes == [in_order()[rank::2]] * 3


def test_a_state_of_a_pass_that_was_left_gives_the_rest_and_then_whole_passes(dataset: str) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 3))
    resumed = loader_of(dataset)
    resumed.load_state_dict(loader.state_dict())

    assert [keys(list(resumed)), keys(list(islice(resumed, 1))), keys(list(resumed))] == [
        in_order()[3:],
        in_order()[:1],
        in_order(),
    ]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"batch_size": 5}, "batch_size: 4 in the state, 5 here"),
        ({"batch_size": None}, "batch_size: 4 in the state, None here"),
        ({"batch_drop_last": True}, "drop_last: False in the state, True here"),
    ],
)
def test_a_pass_cannot_go_on_with_other_batches(options: dict[str, Any], line: str, dataset: str) -> None:
    state = loader_of(dataset).state_dict()

    with pytest.raises(StateMismatch, match=line) as raised:
        loader_of(dataset, **options).load_state_dict(state)

    assert raised.value.code == "WDS501"


def test_another_seed_is_refused(dataset: str) -> None:
    state = loader_of(dataset).state_dict()

    with pytest.raises(StateMismatch, match="seed: 0 in the state, 1 here"):
        loader_of(dataset, seed=1).load_state_dict(state)


class Fails(Raw):
    broken = True

    def encode_sample(self, sample: Any) -> Any:
        if self.broken and int(sample["__key__"]) == 6:
            raise ValueError("not today")
        return sample


def test_a_batch_that_fails_is_drawn_again(dataset: str) -> None:
    encoder = Fails()

    def fresh() -> Loader:
        options: dict[str, Any] = {"split_part": "val", "batch_size": 4, "repeat": False, "shuffle": False}
        return get_loader(get_train_dataset(dataset, task_encoder=encoder, worker_config=strict(), **options))

    loader = fresh()
    batches = iter(loader)
    first = [next(batches)]
    for again in (batches, iter(loader)):
        with pytest.raises(SampleFailed, match="not today"):
            next(again)
    state = loader.state_dict()

    encoder.broken = False
    resumed = fresh()
    resumed.load_state_dict(state)

    assert keys(first + list(loader)) == in_order()
    assert keys(list(resumed)) == in_order()[1:]
    assert (loader.stats.batches, loader.stats.samples) == (7, SAMPLES)


def test_a_validation_that_failed_is_gone_on_with_from_its_state_and_else_begun_again(dataset: str) -> None:
    encoder = Fails()
    loader, resumed = (loader_of(dataset, encoder=encoder, worker_config=strict()) for _ in range(2))
    with pytest.raises(SampleFailed, match="not today"):
        list(loader)
    resumed.load_state_dict(loader.state_dict())
    with pytest.raises(SampleFailed, match="not today"):
        list(resumed)
    encoder.broken = False

    assert keys(list(resumed)) == in_order()[1:]
    assert keys(list(loader)) == in_order()


def test_states_of_trainings_and_validations_are_told_apart(dataset: str, tmp_path: Path) -> None:
    training = get_loader(get_train_dataset(dataset, split_part="val", batch_size=4, task_encoder=Raw()))

    with pytest.raises(StateMismatch, match="saved by a training, but this loader is a validation"):
        loader_of(dataset).load_state_dict(training.state_dict())
    with pytest.raises(StateMismatch, match="saved by a validation, but this loader is a training"):
        training.load_state_dict(loader_of(dataset).state_dict())
