"""Finite passes on ranks: saved on some, gone on with on others, whatever hooks leave out or make several of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.run.test_passes import SAMPLES, Skips, in_order, keys, loader_of
from tests.loader.running import strict, taken, through_json, training_of
from wdsctl.core.errors import SampleFailed
from wdsctl.loader import Loader, SkipSample, get_loader, get_train_dataset, merge_states


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("val")
    return a_dataset(root, SAMPLES, shard_samples=7, parts=numbered, split={"val": 1.0})


@pytest.mark.parametrize(("before", "after"), [(1, 2), (1, 4), (2, 1), (2, 3), (3, 2), (4, 4)])
@pytest.mark.parametrize("rounds", [0, 1])
def test_a_pass_goes_on_on_another_number_of_ranks(before: int, after: int, rounds: int, dataset: str) -> None:
    world = [loader_of(dataset, rank, before) for rank in range(before)]
    for loader in world:
        list(islice(loader, rounds))
    states = [json.loads(json.dumps(loader.state_dict())) for loader in world]
    left = in_order()[rounds * before :]

    resumed = [loader_of(dataset, rank, after) for rank in range(after)]
    for loader in resumed:
        loader.restore_state_rank(states)

    assert [keys(list(loader)) for loader in resumed] == [left[rank::after] for rank in range(after)]
    assert [keys(list(loader)) for loader in resumed] == [in_order()[rank::after] for rank in range(after)]


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_pass_goes_on_on_any_ranks_though_hooks_left_out_all_of_some_batches(after: int, dataset: str) -> None:
    """After one batch of each rank, two of them are at their second."""
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


def test_of_a_batch_that_is_half_out_counts_what_its_own_rank_says_and_not_what_others_knew(dataset: str) -> None:
    class Parts(Raw):
        """The second batch and the third come sample by sample, all others as they are."""

        def batch(self, samples: list[Any]) -> Iterator[Any]:
            step = 1 if int(samples[0]["__key__"]) in {4, 8} else 4
            for start in range(0, len(samples), step):
                yield super().batch(samples[start : start + step])

    came: list[list[int]] = []
    state: Any = None
    for ranks, steps in ((4, 1), (2, 1), (1, 99)):
        world = [loader_of(dataset, rank, ranks, encoder=Parts()) for rank in range(ranks)]
        for loader in world:
            loader.restore_state_rank(state)
        came += [batch for loader in world for batch in keys(list(islice(loader, steps)))]
        state = merge_states([loader.state_dict() for loader in world])

    assert sorted(key for batch in came for key in batch) == list(range(SAMPLES))


def test_a_rank_that_has_none_left_after_a_resume_on_other_ranks_waits_for_those_that_have(dataset: str) -> None:
    """Six batches: on two ranks equally many, but not when five of them came on one."""
    alone = loader_of(dataset, batch_drop_last=True)
    list(islice(alone, 5))
    resumed = [loader_of(dataset, rank, 2, batch_drop_last=True) for rank in range(2)]
    for loader in resumed:
        loader.load_state_dict(merge_states([alone.state_dict()]))

    assert [keys(list(loader)) for loader in resumed] == [in_order()[5:6], []]
    assert [keys(list(loader)) for loader in resumed] == [in_order()[rank:6:2] for rank in range(2)]


def test_ranks_that_have_equally_many_left_after_a_resume_on_other_ranks_go_on_with_the_next_pass(dataset: str) -> None:
    """Seven batches, of which one came on one rank, and three on each of two."""
    alone = loader_of(dataset)
    list(islice(alone, 1))
    resumed = [loader_of(dataset, rank, 2) for rank in range(2)]
    for loader in resumed:
        loader.load_state_dict(merge_states([alone.state_dict()]))

    assert [keys(list(islice(loader, 3))) for loader in resumed] == [in_order()[1::2], in_order()[2::2]]
    assert [keys(list(loader)) for loader in resumed] == [in_order()[rank::2] for rank in range(2)]


def test_a_generator_is_gone_on_with_by_whoever_gets_its_sample(dataset: str) -> None:
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
    """Of a pass as it lies, slice by slice of one: one of its four lanes ends long before the others."""

    def encode_sample(self, sample: Any) -> Any:
        number = int(sample["__key__"])
        if number > 4 and number % 4 == 1:
            raise SkipSample
        return sample

    def batch_group_criterion(self, sample: Any) -> Any:
        return int(sample["__key__"]) % 3, None


def test_ranks_whose_lanes_end_one_after_the_other_are_saved_together_and_go_on(dataset: str) -> None:
    def of(rank: int, world: int) -> Loader:
        options: dict[str, Any] = {"repeat": False, "lanes": 4, "shuffle": False, "max_samples_per_sequence": 1}
        return training_of(dataset, rank, world, FewOfOneLane(), split_part="val", batch_size=2, **options)

    unlike = 0
    for steps in range(1, 5):
        world = [of(rank, 2) for rank in range(2)]
        for loader in world:
            taken(loader, steps)
        states = [through_json(loader.state_dict()) for loader in world]
        turns = [sum(cursor["turns"] for cursor in state["cursors"].values()) for state in states]
        unlike += turns[0] != turns[1]
        rest = [[digest(batch) for batch in loader] for loader in world]
        alone, *both = [of(0, 1), *(of(rank, 2) for rank in range(2))]
        alone.load_state_dict(merge_states(states))
        for loader in both:
            loader.load_state_dict(states)

        assert [[digest(batch) for batch in loader] for loader in both] == rest, "each at its own place"
        assert sorted(digest(batch) for batch in alone) == sorted([*rest[0], *rest[1]])
    assert unlike


class FailsWhileTold(Raw):
    """Fails at every sample, as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False

    def encode_sample(self, sample: Any) -> Any:
        if self.fails:
            raise ValueError("not today")
        return sample


class GroupsAndFails(FailsWhileTold):
    def batch_group_criterion(self, sample: Any) -> tuple[bool, None]:
        return int(sample["__key__"]) % 2 == 0, None


@pytest.mark.parametrize("encoder", [FailsWhileTold, GroupsAndFails])
@pytest.mark.parametrize("is_restored", [False, True])
def test_a_pass_whose_first_batch_fails_has_not_begun_for_the_states_of_all_ranks(
    encoder: type[FailsWhileTold], is_restored: bool, dataset: str
) -> None:
    def ranks() -> tuple[list[FailsWhileTold], list[Loader]]:
        encoders = [encoder(), encoder()]
        options: dict[str, Any] = {"split_part": "val", "batch_size": 4, "repeat": False, "shuffle": False}
        return encoders, [
            get_loader(
                get_train_dataset(dataset, task_encoder=each, worker_config=strict(rank, 2), uneven="keep", **options)
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
