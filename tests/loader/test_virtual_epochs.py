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
        if len(found) % LENGTH == 0 and len(found) < place:
            assert all_digests(loader) == [], "the end of the loop, after exactly its last batch"
    resumed = loader_of(dataset)
    resumed.load_state_dict(through_json(loader.state_dict()))

    rest = all_digests(resumed)

    at_end = place and place % LENGTH == 0
    assert rest == ([] if at_end else truth[place : place - place % LENGTH + LENGTH])
    assert all_digests(resumed) == truth[place + len(rest) :][:LENGTH]


def test_every_rank_has_virtual_epochs_of_its_own(dataset: str) -> None:
    loaders = [loader_of(dataset, worker_config=WorkerConfig(rank, 2)) for rank in range(2)]

    assert [len(list(loader)) for loader in loaders for _ in range(2)] == [LENGTH] * 4


def test_the_length_is_no_part_of_the_plan(dataset: str) -> None:
    state = saved_after(loader_of(dataset), 3)
    other = loader_of(dataset, virtual_epoch_length=9)

    other.load_state_dict(state, strict=True)

    assert len(list(islice(other, 99))) == 9 - 3
