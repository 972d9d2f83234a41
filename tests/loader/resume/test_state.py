"""States of ranks are merged only where they are the states of one job at one step; every refusal names the ranks."""

from __future__ import annotations

import copy
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import a_dataset, digest, numbered
from tests.loader.running import training_of
from wdsctl.core.checkpoint.checkpoint import redistribute_checkpoint
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import Loader, merge_states

WORLD = 3


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 60, shard_samples=20, parts=numbered)


def loader_of(path: str, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    return training_of(path, rank, world, **{"lanes": 6, **options})


def states_of(path: str, steps: int = 5, **options: Any) -> list[Any]:
    loaders = [loader_of(path, rank, WORLD, **options) for rank in range(WORLD)]
    for loader in loaders:
        list(islice(loader, steps))
    return [loader.state_dict() for loader in loaders]


def test_the_states_of_all_ranks_become_one_whatever_their_order(dataset: str) -> None:
    states = states_of(dataset)

    merged = merge_states(states)

    assert merge_states(states[::-1]) == merged
    assert merge_states([merged]) == merged
    assert (merged["kind"], merged["world"], merged["batches_drawn"]) == ("world", WORLD, 5 * WORLD)
    assert list(merged["cursors"]) == [str(lane) for lane in range(6)]


def refusal(states: list[Any]) -> str:
    before = copy.deepcopy(states)
    with pytest.raises(StateMismatch) as raised:
        merge_states(states)
    assert raised.value.code == "WDS502"
    assert raised.value.hint
    assert states == before
    return raised.value.message


def test_states_of_different_steps_are_refused(dataset: str) -> None:
    assert "{0: 15, 1: 18, 2: 15}" in refusal([*states_of(dataset)[::2], states_of(dataset, 6)[1]])


def test_missing_ranks_are_named(dataset: str) -> None:
    assert "ranks [1] are missing" in refusal(states_of(dataset)[::2])
    assert "ranks [0, 2] are missing" in refusal(states_of(dataset)[1:2])


def test_ranks_that_come_twice_are_named(dataset: str) -> None:
    states = states_of(dataset)

    assert "ranks [1] are duplicated: the job had 3" in refusal([*states, states[1]])


def test_states_of_other_plans_are_refused_with_what_differs(dataset: str) -> None:
    other = states_of(dataset, seed=1)

    assert "ranks 0 and 2 have different plans: seed: 0 on rank 0, 1 on rank 2" in refusal(
        [*states_of(dataset)[:2], other[2]]
    )


def test_states_of_other_worlds_are_refused(dataset: str) -> None:
    assert "ranks 0 and 1 differ in 'world'" in refusal([states_of(dataset)[0], loader_of(dataset, 1, 2).state_dict()])


@pytest.mark.parametrize("world", [2, 3])
def test_the_state_of_the_only_rank_is_the_state_of_all(world: int, dataset: str) -> None:
    alone = loader_of(dataset)
    before = list(islice(alone, 5))
    state = alone.state_dict()
    after = [digest(batch) for batch in islice(alone, 12)]

    ranks = [loader_of(dataset, rank, world) for rank in range(world)]
    for rank in ranks:
        rank.load_state_dict(state)
    got = [[digest(batch) for batch in islice(rank, 12 // world)] for rank in ranks]

    assert len(before) == 5
    assert [each for step in zip(*got, strict=True) for each in step] == after


def test_a_merged_state_stands_alone(dataset: str) -> None:
    states = states_of(dataset)

    assert "is a merged state, which already has all ranks" in refusal([merge_states(states), states[0]])


def test_no_states_are_refused() -> None:
    assert "no states" in refusal([])


@pytest.mark.parametrize(("rank", "world"), [(1, 3), (0, 1), (0, 2)])
def test_the_state_of_a_rank_is_refused_by_another(rank: int, world: int, dataset: str) -> None:
    state = states_of(dataset)[0]

    with pytest.raises(StateMismatch, match=f"rank 0 of 3, but this is rank {rank} of {world}") as raised:
        loader_of(dataset, rank, world).load_state_dict(state)

    assert "save_state_global(None)" in raised.value.hint


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "not a state of a wdsctl loader"),
        ({"epoch": 3}, "not a state of a wdsctl loader"),
        ("state.json", "not a state of a wdsctl loader"),
        (7, "not a state of a wdsctl loader"),
        (None, "not a state of a wdsctl loader"),
        ([None], "not a state of a wdsctl loader"),
        ([{}, {}], "not a state of a wdsctl loader"),
        ({"version": 1, "kind": "rank"}, "is truncated: it lacks rank, world, plan"),
        ({"version": 2}, "by a newer wdsctl: it has version 2, this one reads version 1"),
    ],
)
def test_what_is_no_state_is_refused(state: Any, words: str, dataset: str) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 2))
    before = loader.state_dict()

    with pytest.raises(StateMismatch, match=words) as raised:
        loader.load_state_dict(state)

    assert raised.value.code == "WDS502"
    assert loader.state_dict() == before, "a state that is refused changes nothing"


def test_states_inside_torch_save_are_read_safely_and_united_for_other_ranks(dataset: str, tmp_path: Path) -> None:
    states = states_of(dataset)
    for rank, state in enumerate(states):
        torch.save({"dataloader_state_dict": state}, tmp_path / f"rank{rank}.pt")
    files = [str(tmp_path / f"rank{rank}.pt") for rank in range(WORLD)]
    assert [torch.load(file, weights_only=True)["dataloader_state_dict"] for file in files] == states

    report = redistribute_checkpoint(files, str(tmp_path / "new"), ranks=2)

    merged = merge_states(states)
    for rank, name in enumerate(report.files):
        resumed, truth = loader_of(dataset, rank, 2), loader_of(dataset, rank, 2)
        resumed.load_state_dict(torch.load(name, weights_only=True)["dataloader_state_dict"])
        truth.load_state_dict(merged)
        assert [digest(batch) for batch in islice(resumed, 8)] == [digest(batch) for batch in islice(truth, 8)]


def test_a_state_may_be_restored_as_often_as_one_likes_and_stays_as_it_was(dataset: str) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 5))
    state = loader.state_dict()
    before = copy.deepcopy(state)
    truth = [digest(batch) for batch in islice(loader, 20)]

    for _ in range(2):
        resumed = loader_of(dataset)
        resumed.load_state_dict(state)
        assert [digest(batch) for batch in islice(resumed, 20)] == truth
        assert state == before


def test_none_of_a_job_that_had_not_begun_changes_nothing(dataset: str) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 2))
    before = loader.state_dict()

    loader.restore_state_rank(None)

    assert loader.state_dict() == before


def test_a_state_survives_whatever_json_does_to_it(dataset: str, tmp_path: Path) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 7))
    state = loader.state_dict()
    text = json.dumps(state, sort_keys=True, indent=1)
    truth = [digest(batch) for batch in islice(loader, 20)]
    resumed = loader_of(dataset)

    resumed.load_state_dict(json.loads(text))

    assert [digest(batch) for batch in islice(resumed, 20)] == truth
