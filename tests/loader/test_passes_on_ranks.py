"""Finite passes saved on some ranks resume on others, even if hooks skip samples or make several of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.run.test_passes import SAMPLES, Skips, keys, loader_of, ordered_batches
from tests.loader.running import json_round_trip, make_training_loader, raising_worker_config, take_batches
from wdsctl.core.errors import SampleFailed
from wdsctl.loader import Loader, SkipSample, get_loader, get_train_dataset, merge_states


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("val")
    return a_dataset(root, SAMPLES, shard_samples=7, parts=numbered, split={"val": 1.0})


@pytest.mark.parametrize(("before", "after"), [(1, 2), (1, 4), (2, 1), (2, 3), (3, 2), (4, 4)])
@pytest.mark.parametrize("rounds", [0, 1])
def test_finite_pass_resumes_on_other_number_of_ranks(before: int, after: int, rounds: int, dataset: str) -> None:
    world = [loader_of(dataset, rank, before) for rank in range(before)]
    for loader in world:
        list(islice(loader, rounds))
    states = [json.loads(json.dumps(loader.state_dict())) for loader in world]
    remaining = ordered_batches()[rounds * before :]

    resumed = [loader_of(dataset, rank, after) for rank in range(after)]
    for loader in resumed:
        loader.restore_state_rank(states)

    assert [keys(list(loader)) for loader in resumed] == [remaining[rank::after] for rank in range(after)]
    assert [keys(list(loader)) for loader in resumed] == [ordered_batches()[rank::after] for rank in range(after)]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_finite_pass_resumes_on_other_ranks_when_hooks_skip_whole_batches(after: int, dataset: str) -> None:
    """After one batch from each rank, two of the ranks have drawn their second turn."""
    world = [loader_of(dataset, rank, 3, encoder=Skips()) for rank in range(3)]
    running = [iter(loader) for loader in world]
    first = [keys(list(islice(batches, 1))) for batches in running]
    states = [json.loads(json.dumps(loader.state_dict())) for loader in world]
    resumed = [loader_of(dataset, rank, after, encoder=Skips()) for rank in range(after)]
    for loader in resumed:
        loader.restore_state_rank(merge_states(states) if after < 3 else states)

    rest = [keys(list(loader)) for loader in resumed]

    assert [state["batches_drawn"] for state in states] == [6, 6, 3]
    assert first == [[[12, 13, 14, 15]], [[16, 17, 18, 19]], [[8, 10, 11]]]
    assert sorted(key for rank in rest for batch in rank for key in batch) == [20, 21, 22, 23, 24]
    if after == 3:
        assert rest == [keys(list(batches)) for batches in running]


def test_merged_state_takes_partly_emitted_batch_from_its_own_rank(dataset: str) -> None:
    class Parts(Raw):
        """Emits the second and the third batch sample by sample, all others unchanged."""

        def batch(self, samples: list[Any]) -> Iterator[Any]:
            step = 1 if int(samples[0]["__key__"]) in {4, 8} else 4
            for start in range(0, len(samples), step):
                yield super().batch(samples[start : start + step])

    seen: list[list[int]] = []
    state: Any = None
    for ranks, steps in ((4, 1), (2, 1), (1, 99)):
        world = [loader_of(dataset, rank, ranks, encoder=Parts()) for rank in range(ranks)]
        for loader in world:
            loader.restore_state_rank(state)
        seen += [batch for loader in world for batch in keys(list(islice(loader, steps)))]
        state = merge_states([loader.state_dict() for loader in world])

    assert sorted(key for batch in seen for key in batch) == list(range(SAMPLES))


def test_rank_without_remaining_batches_ends_pass_after_resume(dataset: str) -> None:
    """Six batches divide evenly between two ranks, but not the one that remains after five on a single rank."""
    alone = loader_of(dataset, batch_drop_last=True)
    list(islice(alone, 5))
    resumed = [loader_of(dataset, rank, 2, batch_drop_last=True) for rank in range(2)]
    for loader in resumed:
        loader.load_state_dict(merge_states([alone.state_dict()]))

    assert [keys(list(loader)) for loader in resumed] == [ordered_batches()[5:6], []]
    assert [keys(list(loader)) for loader in resumed] == [ordered_batches()[rank:6:2] for rank in range(2)]


def test_ranks_start_next_pass_after_resumed_pass_with_equal_remainders(dataset: str) -> None:
    """Seven batches: one on a single rank, then three on each of two."""
    alone = loader_of(dataset)
    list(islice(alone, 1))
    resumed = [loader_of(dataset, rank, 2) for rank in range(2)]
    for loader in resumed:
        loader.load_state_dict(merge_states([alone.state_dict()]))

    assert [keys(list(islice(loader, 3))) for loader in resumed] == [ordered_batches()[1::2], ordered_batches()[2::2]]
    assert [keys(list(loader)) for loader in resumed] == [ordered_batches()[rank::2] for rank in range(2)]


def test_sample_generator_continues_on_rank_that_gets_its_sample(dataset: str) -> None:
    class Twice(Raw):
        def encode_sample(self, sample: Any) -> Iterator[Any]:
            for copy in range(2):
                yield int(sample["__key__"]), copy

    world = [loader_of(dataset, rank, 2, encoder=Twice(), batch_size=None) for rank in range(2)]
    before = [list(islice(loader, 3)) for loader in world]
    state = merge_states(json.loads(json.dumps([loader.state_dict() for loader in world])))
    alone = loader_of(dataset, encoder=Twice(), batch_size=None)
    alone.load_state_dict(state)
    again = loader_of(dataset, encoder=Twice(), batch_size=None)
    again.load_state_dict(alone.state_dict())

    after = list(alone)

    assert before == [[(0, 0), (0, 1), (2, 0)], [(1, 0), (1, 1), (3, 0)]]
    assert after[:4] == [(2, 1), (3, 1), (4, 0), (4, 1)]
    assert list(again) == after
    assert sorted([*before[0], *before[1], *after]) == [(i, copy) for i in range(SAMPLES) for copy in range(2)]


class FewOfOneLane(Raw):
    """Without shuffling and with slices of one sample, one of the four lanes ends long before the others."""

    def encode_sample(self, sample: Any) -> Any:
        number = int(sample["__key__"])
        if number > 4 and number % 4 == 1:
            raise SkipSample
        return sample

    def batch_group_criterion(self, sample: Any) -> Any:
        return int(sample["__key__"]) % 3, None


def test_states_of_ranks_with_unevenly_ending_lanes_resume_exactly(dataset: str) -> None:
    def loader_on(rank: int, world: int) -> Loader:
        options: dict[str, Any] = {"repeat": False, "lanes": 4, "shuffle": False, "max_samples_per_sequence": 1}
        return make_training_loader(dataset, rank, world, FewOfOneLane(), split_part="val", batch_size=2, **options)

    differing = 0
    for steps in range(1, 5):
        world = [loader_on(rank, 2) for rank in range(2)]
        for loader in world:
            take_batches(loader, steps)
        states = [json_round_trip(loader.state_dict()) for loader in world]
        turns = [sum(cursor["turns"] for cursor in state["cursors"].values()) for state in states]
        differing += turns[0] != turns[1]
        rest = [[digest(batch) for batch in loader] for loader in world]
        alone, *pair = [loader_on(0, 1), *(loader_on(rank, 2) for rank in range(2))]
        alone.load_state_dict(merge_states(states))
        for loader in pair:
            loader.load_state_dict(states)

        assert [[digest(batch) for batch in loader] for loader in pair] == rest, "each at its own place"
        assert sorted(digest(batch) for batch in alone) == sorted([*rest[0], *rest[1]])
    assert differing


class SwitchableFailure(Raw):
    """Fails at every sample while `fails` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False

    def encode_sample(self, sample: Any) -> Any:
        if self.fails:
            raise ValueError("not today")
        return sample


class GroupedSwitchableFailure(SwitchableFailure):
    def batch_group_criterion(self, sample: Any) -> tuple[bool, None]:
        return int(sample["__key__"]) % 2 == 0, None


@pytest.mark.parametrize("encoder", [SwitchableFailure, GroupedSwitchableFailure])
@pytest.mark.parametrize("is_restored", [False, True])
def test_pass_with_failed_first_batch_counts_as_not_begun_in_states_of_all_ranks(
    encoder: type[SwitchableFailure], is_restored: bool, dataset: str
) -> None:
    def ranks() -> tuple[list[SwitchableFailure], list[Loader]]:
        encoders = [encoder(), encoder()]
        options: dict[str, Any] = {"split_part": "val", "batch_size": 4, "repeat": False, "shuffle": False}
        return encoders, [
            get_loader(
                get_train_dataset(
                    dataset, task_encoder=each, worker_config=raising_worker_config(rank, 2), uneven="keep", **options
                )
            )
            for rank, each in enumerate(encoders)
        ]

    encoders, world = ranks()
    first = sorted(key for loader in world for batch in loader for key in batch["__key__"])
    if is_restored:
        states = [loader.state_dict() for loader in world]
        encoders, world = ranks()
        for loader in world:
            loader.restore_state_rank(states)
    encoders[1].fails = True
    for _ in range(2):
        with pytest.raises(SampleFailed, match="not today"):
            next(iter(world[1]))

    states = [json.loads(json.dumps(loader.state_dict())) for loader in world]
    merge_states(states)
    encoders[1].fails = False
    resumed = ranks()[1]
    for loader in resumed:
        loader.restore_state_rank(states)

    for loaders in (resumed, world):
        assert sorted(key for loader in loaders for batch in loader for key in batch["__key__"]) == first
    assert [state["pass"] for state in (loader.state_dict() for loader in world)] == [1, 1]
