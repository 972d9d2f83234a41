"""Weights that change: at the step that the blend says, exactly resumed around it, and after lanes were split."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.loader.datasets import a_dataset, digest, numbered
from tests.loader.running import digests, ids, saved_after, taken, through_json, training_of
from wdsctl.core.blend_file import Blender
from wdsctl.loader import Loader, merge_states

STEPS = (6, 15)  # of the training, whatever its ranks
LANES, BATCH = 4, 5


@pytest.fixture(scope="module")
def blend(tmp_path_factory: pytest.TempPathFactory) -> Blender:
    one, two, three = (
        a_dataset(tmp_path_factory.mktemp("data"), samples, shard_samples=20, parts=numbered)
        for samples in (50, 30, 11)
    )
    schedule = [{"step": STEPS[0], "weights": [0, 1, 0]}, {"step": STEPS[1], "weights": [1, 0, 3]}]
    return Blender([(one, 1), (two, 0), (three, 0)], schedule=schedule)


def loader_of(blend: Blender, rank: int = 0, world: int = 1, **options: Any) -> Loader:
    return training_of(blend, rank, world, **{"lanes": LANES, "batch_size": BATCH, **options})


def world_of(blend: Blender, ranks: int, state: Any = None) -> list[Loader]:
    loaders = [loader_of(blend, rank, ranks) for rank in range(ranks)]
    for loader in loaders:
        loader.restore_state_rank(state)
    return loaders


def rounds(loaders: list[Loader], count: int) -> list[Any]:
    streams = [iter(loader) for loader in loaders]
    return [next(stream) for _ in range(count) for stream in streams]


def sources(batch: Any) -> set[int]:
    return {source for source, *_ in batch["__restore_key__"]}


@pytest.mark.parametrize("world", [1, 2, 4])
def test_weights_change_with_the_very_batch_of_their_step_on_every_rank(world: int, blend: Blender) -> None:
    for loader in world_of(blend, world):
        found = [sources(batch) for batch in taken(loader, 24)]

        assert found[: STEPS[0]] == [{0}] * STEPS[0]
        assert found[STEPS[0] : STEPS[1]] == [{1}] * (STEPS[1] - STEPS[0])
        assert set().union(*found[STEPS[1] :]) == {0, 2}


def test_each_dataset_goes_on_where_it_was_when_it_comes_again(blend: Blender) -> None:
    batches = taken(loader_of(blend), 120)

    counts = Counter(ids(batches))

    assert set(counts.values()) == {1}
    passes = Counter((source, number) for source, number, _ in counts)
    assert (passes[0, 0], passes[0, 1]) == (50, 50)


def test_a_state_of_any_batch_goes_on_exactly(blend: Blender) -> None:
    loader = loader_of(blend)
    states, truth = [], []
    for _ in range(30):
        states.append(through_json(loader.state_dict()))
        truth += digests(loader, 1)

    for place, state in enumerate(states):
        resumed = loader_of(blend)
        resumed.load_state_dict(state)
        assert digests(resumed, 30 - place) == truth[place:], f"saved after batch {place}"


@pytest.mark.parametrize("place", [3, STEPS[0], 10, STEPS[1], 19])
def test_other_ranks_go_on_with_the_same_global_batches(place: int, blend: Blender) -> None:
    state = merge_states([saved_after(loader_of(blend), place)])
    truth = digests(loader_of(blend), place + 16)[place:]

    for ranks in (2, 4):
        assert [digest(batch) for batch in rounds(world_of(blend, ranks, state), 16 // ranks)] == truth


@pytest.mark.parametrize("place", [3, 10, 19])
def test_a_split_of_the_lanes_in_any_segment_repeats_nothing_and_goes_on_exactly(place: int, blend: Blender) -> None:
    loader = loader_of(blend)
    before = taken(loader, place)
    world = world_of(blend, 3, through_json(merge_states([loader.state_dict()])))

    middle = rounds(world, 5)
    states = [through_json(each.state_dict()) for each in world]
    after = rounds(world, 30)

    counts = Counter(ids([*before, *middle, *after]))
    assert set(counts.values()) == {1}
    resumed = rounds(world_of(blend, 3, states), 30)
    assert [digest(batch) for batch in resumed] == [digest(batch) for batch in after]


def test_a_split_twice_goes_on_exactly(blend: Blender) -> None:
    loader = loader_of(blend)
    before = taken(loader, 4)
    three = world_of(blend, 3, through_json(merge_states([loader.state_dict()])))
    before += rounds(three, 4)
    five = world_of(blend, 5, [through_json(each.state_dict()) for each in three])
    before += rounds(five, 2)
    states = [through_json(each.state_dict()) for each in five]

    after = rounds(five, 20)

    assert set(Counter(ids([*before, *after])).values()) == {1}
    assert [digest(batch) for batch in rounds(world_of(blend, 5, states), 20)] == [digest(batch) for batch in after]
