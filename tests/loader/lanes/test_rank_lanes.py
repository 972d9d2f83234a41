"""Ranks only decide which process runs a lane; after a split, the child lanes get new turns."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.loader.lanes.rank_lanes import (
    Lane,
    LaneLayout,
    LaneSplit,
    LaneTurn,
    new_layout,
    next_batch_number,
    pass_turns,
    rank_turns,
    split_lanes,
)


def stream(geometry: LaneLayout, world: int, batches: int) -> list[int]:
    """The lanes of a job's batches, drawn by `world` ranks."""
    return [
        rank_turns(geometry, drawn, rank, world).lanes[0] for drawn in range(0, batches, world) for rank in range(world)
    ]  # fmt: skip


@pytest.mark.parametrize("world", [1, 2, 3, 4, 6, 12])
def test_batches_are_same_for_any_world_size_dividing_lanes(world: int) -> None:
    assert stream(new_layout(12), world, 120) == stream(new_layout(12), 1, 120)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 10**12))
def test_rank_turns_divide_lanes_evenly_and_in_order(per_rank: int, world: int, drawn: int) -> None:
    geometry = new_layout(per_rank * world)

    turns = [rank_turns(geometry, drawn, rank, world).lanes for rank in range(world)]

    assert sorted(lane for lanes in turns for lane in lanes) == list(range(per_rank * world))
    assert {len(lanes) for lanes in turns} == {per_rank}
    assert [lanes[step] for step in range(per_rank) for lanes in turns] == [
        (drawn + g) % (per_rank * world) for g in range(per_rank * world)
    ]


@pytest.mark.parametrize(("lanes", "world", "after"), [(8, 6, 24), (8, 3, 24), (8, 16, 16), (8, 5, 40), (1, 7, 7)])
def test_split_lanes_makes_lane_count_divisible_by_ranks(lanes: int, world: int, after: int) -> None:
    geometry = split_lanes(new_layout(lanes), [0] * lanes, 0, world).layout

    assert len(geometry.lanes) == after
    assert {len(rank_turns(geometry, 0, rank, world).lanes) for rank in range(world)} == {after // world}


def test_split_layout_gives_same_batches_for_dividing_world_sizes() -> None:
    one, other = (split_lanes(new_layout(8), [5] * 8, 0, world).layout for world in (6, 3))

    assert one == other
    assert stream(one, 6, 120) == stream(other, 12, 120)


def test_split_lanes_keeps_lanes_when_ranks_divide_them() -> None:
    after = split_lanes(new_layout(8), list(range(8)), batches_drawn=13, world=4)

    assert after.layout == LaneLayout(first_batch=13, lanes=tuple(Lane(root) for root in (5, 6, 7, 0, 1, 2, 3, 4)))
    assert after.parents == (5, 6, 7, 0, 1, 2, 3, 4)
    assert after.continuing == 8


def test_split_lanes_orders_children_from_current_lane() -> None:
    after = split_lanes(new_layout(2), [70, 55], batches_drawn=11, world=3)

    assert after.layout == LaneLayout(
        first_batch=11,
        lanes=(
            Lane(1, (LaneSplit(55, 3, 0),)),
            Lane(0, (LaneSplit(70, 3, 0),)),
            Lane(1, (LaneSplit(55, 3, 1),)),
            Lane(0, (LaneSplit(70, 3, 1),)),
            Lane(1, (LaneSplit(55, 3, 2),)),
            Lane(0, (LaneSplit(70, 3, 2),)),
        ),
    )
    assert after.parents == (1, 0, 1, 0, 1, 0)
    assert after.continuing == 2
    assert rank_turns(after.layout, 11, rank=0, world=3).lanes == (0, 3)


def test_second_split_is_appended_to_first() -> None:
    once = split_lanes(new_layout(1), [10], batches_drawn=2, world=2)

    twice = split_lanes(once.layout, [14, 3], batches_drawn=4, world=4)

    assert twice.layout.lanes == (
        Lane(0, (LaneSplit(10, 2, 0), LaneSplit(14, 2, 0))),
        Lane(0, (LaneSplit(10, 2, 1), LaneSplit(3, 2, 0))),
        Lane(0, (LaneSplit(10, 2, 0), LaneSplit(14, 2, 1))),
        Lane(0, (LaneSplit(10, 2, 1), LaneSplit(3, 2, 1))),
    )


def test_child_0_keeps_identity_of_parent() -> None:
    assert Lane(3).identity() == (3,)
    assert Lane(3, (LaneSplit(7, 2, 0), LaneSplit(9, 5, 0))).identity() == (3,)
    assert Lane(3, (LaneSplit(7, 2, 1), LaneSplit(9, 5, 0))).identity() == (3, 0, 1)
    assert Lane(3, (LaneSplit(7, 2, 1), LaneSplit(9, 5, 4))).identity() == (3, 0, 1, 1, 4)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.lists(st.sampled_from([2, 3, 4, 5, 6, 7]), min_size=1, max_size=3))
def test_lane_identities_are_unique_except_for_continuing_lanes(roots: int, worlds: list[int]) -> None:
    history = [new_layout(roots)]
    for world in worlds:
        history.append(split_lanes(history[-1], [1] * len(history[-1].lanes), 0, world).layout)

    for geometry in history:
        assert len({lane.identity() for lane in geometry.lanes}) == len(geometry.lanes)
    for before, after in pairwise(history):
        names = {lane.identity() for lane in before.lanes}
        assert all(
            (lane.identity() in names) == (lane.splits[-1:] == () or _continues(lane, before)) for lane in after.lanes
        )


def _continues(lane: Lane, before: LaneLayout) -> bool:
    return lane in before.lanes or not lane.splits[-1].child


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 14), st.dictionaries(st.integers(0, 11), st.integers(0, 5)))
def test_pass_turns_are_ordered_and_complete_for_any_ranks(lanes: int, world: int, taken: dict[int, int]) -> None:
    geometry = new_layout(lanes)
    taken = {lane: turn for lane, turn in taken.items() if lane < lanes}
    actual = []
    for rank in range(world):
        turns = pass_turns(geometry, taken, rank, world)
        assert sorted(turns.lanes) == list(range(rank, lanes, world))
        numbers = [turns.at(turn).batch for turn in range(12 * len(turns.lanes))]
        assert numbers == sorted(numbers)
        assert {number % lanes for number in numbers} <= set(turns.lanes)
        actual += [number for number in numbers if number < 12 * lanes]

    missing = {turn * lanes + lane for lane, count in taken.items() for turn in range(count)}
    assert sorted(actual) == [number for number in range(12 * lanes) if number not in missing]


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**9), st.integers(0, 100))
def test_rank_turns_of_endless_stream_are_every_nth_batch(per_rank: int, world: int, drawn: int, turn: int) -> None:
    geometry = new_layout(per_rank * world)

    for rank in range(world):
        number = drawn + turn * world + rank
        assert rank_turns(geometry, drawn, rank, world).at(turn) == LaneTurn(number % (per_rank * world), number)


def test_next_batch_number_follows_last_turn_of_any_lane() -> None:
    assert next_batch_number(new_layout(3), {}) == 0
    assert next_batch_number(new_layout(3), {0: 2, 1: 0, 2: 1}) == 4
    assert next_batch_number(LaneLayout(7, new_layout(3).lanes), {0: 1, 1: 1}) == 9


def test_rank_turns_refuses_uneven_lanes_with_hint() -> None:
    with pytest.raises(UsageError, match="8 lanes cannot be divided evenly among 6 ranks") as caught:
        rank_turns(new_layout(8), 0, rank=0, world=6)

    assert "lanes=24" in caught.value.hint


@pytest.mark.parametrize(("rank", "world"), [(-1, 2), (2, 2), (0, 0)])
def test_rank_turns_refuses_rank_out_of_world(rank: int, world: int) -> None:
    with pytest.raises(UsageError, match="is out of range for world size"):
        rank_turns(new_layout(4), 0, rank, world)


def test_rank_turns_refuses_batch_before_layout() -> None:
    layout = split_lanes(new_layout(2), [0, 0], batches_drawn=6, world=3).layout

    with pytest.raises(UsageError, match="begin at batch 6"):
        rank_turns(layout, 5, rank=0, world=3)


def test_split_lanes_refuses_missing_draw_counts() -> None:
    with pytest.raises(UsageError, match="the draws of all 8 lanes, found 7"):
        split_lanes(new_layout(8), [0] * 7, batches_drawn=0, world=6)


@pytest.mark.parametrize("world", [0, -2])
def test_split_lanes_refuses_empty_world(world: int) -> None:
    with pytest.raises(UsageError, match="expected 1 or more"):
        split_lanes(new_layout(2), [0] * 2, batches_drawn=0, world=world)


def test_new_layout_refuses_zero_lanes() -> None:
    with pytest.raises(UsageError, match="expected 1 or more"):
        new_layout(0)
