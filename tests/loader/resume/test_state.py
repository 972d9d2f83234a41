"""merge_states accepts only the states of one job at one step, and every error names the ranks."""

from __future__ import annotations

import copy
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.datasets import a_dataset, digest, numbered
from tests.loader.running import make_training_loader
from wdsctl.core.checkpoint.checkpoint import redistribute_checkpoint
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import Loader, merge_states

WORLD = 3


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data"), 60, shard_samples=20, parts=numbered)


def loader_of(path: str, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    return make_training_loader(path, rank, world, **{"lanes": 6, **options})


def states_of(path: str, steps: int = 5, **options: Any) -> list[Any]:
    loaders = [loader_of(path, rank, WORLD, **options) for rank in range(WORLD)]
    for loader in loaders:
        list(islice(loader, steps))
    return [loader.state_dict() for loader in loaders]


def test_merge_states_is_independent_of_rank_order(dataset: str) -> None:
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


def test_merge_states_rejects_different_steps(dataset: str) -> None:
    assert "{0: 15, 1: 18, 2: 15}" in refusal([*states_of(dataset)[::2], states_of(dataset, 6)[1]])


def test_merge_states_reports_missing_ranks(dataset: str) -> None:
    assert "ranks [1] are missing" in refusal(states_of(dataset)[::2])
    assert "ranks [0, 2] are missing" in refusal(states_of(dataset)[1:2])


def test_merge_states_reports_duplicate_ranks(dataset: str) -> None:
    states = states_of(dataset)

    assert "ranks [1] are duplicated: the job had 3" in refusal([*states, states[1]])


def test_merge_states_reports_difference_of_plans(dataset: str) -> None:
    other = states_of(dataset, seed=1)

    assert "ranks 0 and 2 have different plans: seed: 0 on rank 0, 1 on rank 2" in refusal(
        [*states_of(dataset)[:2], other[2]]
    )


def test_merge_states_rejects_different_world_sizes(dataset: str) -> None:
    assert "ranks 0 and 1 differ in 'world'" in refusal([states_of(dataset)[0], loader_of(dataset, 1, 2).state_dict()])


@pytest.mark.parametrize("world", [2, 3])
def test_state_of_single_rank_loads_on_several_ranks(world: int, dataset: str) -> None:
    single = loader_of(dataset)
    before = list(islice(single, 5))
    state = single.state_dict()
    after = [digest(batch) for batch in islice(single, 12)]

    ranks = [loader_of(dataset, rank, world) for rank in range(world)]
    for rank in ranks:
        rank.load_state_dict(state)
    actual = [[digest(batch) for batch in islice(rank, 12 // world)] for rank in ranks]

    assert len(before) == 5
    assert [each for step in zip(*actual, strict=True) for each in step] == after


def test_merge_states_rejects_merged_state_among_others(dataset: str) -> None:
    states = states_of(dataset)

    assert "is a merged state, which already has all ranks" in refusal([merge_states(states), states[0]])


def test_merge_states_rejects_empty_list() -> None:
    assert "no states" in refusal([])


@pytest.mark.parametrize(("rank", "world"), [(1, 3), (0, 1), (0, 2)])
def test_load_state_rejects_state_of_another_rank(rank: int, world: int, dataset: str) -> None:
    state = states_of(dataset)[0]

    with pytest.raises(StateMismatch, match=f"rank 0 of 3, but this is rank {rank} of {world}") as raised:
        loader_of(dataset, rank, world).load_state_dict(state)

    assert "save_state_global(None)" in raised.value.hint


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "not a state of a wdsctl loader"),
        ({"epoch": 3}, "not a state of a wdsctl loader"),
        ("state.json", "not a state of a wdsctl loader"),
        (7, "not a state of a wdsctl loader"),
        (None, "not a state of a wdsctl loader"),
        ([None], "not a state of a wdsctl loader"),
        ([{}, {}], "not a state of a wdsctl loader"),
        ({"version": 1, "kind": "rank"}, "is truncated: it lacks rank, world, plan"),
        ({"version": 3}, "by a newer wdsctl: it has version 3, this one reads version 2"),
    ],
)
def test_load_state_rejects_invalid_state_without_changes(state: Any, message: str, dataset: str) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 2))
    before = loader.state_dict()

    with pytest.raises(StateMismatch, match=message) as raised:
        loader.load_state_dict(state)

    assert raised.value.code == "WDS502"
    assert loader.state_dict() == before, "a state that is refused changes nothing"


def test_redistribute_checkpoint_reads_states_in_torch_files(dataset: str, tmp_path: Path) -> None:
    states = states_of(dataset)
    for rank, state in enumerate(states):
        torch.save({"dataloader_state_dict": state}, tmp_path / f"rank{rank}.pt")
    files = [str(tmp_path / f"rank{rank}.pt") for rank in range(WORLD)]
    assert [torch.load(file, weights_only=True)["dataloader_state_dict"] for file in files] == states

    report = redistribute_checkpoint(files, str(tmp_path / "new"), ranks=2)

    merged = merge_states(states)
    for rank, name in enumerate(report.files):
        resumed, expected = loader_of(dataset, rank, 2), loader_of(dataset, rank, 2)
        resumed.load_state_dict(torch.load(name, weights_only=True)["dataloader_state_dict"])
        expected.load_state_dict(merged)
        assert [digest(batch) for batch in islice(resumed, 8)] == [digest(batch) for batch in islice(expected, 8)]


def test_state_can_be_loaded_repeatedly_and_is_not_mutated(dataset: str) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 5))
    state = loader.state_dict()
    before = copy.deepcopy(state)
    expected = [digest(batch) for batch in islice(loader, 20)]

    for _ in range(2):
        resumed = loader_of(dataset)
        resumed.load_state_dict(state)
        assert [digest(batch) for batch in islice(resumed, 20)] == expected
        assert state == before


@pytest.mark.parametrize("method", ["restore_state_rank", "restore_state_global"])
def test_restore_of_none_warns_and_changes_nothing(dataset: str, method: str, caplog: pytest.LogCaptureFixture) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 2))
    before = loader.state_dict()

    getattr(loader, method)(None)

    assert "no state was restored" in caplog.text
    assert loader.state_dict() == before


def test_state_survives_json_with_sorted_keys(dataset: str, tmp_path: Path) -> None:
    loader = loader_of(dataset)
    list(islice(loader, 7))
    state = loader.state_dict()
    text = json.dumps(state, sort_keys=True, indent=1)
    expected = [digest(batch) for batch in islice(loader, 20)]
    resumed = loader_of(dataset)

    resumed.load_state_dict(json.loads(text))

    assert [digest(batch) for batch in islice(resumed, 20)] == expected
