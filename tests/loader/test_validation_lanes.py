"""A validation has the same batches in the same order on any number of ranks, packed, grouped or plain."""

from __future__ import annotations

import logging
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import a_dataset, digest, numbered
from tests.loader.running import json_round_trip, take_batches
from tests.loader.test_pass_states import KINDS
from wdsctl.core.errors import LoaderError, StateMismatch, UsageError
from wdsctl.core.trace import read_trace
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_val_dataset, get_val_datasets, merge_states

SAMPLES = 200
LANES = 48  # the default of validations
WORLDS = [2, 5, 8]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("val")
    return a_dataset(root, SAMPLES, shard_samples=70, parts=numbered, split={"val": 1.0})


def loaders(path: str, kind: str, world: int, workers: int = 0, **options: Any) -> list[Loader]:
    options = {"batch_size": 2, **KINDS[kind], **options}
    return [
        get_loader(get_val_dataset(path, worker_config=WorkerConfig(rank, world, workers), **options))
        for rank in range(world)
    ]


def batches_of_rank(batches: list[Any], kind: str, rank: int, world: int, lanes: int) -> list[str]:
    """Select the batches of a rank from all batches in order: every `world`-th one, or those of its lanes. Without
    shuffling, each sample is in the lane that is its number mod `lanes`."""
    if kind == "runs":
        return [digest(batch) for batch in batches[rank::world]]
    return [digest(batch) for batch in batches if int(batch["__key__"][0]) % lanes % world == rank]


@pytest.mark.parametrize("lanes", [None, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_validation_batches_and_order_are_independent_of_rank_count(kind: str, lanes: int | None, dataset: str) -> None:
    """Six lanes are fewer than eight ranks, and five ranks do not divide them."""
    [alone] = loaders(dataset, kind, 1, lanes=lanes)
    truth = list(alone)

    for world in WORLDS:
        ranks = loaders(dataset, kind, world, lanes=lanes)
        for _ in range(2):
            found = [[digest(batch) for batch in loader] for loader in ranks]
            assert found == [batches_of_rank(truth, kind, rank, world, lanes or LANES) for rank in range(world)]
            assert sorted(each for rank in found for each in rank) == sorted(map(digest, truth))


@pytest.mark.parametrize("kind", KINDS)
def test_loss_summed_over_validation_batches_is_independent_of_rank_count(kind: str, dataset: str) -> None:
    def loss(world: int) -> float:
        """Sum a value per batch that depends on all samples in the batch."""
        batches = [batch for loader in loaders(dataset, kind, world) for batch in loader]
        return sum(len(set(batch["txt"])) / sum(map(len, batch["txt"])) ** 2 for batch in batches)

    assert [loss(world) for world in WORLDS] == pytest.approx([loss(1)] * len(WORLDS))


@pytest.mark.parametrize("kind", KINDS)
def test_batch_numbers_in_trace_give_one_order_across_ranks(kind: str, dataset: str, tmp_path: Path) -> None:
    def order(world: int) -> list[Any]:
        folder = tmp_path / str(world)
        for loader in loaders(dataset, kind, world, lanes=10, trace=folder):
            with loader:
                list(loader)
        trace = read_trace(str(folder))
        assert trace.problems == []
        return [(batch.number, batch.origins.tolist()) for batch in trace.batches(pass_number=0)]

    assert [order(world) for world in (3, 16)] == [order(1)] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_validation_batches_are_independent_of_worker_count(kind: str, dataset: str) -> None:
    expected, actual = loaders(dataset, kind, 5), loaders(dataset, kind, 5, workers=2)
    for rank in (0, 4):  # of 10 and of 9 lanes
        with actual[rank] as loader:
            assert [digest(batch) for batch in loader] == [digest(batch) for batch in expected[rank]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "after"), [(1, 4), (5, 2), (3, 1), (8, 7)])
def test_saved_validation_resumes_in_order_on_other_ranks(kind: str, before: int, after: int, dataset: str) -> None:
    [alone] = loaders(dataset, kind, 1)
    truth = list(alone)
    ranks = loaders(dataset, kind, before)
    seen = {digest(batch) for loader in ranks for batch in take_batches(loader, 4)}
    state = json_round_trip(merge_states([loader.state_dict() for loader in ranks]))
    resumed = loaders(dataset, kind, after)
    for loader in resumed:
        loader.load_state_dict(state)

    rest = [[digest(batch) for batch in loader] for loader in resumed]

    remaining = [batch for batch in truth if digest(batch) not in seen]
    assert rest == [batches_of_rank(remaining, kind, rank, after, LANES) for rank in range(after)]
    assert len(remaining) == len(truth) - len(seen) > 0


def test_more_ranks_than_lanes_are_reported_once(dataset: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    counts = [len(list(loader)) for loader in loaders(dataset, "groups", 4, lanes=3)]

    assert [count > 0 for count in counts] == [True, True, True, False]
    assert caplog.text.count("1 of 4 ranks have no batches in this validation") == 1


def test_uneven_drop_with_more_ranks_than_lanes_is_refused(dataset: str) -> None:
    for loader in loaders(dataset, "groups", 4, lanes=3, uneven="drop"):
        with pytest.raises(LoaderError, match="only 3 of 4 ranks") as raised:
            next(iter(loader))
        assert raised.value.code == "WDS545"
        assert "lanes=4" in raised.value.hint


def test_state_keeps_lane_count_of_validation(dataset: str) -> None:
    [loader] = loaders(dataset, "groups", 1, lanes=10)
    take_batches(loader, 3)
    state = json_round_trip(loader.state_dict())
    (resumed,), (other,) = loaders(dataset, "groups", 1), loaders(dataset, "groups", 1, lanes=12)

    resumed.load_state_dict(state)
    with pytest.raises(StateMismatch, match="lanes: 10 in the state, 12 here"):
        other.load_state_dict(state)

    assert resumed.config()["order"]["lanes"] == 10


def test_get_val_datasets_passes_lanes_to_every_validation(dataset: str) -> None:
    found = get_val_datasets({"path": dataset, "split_part": "val"}, batch_size=4, lanes=10)

    assert [each.lanes for each, _ in found] == [10]


def test_get_val_dataset_refuses_zero_lanes() -> None:
    with pytest.raises(UsageError, match="lanes is 0"):
        get_val_dataset("anywhere", lanes=0)


def test_validation_restarts_from_first_batch_after_break(dataset: str) -> None:
    for kind in KINDS:
        for loader in loaders(dataset, kind, 5):
            whole = [digest(batch) for batch in loader]
            assert [digest(batch) for batch in islice(loader, 2)] == whole[:2]
            assert [digest(batch) for batch in loader] == whole
