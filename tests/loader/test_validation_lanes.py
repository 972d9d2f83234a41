"""A validation has the same batches in the same order on any number of ranks, packed, grouped or plain."""

from __future__ import annotations

import logging
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import a_dataset, digest, numbered
from tests.loader.running import taken, through_json
from tests.loader.test_states_of_passes import KINDS
from wdsctl.core.errors import LoaderError, StateMismatch, UsageError
from wdsctl.core.trace import read_trace
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_val_dataset, get_val_datasets, merge_states

SAMPLES = 200
LANES = 48  # unless the validation says otherwise
WORLDS = [2, 3, 4, 5, 6, 8]


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


def of_rank(batches: list[Any], kind: str, rank: int, world: int, lanes: int) -> list[str]:
    """Of all batches in their order, those of a rank: every `world`-th one, or those of its lanes. Where samples come
    as they lie, each is in the lane that is its number mod `lanes`."""
    if kind == "runs":
        return [digest(batch) for batch in batches[rank::world]]
    return [digest(batch) for batch in batches if int(batch["__key__"][0]) % lanes % world == rank]


@pytest.mark.parametrize("lanes", [None, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_any_ranks_have_the_batches_of_one_rank_in_their_order(kind: str, lanes: int | None, dataset: str) -> None:
    """Six lanes are fewer than eight ranks, and neither four nor five ranks divide them."""
    [alone] = loaders(dataset, kind, 1, lanes=lanes)
    truth = list(alone)

    for world in WORLDS:
        ranks = loaders(dataset, kind, world, lanes=lanes)
        for _ in range(2):
            found = [[digest(batch) for batch in loader] for loader in ranks]
            assert found == [of_rank(truth, kind, rank, world, lanes or LANES) for rank in range(world)]
            assert sorted(each for rank in found for each in rank) == sorted(map(digest, truth))


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_that_is_summed_over_batches_is_the_same_on_any_ranks(kind: str, dataset: str) -> None:
    def loss(world: int) -> float:
        """Of each batch something that the samples in it decide together."""
        batches = [batch for loader in loaders(dataset, kind, world) for batch in loader]
        return sum(len(set(batch["txt"])) / sum(map(len, batch["txt"])) ** 2 for batch in batches)

    assert [loss(world) for world in WORLDS] == pytest.approx([loss(1)] * len(WORLDS))


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_of_batches_put_the_ranks_together_in_one_order(kind: str, dataset: str, tmp_path: Path) -> None:
    def order(world: int) -> list[Any]:
        folder = tmp_path / str(world)
        for loader in loaders(dataset, kind, world, lanes=10, trace=folder):
            with loader:
                list(loader)
        return [(batch.number, batch.origins.tolist()) for batch in read_trace(str(folder)).batches(pass_number=0)]

    assert [order(world) for world in (2, 3, 4, 16)] == [order(1)] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_workers_change_neither_batches_nor_their_order(kind: str, dataset: str) -> None:
    for rank, loader in enumerate(loaders(dataset, kind, 5, workers=2)):
        with loader:
            assert [digest(batch) for batch in loader] == [digest(batch) for batch in loaders(dataset, kind, 5)[rank]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "after"), [(1, 4), (5, 2), (2, 5), (3, 1), (8, 7)])
def test_a_validation_that_was_saved_has_the_rest_of_its_batches_in_their_order_on_other_ranks(
    kind: str, before: int, after: int, dataset: str
) -> None:
    [alone] = loaders(dataset, kind, 1)
    truth = list(alone)
    ranks = loaders(dataset, kind, before)
    came = {digest(batch) for loader in ranks for batch in taken(loader, 4)}
    state = through_json(merge_states([loader.state_dict() for loader in ranks]))
    resumed = loaders(dataset, kind, after)
    for loader in resumed:
        loader.load_state_dict(state)

    rest = [[digest(batch) for batch in loader] for loader in resumed]

    left = [batch for batch in truth if digest(batch) not in came]
    assert rest == [of_rank(left, kind, rank, after, LANES) for rank in range(after)]
    assert len(left) == len(truth) - len(came) > 0


def test_more_ranks_than_lanes_are_told_of(dataset: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    counts = [len(list(loader)) for loader in loaders(dataset, "groups", 4, lanes=3)]

    assert [count > 0 for count in counts] == [True, True, True, False]
    assert caplog.text.count("1 of 4 ranks have no batches in this validation") == 1


def test_with_more_ranks_than_lanes_nothing_is_left_out_without_a_word(dataset: str) -> None:
    for loader in loaders(dataset, "groups", 4, lanes=3, uneven="drop"):
        with pytest.raises(LoaderError, match="only 3 of 4 ranks") as raised:
            next(iter(loader))
        assert raised.value.code == "WDS545"
        assert "lanes=4" in raised.value.hint


def test_a_state_keeps_the_lanes_that_it_began_with(dataset: str) -> None:
    [loader] = loaders(dataset, "groups", 1, lanes=10)
    taken(loader, 3)
    state = through_json(loader.state_dict())
    (resumed,), (other,) = loaders(dataset, "groups", 1), loaders(dataset, "groups", 1, lanes=12)

    resumed.load_state_dict(state)
    with pytest.raises(StateMismatch, match="lanes: 10 in the state, 12 here"):
        other.load_state_dict(state)

    assert resumed.config()["order"]["lanes"] == 10


def test_all_validations_of_a_blend_have_the_lanes_that_were_asked_for(dataset: str) -> None:
    found = get_val_datasets({"path": dataset, "split_part": "val"}, batch_size=4, lanes=10)

    assert [each.lanes for each, _ in found] == [10]


def test_no_lanes_are_refused() -> None:
    with pytest.raises(UsageError, match="lanes is 0"):
        get_val_dataset("anywhere", lanes=0)


def test_a_validation_that_is_left_begins_with_the_same_batches(dataset: str) -> None:
    for kind in KINDS:
        for loader in loaders(dataset, kind, 5):
            whole = [digest(batch) for batch in loader]
            assert [digest(batch) for batch in islice(loader, 2)] == whole[:2]
            assert [digest(batch) for batch in loader] == whole
