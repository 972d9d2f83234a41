"""Scheduled weights change at the step in the blend and resume exactly around it, also after lane splits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.loader.datasets import Raw, a_dataset, digest, numbered
from tests.loader.running import (
    digests,
    ids,
    json_round_trip,
    make_training_loader,
    save_state_after,
    take_batches,
    take_rounds,
)
from wdsctl.core.blend import Blender
from wdsctl.core.errors import StateMismatch
from wdsctl.loader import Loader, WorkerConfig, merge_states
from wdsctl.loader.packing import Packing

STEPS = (6, 15)  # of the training, on any number of ranks
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
    return make_training_loader(blend, rank, world, **{"lanes": LANES, "batch_size": BATCH, **options})


def world_of(blend: Blender, ranks: int, state: Any = None) -> list[Loader]:
    loaders = [loader_of(blend, rank, ranks) for rank in range(ranks)]
    for loader in loaders if state is not None else ():
        loader.restore_state_rank(state)
    return loaders


def sources(batch: Any) -> set[int]:
    return {source for source, *_ in batch["__restore_key__"]}


@pytest.mark.parametrize("world", [1, 2, 4])
def test_weights_change_exactly_at_scheduled_step_on_every_rank(world: int, blend: Blender) -> None:
    for loader in world_of(blend, world):
        found = [sources(batch) for batch in take_batches(loader, 24)]

        assert found[: STEPS[0]] == [{0}] * STEPS[0]
        assert found[STEPS[0] : STEPS[1]] == [{1}] * (STEPS[1] - STEPS[0])
        assert set().union(*found[STEPS[1] :]) == {0, 2}


def test_dataset_continues_at_its_position_when_weight_returns(blend: Blender) -> None:
    batches = take_batches(loader_of(blend), 120)

    counts = Counter(ids(batches))

    assert set(counts.values()) == {1}
    passes = Counter((source, number) for source, number, _ in counts)
    assert (passes[0, 0], passes[0, 1]) == (50, 50)


def test_states_near_scheduled_steps_resume_exactly(blend: Blender) -> None:
    loader = loader_of(blend)
    states, truth = [], []
    for _ in range(30 + 8):
        states.append(json_round_trip(loader.state_dict()))
        truth += digests(loader, 1)

    for place, state in enumerate(states[:30]):
        resumed = loader_of(blend)
        resumed.load_state_dict(state)
        assert digests(resumed, 8) == truth[place : place + 8], f"saved after batch {place}"


@pytest.mark.parametrize("place", [3, STEPS[0], 10, STEPS[1], 19])
def test_other_rank_counts_resume_with_same_global_batches(place: int, blend: Blender) -> None:
    state = merge_states([save_state_after(loader_of(blend), place)])
    truth = digests(loader_of(blend), place + 16)[place:]

    for ranks in (2, 4):
        assert [digest(batch) for batch in take_rounds(world_of(blend, ranks, state), 16 // ranks)] == truth


@pytest.mark.parametrize("place", [3, 10, 19])
def test_lane_split_in_any_schedule_segment_repeats_nothing_and_resumes_exactly(place: int, blend: Blender) -> None:
    loader = loader_of(blend)
    before = take_batches(loader, place)
    world = world_of(blend, 3, json_round_trip(merge_states([loader.state_dict()])))

    middle = take_rounds(world, 5)
    states = [json_round_trip(each.state_dict()) for each in world]
    after = take_rounds(world, 30)

    counts = Counter(ids([*before, *middle, *after]))
    assert set(counts.values()) == {1}
    resumed = take_rounds(world_of(blend, 3, states), 30)
    assert [digest(batch) for batch in resumed] == [digest(batch) for batch in after]


def test_state_after_two_lane_splits_resumes_exactly(blend: Blender) -> None:
    loader = loader_of(blend)
    before = take_batches(loader, 4)
    three = world_of(blend, 3, json_round_trip(merge_states([loader.state_dict()])))
    before += take_rounds(three, 4)
    five = world_of(blend, 5, [json_round_trip(each.state_dict()) for each in three])
    before += take_rounds(five, 2)
    states = [json_round_trip(each.state_dict()) for each in five]

    after = take_rounds(five, 20)

    assert set(Counter(ids([*before, *after])).values()) == {1}
    assert [digest(batch) for batch in take_rounds(world_of(blend, 5, states), 20)] == [
        digest(batch) for batch in after
    ]


# The weight history in states.


def weight_histories(state: Any) -> list[Any]:
    return [cursor["weight_history"] for _, cursor in sorted(state["cursors"].items(), key=lambda item: int(item[0]))]


def test_state_records_draw_at_which_each_segment_began_in_each_lane(blend: Blender) -> None:
    loader = loader_of(blend)

    # Batch g comes from lane g mod 4: when the second segment begins, lanes have given one or two batches of five.
    assert weight_histories(save_state_after(loader, STEPS[0])) == [[[[0, 0]]]] * LANES
    assert weight_histories(save_state_after(loader, LANES)) == [[[[0, 0], [1, 10]]]] * 2 + [[[[0, 0], [1, 5]]]] * 2
    assert weight_histories(save_state_after(loader, STEPS[1] - STEPS[0])) == [
        [[[0, 0], [1, 10], [2, 20]]],
        [[[0, 0], [1, 10], [2, 20]]],
        [[[0, 0], [1, 5], [2, 20]]],
        [[[0, 0], [1, 5], [2, 15]]],
    ]


def test_weight_history_survives_rank_changes_and_lane_splits(blend: Blender) -> None:
    state = merge_states([save_state_after(loader_of(blend), 10)])
    before = weight_histories(state)

    two = world_of(blend, 2, state)
    assert [weight_histories(each.state_dict()) for each in two] == [before[::2], before[1::2]]
    split = json_round_trip(merge_states([each.state_dict() for each in world_of(blend, 3, state)]))
    assert split["lanes"] == 3 * LANES
    of_root = dict(zip(range(LANES), before, strict=True))
    origins = [split["cursors"][str(lane)]["origin"] for lane in range(3 * LANES)]
    for (root, ((_, _, child),)), history in zip(origins, weight_histories(split), strict=True):
        # A child that starts at draw 0 has its parent's history, then the segment in force as the first of its own.
        assert history == (of_root[root] if child == 0 else [*of_root[root], [[1, 0]]])


def test_weight_history_omits_segments_without_draws(blend: Blender) -> None:
    schedule = [{"step": 1, "weights": [0, 1, 0]}, {"step": 2, "weights": [1, 0, 1]}]
    loader = loader_of(Blender(blend.entries, schedule=schedule))

    found = weight_histories(save_state_after(loader, LANES))

    assert found == [[[[0, 0]]], [[[1, 0]]], [[[2, 0]]], [[[2, 0]]]]


@pytest.mark.parametrize(
    "change",
    [
        [{"step": 6, "weights": [0, 1, 0]}, {"step": 16, "weights": [1, 0, 3]}],
        [{"step": 6, "weights": [0, 1, 0]}, {"step": 15, "weights": [1, 0, 2]}],
        [{"step": 6, "weights": [0, 1, 0]}],
        [],
    ],
    ids=["another step", "other weights", "a segment less", "no schedule"],
)
@pytest.mark.parametrize("place", [0, 3, 10])
def test_load_state_dict_refuses_state_of_other_schedule(place: int, change: Any, blend: Blender) -> None:
    state = save_state_after(loader_of(blend), place)
    other = Blender(blend.entries, schedule=change)

    with pytest.raises(StateMismatch, match="weights: ") as raised:
        loader_of(other).load_state_dict(state)

    assert raised.value.code == "WDS501"


class Packed(Raw):
    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[i : i + 3] for i in range(0, len(samples), 3)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "of": [tuple(each["__restore_key__"]) for each in samples]}


class Lengths(Raw):
    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "of": [tuple(each["__restore_key__"]) for each in samples]}


def number(sample: Any) -> int:
    return 1 + int(sample["__key__"]) % 7


PACKS: list[tuple[Any, dict[str, Any]]] = [
    (Packed(), {"packing_buffer_size": 11}),
    (Lengths(), {"packing": Packing(length=number, capacity=12, window=16)}),
]


@pytest.mark.parametrize(("encoder", "options"), PACKS, ids=["by hooks", "by length"])
def test_weight_change_within_pack_or_window_resumes_exactly(encoder: Any, options: Any, blend: Blender) -> None:
    def new_loader() -> Loader:
        return loader_of(blend, encoder=encoder, **{**options, "batch_size": 2})

    loader, states, batches = new_loader(), [], []
    for _ in range(36 + 10):
        states.append(json_round_trip(loader.state_dict()))
        batches += take_batches(loader, 1)

    truth = [digest(batch) for batch in batches]
    for place, state in enumerate(states[:36]):
        resumed = new_loader()
        resumed.load_state_dict(state)
        assert digests(resumed, 10) == truth[place : place + 10], place
    counts = Counter(key for batch in batches for pack in batch["of"] for key in pack)
    assert set(counts.values()) == {1}
    assert {source for source, *_ in counts} == {0, 1, 2}


def test_weights_change_exactly_at_scheduled_step_with_workers(blend: Blender) -> None:
    truth = digests(loader_of(blend), 24)
    state = merge_states([save_state_after(loader_of(blend), 5)])
    workers = WorkerConfig(0, 1, 2)

    with loader_of(blend, worker_config=workers) as loader:
        assert digests(loader, 24) == truth
    with loader_of(blend, worker_config=workers) as resumed:
        resumed.load_state_dict(state)
        assert digests(resumed, 12) == truth[5:17]
        saved = json_round_trip(resumed.state_dict())
    assert weight_histories(saved) == weight_histories(save_state_after(loader_of(blend), 17))


@pytest.mark.parametrize("place", [3, 10, 19])
def test_lane_split_in_any_schedule_segment_loses_nothing(place: int, blend: Blender) -> None:
    loader = loader_of(blend)
    batches = take_batches(loader, place)
    world = world_of(blend, 3, json_round_trip(merge_states([loader.state_dict()])))

    batches += take_rounds(world, 60)

    passes = Counter((source, number) for source, number, _ in Counter(ids(batches)))
    # Only passes that began early are complete; the latest ones are still running.
    assert passes[0, 0] == 50
    assert passes[2, 0] == 11
