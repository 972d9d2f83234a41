"""Virtual epochs: a loop ends after so many batches, and the next one goes on with the very next."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from tests.loader.datasets import a_dataset, digest, numbered
from tests.loader.running import digests, saved_after, through_json, training_of
from wdsctl.loader import Loader, WorkerConfig

LENGTH = 5


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 60, shard_samples=20, parts=numbered)


def loader_of(path: str, **options: Any) -> Loader:
    return training_of(path, **{"lanes": 2, "virtual_epoch_length": LENGTH, **options})


def all_digests(loader: Loader) -> list[str]:
    return [digest(batch) for batch in loader]


def test_a_loop_ends_after_so_many_batches_and_the_next_one_goes_on(dataset: str) -> None:
    truth = digests(training_of(dataset, lanes=2), 4 * LENGTH)
    loader = loader_of(dataset)

    assert [all_digests(loader) for _ in range(4)] == [truth[i : i + LENGTH] for i in range(0, 4 * LENGTH, LENGTH)]
    assert len(loader) == LENGTH


def test_a_loop_that_is_broken_out_of_is_gone_on_with(dataset: str) -> None:
    truth = digests(training_of(dataset, lanes=2), 2 * LENGTH)
    loader = loader_of(dataset)

    pieces = [digests(loader, 2), all_digests(loader), all_digests(loader)]

    assert pieces == [truth[:2], truth[2:LENGTH], truth[LENGTH:]]


@pytest.mark.parametrize("place", [0, 2, 4, 5, 7, 10])
def test_a_state_keeps_where_the_virtual_epoch_is(place: int, dataset: str) -> None:
    truth = digests(training_of(dataset, lanes=2), 4 * LENGTH)
    loader = loader_of(dataset)
    found: list[str] = []
    while len(found) < place:
        found += digests(loader, min(LENGTH, place - len(found)))
    resumed = loader_of(dataset)
    resumed.load_state_dict(through_json(loader.state_dict()))

    rest = all_digests(resumed)

    assert rest == truth[place : place - place % LENGTH + LENGTH]
    assert all_digests(resumed) == truth[place + len(rest) :][:LENGTH]


def test_a_loop_over_the_last_batch_ends_and_a_new_loop_has_a_whole_epoch(dataset: str) -> None:
    truth = digests(training_of(dataset, lanes=2), 2 * LENGTH)
    loader = loader_of(dataset)
    stream = iter(loader)
    found = [digest(next(stream)) for _ in range(LENGTH)]

    state = loader.state_dict()

    assert state["batches_handed_out"] == 0
    assert next(stream, None) is None
    assert found + all_digests(loader) == truth
    longer = loader_of(dataset, virtual_epoch_length=LENGTH + 2)
    longer.load_state_dict(state)
    assert len(list(longer)) == LENGTH + 2


def test_an_epoch_that_is_counted_by_the_trainer_and_not_ended_is_over_all_the_same(dataset: str) -> None:
    loader = loader_of(dataset)
    found = []
    for _ in range(3):
        stream = iter(loader)
        found += [digest(next(stream)) for _ in range(len(loader))]

    assert found == digests(training_of(dataset, lanes=2), 3 * LENGTH)


def test_nothing_is_counted_without_virtual_epochs_so_that_they_can_be_turned_on(dataset: str) -> None:
    loader = training_of(dataset, lanes=2)
    state = saved_after(loader, LENGTH + 3)
    assert state["batches_handed_out"] == 0

    for virtual in (0, LENGTH + 3):  # as earlier states have it
        resumed = loader_of(dataset)
        resumed.load_state_dict({**state, "batches_handed_out": virtual})
        assert [len(list(resumed)) for _ in range(2)] == [LENGTH, LENGTH]


def test_every_rank_has_virtual_epochs_of_its_own(dataset: str) -> None:
    loaders = [loader_of(dataset, worker_config=WorkerConfig(rank, 2)) for rank in range(2)]

    assert [len(list(loader)) for loader in loaders for _ in range(2)] == [LENGTH] * 4


def test_the_length_is_no_part_of_the_plan(dataset: str) -> None:
    state = saved_after(loader_of(dataset), 3)
    other = loader_of(dataset, virtual_epoch_length=9)

    other.load_state_dict(state, strict=True)

    assert len(list(islice(other, 99))) == 9 - 3
