"""Ranks only decide who runs a lane; a split repeats nothing and misses nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.loader.order.geometry import START, Geometry, Lane, Position, split, start, turns
from wdsctl.loader.order.shuffle import Shuffled

Item = tuple[int, int, int]  # root, window, place in the window


@dataclass
class Job:
    """A training run, reduced to what comes when: lanes over an order, batches of so many samples."""

    order: Shuffled
    geometry: Geometry
    cursors: list[Position]
    drawn: int = 0
    size: int = 5

    def step(self, world: int) -> list[list[Item]]:
        """One batch for each rank."""
        batches = []
        for rank in range(world):
            lane = turns(self.geometry, self.drawn, rank, world)[0]
            batches.append(self._batch(lane))
        self.drawn += world
        return batches

    def run(self, world: int, steps: int) -> list[list[Item]]:
        if len(self.geometry.lanes) % world:
            self.split(world)
        return [batch for _ in range(steps) for batch in self.step(world)]

    def split(self, world: int) -> None:
        after = split(self.geometry, self.cursors, self.drawn, world)
        self.geometry, self.cursors = after.geometry, list(after.positions)

    def _batch(self, lane: int) -> list[Item]:
        batch: list[Item] = []
        while len(batch) < self.size:
            recipe, cursor = self.geometry.lanes[lane], self.cursors[lane]
            if cursor.window is None or cursor.at == self.window_samples(recipe.root, cursor.window):
                self.cursors[lane] = Position(recipe.window(cursor.next), 0, cursor.next + 1)
                continue
            batch.append((recipe.root, cursor.window, cursor.at))
            self.cursors[lane] = replace(cursor, at=cursor.at + 1)
        return batch

    def window_samples(self, root: int, window: int) -> int:
        return int(self.order.window(root, window).positions.size)


def a_job(lanes: int, n: int = 100) -> Job:
    order = Shuffled(n=n, lanes=lanes, slice_samples=3, window_samples=9, seed=1)
    return Job(order, start(lanes), [START] * lanes)


def whose_turn(job: Job, batches: int) -> list[int]:
    count = len(job.geometry.lanes)
    return [(job.drawn - job.geometry.base + i) % count for i in range(batches)]


def assert_nothing_twice_and_nothing_missed(job: Job, batches: list[list[Item]]) -> None:
    """What came and what is still to come make up each root's windows, every item exactly once."""
    came = Counter(item for batch in batches for item in batch)
    assert set(came.values()) <= {1}
    horizon = max(window for _, window, _ in came) + 3 * max(lane.stride for lane in job.geometry.lanes)
    for lane, cursor in zip(job.geometry.lanes, job.cursors, strict=True):
        if cursor.window is not None:
            rest = range(cursor.at, job.window_samples(lane.root, cursor.window))
            came.update((lane.root, cursor.window, place) for place in rest)
        for window in range(lane.window(cursor.next), horizon, lane.stride):
            came.update((lane.root, window, place) for place in range(job.window_samples(lane.root, window)))
    everything = {
        (root, window, place)
        for root in range(job.order.lanes)
        for window in range(horizon)
        for place in range(job.window_samples(root, window))
    }
    assert came == Counter(everything)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 6, 12])
def test_every_number_of_ranks_that_divides_the_lanes_sees_the_same_batches(world: int) -> None:
    alone, together = a_job(12), a_job(12)

    assert together.run(world, 120 // world) == alone.run(1, 120)


def test_ranks_may_change_at_any_step_while_they_divide_the_lanes() -> None:
    undisturbed, changing = a_job(12), a_job(12)

    batches = [*changing.run(4, 5), *changing.run(3, 4), *changing.run(1, 1), *changing.run(12, 2), *changing.run(2, 9)]

    assert batches == undisturbed.run(1, len(batches))


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 10**12))
def test_ranks_share_the_lanes_evenly_and_their_turns_make_the_stream(per_rank: int, world: int, drawn: int) -> None:
    geometry = start(per_rank * world)

    mine = [turns(geometry, drawn, rank, world) for rank in range(world)]

    assert sorted(lane for lanes in mine for lane in lanes) == list(range(per_rank * world))
    assert {len(lanes) for lanes in mine} == {per_rank}
    assert [lanes[step] for step in range(per_rank) for lanes in mine] == [
        (drawn + g) % (per_rank * world) for g in range(per_rank * world)
    ]


@pytest.mark.parametrize(("lanes", "world", "after"), [(8, 6, 24), (8, 3, 24), (8, 16, 16), (8, 5, 40), (1, 7, 7)])
def test_a_split_makes_lanes_that_the_ranks_divide(lanes: int, world: int, after: int) -> None:
    job = a_job(lanes)

    job.split(world)

    assert len(job.geometry.lanes) == after
    assert {len(turns(job.geometry, 0, rank, world)) for rank in range(world)} == {after // world}


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.lists(st.tuples(st.integers(1, 7), st.integers(0, 9)), min_size=1, max_size=3))
def test_nothing_comes_twice_and_nothing_is_missed_across_splits_of_splits(
    lanes: int, worlds: list[tuple[int, int]]
) -> None:
    job = a_job(lanes)
    batches = job.run(1, 1)

    for world, steps in worlds:
        batches += job.run(world, steps)

    assert_nothing_twice_and_nothing_missed(job, batches)


def test_a_split_of_a_split_has_crossed_windows_and_epochs() -> None:
    job = a_job(8)

    batches = job.run(4, 20)
    batches += job.run(6, 20)
    assert len(job.geometry.lanes) == 24
    batches += job.run(5, 24)
    assert len(job.geometry.lanes) == 120
    batches += job.run(8, 60)

    assert len(job.geometry.lanes) == 120
    assert any(lane.stride == 15 and lane.first > 0 for lane in job.geometry.lanes)
    assert {job.order.epoch_of(root, window) for batch in batches for root, window, _ in batch} >= {0, 1, 2, 3}
    assert_nothing_twice_and_nothing_missed(job, batches)


def test_ranks_that_divide_the_lanes_after_a_split_see_the_same_batches() -> None:
    one, other = a_job(8), a_job(8)
    assert one.run(4, 7) == other.run(2, 14)
    one.split(6)
    other.split(3)

    assert one.run(6, 20) == other.run(12, 10)


def test_a_split_that_is_not_needed_changes_no_batch() -> None:
    undisturbed, job = a_job(8), a_job(8)
    assert undisturbed.run(1, 13) == job.run(1, 13)

    job.split(4)

    assert len(job.geometry.lanes) == 8
    assert job.run(4, 10) == undisturbed.run(1, 40)


def test_children_0_come_first_from_the_lane_whose_turn_it_is() -> None:
    before = start(2)
    cursors = [Position(window=4, at=7, next=5), Position(window=2, at=1, next=3)]

    after = split(before, cursors, drawn=11, world=3)

    assert after.geometry == Geometry(
        base=11, lanes=(Lane(1, 3, 3), Lane(0, 5, 3), Lane(1, 4, 3), Lane(0, 6, 3), Lane(1, 5, 3), Lane(0, 7, 3))
    )
    assert after.parents == (1, 0, 1, 0, 1, 0)
    assert after.heirs == 2
    assert after.positions == (Position(2, 1, 0), Position(4, 7, 0), START, START, START, START)
    assert turns(after.geometry, 11, rank=0, world=3) == (0, 3)


def test_what_is_open_stays_open_in_child_0_and_is_finished_first() -> None:
    job = a_job(2)
    job.run(1, 4)
    due = whose_turn(job, 1)[0]
    cursor = job.cursors[due]
    assert cursor.window is not None
    assert 0 < cursor.at < job.window_samples(due, cursor.window)

    batch = job.run(3, 1)[0]

    assert batch[0] == (due, cursor.window, cursor.at)


def test_a_lane_that_opened_nothing_gives_its_windows_to_all_children() -> None:
    after = split(start(1), [START], drawn=0, world=3)

    assert after.geometry.lanes == (Lane(0, 0, 3), Lane(0, 1, 3), Lane(0, 2, 3))
    assert after.positions == (START,) * 3


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=4, max_size=4), st.integers(0, 99))
def test_sources_of_one_job_split_into_the_same_turns(opened: list[tuple[int, int]], drawn: int) -> None:
    one, other = (
        split(start(4), [Position(next=count) for count in counts], drawn, world=6)
        for counts in zip(*opened, strict=True)
    )

    assert one.parents == other.parents
    assert [lane.root for lane in one.geometry.lanes] == [lane.root for lane in other.geometry.lanes]
    assert one.geometry.base == other.geometry.base == drawn


def test_uneven_turns_are_refused_with_a_number_of_lanes_that_would_do() -> None:
    with pytest.raises(UsageError, match="8 lanes cannot be dealt evenly to 6 ranks") as caught:
        turns(start(8), 0, rank=0, world=6)

    assert "lanes=24" in caught.value.hint


@pytest.mark.parametrize(("rank", "world"), [(-1, 2), (2, 2), (0, 0)])
def test_a_rank_outside_the_world_is_refused(rank: int, world: int) -> None:
    with pytest.raises(UsageError, match="there is no rank"):
        turns(start(4), 0, rank, world)


def test_a_step_before_the_geometry_began_is_refused() -> None:
    later = split(start(2), [START, START], drawn=6, world=3).geometry

    with pytest.raises(UsageError, match="began at batch 6"):
        turns(later, 5, rank=0, world=3)


def test_a_split_without_all_cursors_is_refused() -> None:
    with pytest.raises(UsageError, match="the cursors of all 8 lanes, not of 7"):
        split(start(8), [START] * 7, drawn=0, world=6)


@pytest.mark.parametrize("world", [0, -2])
def test_a_split_for_nobody_is_refused(world: int) -> None:
    with pytest.raises(UsageError, match="at least one rank"):
        split(start(2), [START] * 2, drawn=0, world=world)


def test_a_job_without_lanes_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one lane"):
        start(0)
