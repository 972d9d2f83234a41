"""Whatever the cuts, each sample is in the legs of one lane: nothing comes twice and nothing is missed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.loader.order.geometry import Cut, Geometry, Lane, split, start
from wdsctl.loader.order.legs import Leg, legs, place
from wdsctl.loader.order.shuffle import Shuffled, Strand

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = tuple[int, int]  # pass, position


def walk(order: Shuffled, mine: tuple[Leg, ...], taken: int) -> Iterator[tuple[int, Item]]:
    """(slot of the window, item) of a lane from a place on, without end."""
    index, begin, at = place(order, mine, taken)
    while True:
        strand, samples = mine[index]
        window = order.window(strand, begin)
        slot = strand.first + begin * strand.step
        items = list(zip(window.passes.tolist(), window.positions.tolist(), strict=True))
        yield from ((slot, item) for item in items[at:])
        begin, at = window.stop, 0
        if samples is not None and order.samples_before(strand, begin) == samples:
            index, begin = index + 1, 0


@dataclass
class Job:
    """A training run in one order, reduced to what each lane takes. A lane's picks are its samples."""

    order: Shuffled
    roots: int
    geometry: Geometry = field(init=False)
    picks: list[int] = field(init=False)
    came: Counter[Item] = field(default_factory=Counter)
    furthest: int = 0

    def __post_init__(self) -> None:
        self.geometry, self.picks = start(self.roots), [0] * self.roots

    def legs(self, lane: int) -> tuple[Leg, ...]:
        recipe = self.geometry.lanes[lane]
        return legs(self.order, recipe, self.roots, [cut.picks for cut in recipe.cuts])

    def take(self, lane: int, samples: int) -> None:
        for slot, item in islice(walk(self.order, self.legs(lane), self.picks[lane]), samples):
            self.came[item] += 1
            self.furthest = max(self.furthest, slot)
        self.picks[lane] += samples

    def to_window_end(self, lane: int) -> None:
        """Take what is left of the open window, exactly."""
        mine = self.legs(lane)
        index, begin, at = place(self.order, mine, self.picks[lane])
        self.take(lane, self.order.window(mine[index].strand, begin).positions.size - at)

    def split(self, world: int) -> None:
        after = split(self.geometry, self.picks, 0, world)
        self.picks = [self.picks[parent] if i < after.heirs else 0 for i, parent in enumerate(after.parents)]
        self.geometry = after.geometry

    def finish(self) -> None:
        """Follow all lanes to the end of an epoch that none has seen the end of; then every sample came once a pass."""
        epoch_slots = self.order.epoch_slices
        end = (self.furthest // epoch_slots + 1) * epoch_slots
        for lane in range(len(self.geometry.lanes)):
            for slot, item in walk(self.order, self.legs(lane), self.picks[lane]):
                if slot >= end:
                    break
                self.came[item] += 1
                self.picks[lane] += 1
        passes = end // self.order.slices
        assert self.came == Counter((number, i) for number in range(passes) for i in range(self.order.n))


def an_order(n: int, passes: int = 1) -> Shuffled:
    return Shuffled(n=n, slice_samples=3, window_samples=9, seed=1, passes=passes)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 150),
    st.sampled_from([0, 1, 3]),
    st.integers(1, 8),
    st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12]), max_size=3),
    st.integers(0, 10**6),
)
def test_nothing_comes_twice_and_nothing_is_missed_across_cuts(
    n: int, passes: int, roots: int, worlds: list[int], seed: int
) -> None:
    job, random = Job(an_order(n, passes), roots), Random(seed)

    for world in worlds:
        for lane in range(len(job.geometry.lanes)):
            # Nothing, little (inside a finite leg of the cut before), up to a window's end, or far.
            what = random.randrange(4)
            if what == 1:
                job.take(lane, random.randrange(1, 4))
            elif what == 2:
                job.to_window_end(lane)
            elif what == 3:
                job.take(lane, random.randrange(60))
        job.split(world)

    job.finish()


@pytest.mark.parametrize("lanes", [1, 8, 64])
@pytest.mark.parametrize("n", [1, 2, 5, 64, 200, 401])
def test_lanes_that_were_never_cut_share_every_pass(n: int, lanes: int) -> None:
    job = Job(an_order(n), lanes)
    job.take(0, 2 * n)

    job.finish()


@pytest.mark.parametrize("n", [400, 500, 1001])
def test_eight_lanes_go_on_with_6_ranks_then_12_then_1_then_5(n: int) -> None:
    job, random = Job(an_order(n), 8), Random(n)

    for world, lanes in ((6, 24), (12, 24), (1, 24), (5, 120)):
        for lane in range(len(job.geometry.lanes)):
            job.take(lane, random.randrange(40))
        job.split(world)
        assert len(job.geometry.lanes) == lanes

    job.finish()
    assert any(len(job.legs(lane)) == 3 for lane in range(120))


def test_what_is_open_stays_with_child_0_and_the_rest_is_dealt() -> None:
    order = an_order(3000)
    taken = 10  # a window is 9 samples in 3 slices: the second one is open

    first, second = (legs(order, Lane(1, (Cut(10, 2, child),)), 4, [taken]) for child in (0, 1))

    assert first == (Leg(Strand(1, 4), 18), Leg(Strand(1 + 6 * 4, 8), None))
    assert second == (Leg(Strand(1 + 7 * 4, 8), None),)
    assert place(order, first, 10) == (0, 3, 1)
    assert place(order, first, 17) == (0, 3, 8)
    assert place(order, first, 18) == (1, 0, 0)
    assert place(order, second, 0) == (0, 0, 0)


def test_at_the_exact_end_of_a_window_nothing_is_open() -> None:
    mine = legs(an_order(3000), Lane(0, (Cut(18, 3, 0),)), 2, [18])

    assert mine == (Leg(Strand(0, 2), 18), Leg(Strand(12, 6), None))


def test_a_cut_inside_a_finite_leg_deals_the_whole_last_leg() -> None:
    order = an_order(3000)
    cuts = (Cut(10, 2, 0), Cut(13, 3, 0))

    mine = legs(order, Lane(0, cuts), 1, [10, 13])
    other = legs(order, Lane(0, (cuts[0], Cut(13, 3, 2))), 1, [10, 13])

    assert mine == (Leg(Strand(0, 1), 18), Leg(Strand(6, 6), None))
    assert other == (Leg(Strand(10, 6), None),)


def test_a_lane_that_took_nothing_deals_everything() -> None:
    assert legs(an_order(3000), Lane(0, (Cut(0, 3, 0),)), 1, [0]) == (Leg(Strand(0, 3), None),)


def test_a_child_counts_from_0() -> None:
    order = an_order(3000)

    mine = legs(order, Lane(0, (Cut(900, 2, 1), Cut(9, 2, 0))), 1, [900, 9])

    assert mine == (Leg(Strand(301, 2), 9), Leg(Strand(307, 4), None))


def test_counts_and_cuts_belong_together() -> None:
    with pytest.raises(ValueError, match="zip"):
        legs(an_order(10), Lane(0, (Cut(1, 2, 0),)), 1, [])
    with pytest.raises(IndexError, match="end 2 samples before"):
        place(an_order(10), [Leg(Strand(0, 1), 7)], 9)
