"""Virtual epochs: a loop ends after `virtual_epoch_length` batches, and the next loop continues from there."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from tests.loader.datasets import a_dataset, digest, numbered
from tests.loader.running import digests, json_round_trip, make_training_loader, save_state_after
from wdsctl.core.checkpoint.digests import add_digests
from wdsctl.loader import Loader, WorkerConfig

LENGTH = 5


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 60, shard_samples=20, parts=numbered)


def loader_of(path: str, **options: Any) -> Loader:
    return make_training_loader(path, **{"lanes": 2, "virtual_epoch_length": LENGTH, **options})


def all_digests(loader: Loader) -> list[str]:
    return [digest(batch) for batch in loader]


def test_loop_ends_after_virtual_epoch_and_next_loop_continues(dataset: str) -> None:
    truth = digests(make_training_loader(dataset, lanes=2), 4 * LENGTH)
    loader = loader_of(dataset)

    assert [all_digests(loader) for _ in range(4)] == [truth[i : i + LENGTH] for i in range(0, 4 * LENGTH, LENGTH)]
    assert len(loader) == LENGTH


def test_next_loop_finishes_virtual_epoch_after_break(dataset: str) -> None:
    truth = digests(make_training_loader(dataset, lanes=2), 2 * LENGTH)
    loader = loader_of(dataset)

    pieces = [digests(loader, 2), all_digests(loader), all_digests(loader)]

    assert pieces == [truth[:2], truth[2:LENGTH], truth[LENGTH:]]


@pytest.mark.parametrize("place", [0, 2, 4, 5, 7, 10])
def test_state_keeps_position_within_virtual_epoch(place: int, dataset: str) -> None:
    truth = digests(make_training_loader(dataset, lanes=2), 4 * LENGTH)
    loader = loader_of(dataset)
    found: list[str] = []
    while len(found) < place:
        found += digests(loader, min(LENGTH, place - len(found)))
    resumed = loader_of(dataset)
    resumed.load_state_dict(json_round_trip(loader.state_dict()))

    rest = all_digests(resumed)

    assert rest == truth[place : place - place % LENGTH + LENGTH]
    assert all_digests(resumed) == truth[place + len(rest) :][:LENGTH]


def test_state_after_last_batch_starts_new_virtual_epoch(dataset: str) -> None:
    truth = digests(make_training_loader(dataset, lanes=2), 2 * LENGTH)
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


def test_virtual_epoch_counted_by_trainer_ends_without_exhausting_iterator(dataset: str) -> None:
    loader = loader_of(dataset)
    found = []
    for _ in range(3):
        stream = iter(loader)
        found += [digest(next(stream)) for _ in range(len(loader))]

    assert found == digests(make_training_loader(dataset, lanes=2), 3 * LENGTH)


def test_virtual_epochs_can_be_enabled_on_resume(dataset: str) -> None:
    loader = make_training_loader(dataset, lanes=2)
    state = save_state_after(loader, LENGTH + 3)
    assert state["batches_handed_out"] == 0

    for virtual in (0, LENGTH + 3):  # earlier versions saved such states
        resumed = loader_of(dataset)
        resumed.load_state_dict(add_digests({**state, "batches_handed_out": virtual}))
        assert [len(list(resumed)) for _ in range(2)] == [LENGTH, LENGTH]


def test_every_rank_has_its_own_virtual_epochs(dataset: str) -> None:
    loaders = [loader_of(dataset, worker_config=WorkerConfig(rank, 2)) for rank in range(2)]

    assert [len(list(loader)) for loader in loaders for _ in range(2)] == [LENGTH] * 4


def test_virtual_epoch_length_is_not_part_of_plan(dataset: str) -> None:
    state = save_state_after(loader_of(dataset), 3)
    other = loader_of(dataset, virtual_epoch_length=9)

    other.load_state_dict(state, strict=True)

    assert len(list(islice(other, 99))) == 9 - 3
