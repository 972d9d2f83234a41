"""The first stage: references to samples, in the order of the plan. Its state is one number: how many were drawn.

A restore needs references of earlier draws. Looked up one by one, each needs a segment of its component, a window and a
block: some 0.4 ms. `lookup_many` groups neighbouring draws, so that each component computes a window and a block once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.loader.lanes.mixture import LaneMixture, Mixture, SegmentHistory
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.plan.components import MAX_CACHED_REFERENCES, Component, ComponentCursor
from wdsctl.loader.reading.source import SampleRef, SampleRefRange

MAX_GAP_DRAWS = 256  # closer draws are mixed together with those between them


def lookup_many(
    draws: Sequence[int], mixing: LaneMixture, component_cursor_of: Callable[[int], ComponentCursor]
) -> dict[int, SampleRef]:
    """The references of these draws of a lane. `component_cursor_of`: the lane's cursor of a component."""
    sorted_draws = np.unique(np.array(draws, np.int64))
    stretches = np.split(sorted_draws, np.flatnonzero(np.diff(sorted_draws) > MAX_GAP_DRAWS) + 1)
    which, nth = (
        np.concatenate(columns) for columns in zip(*(_mix_draws(each, mixing) for each in stretches), strict=True)
    )
    found: dict[int, SampleRef] = {}
    for component in np.unique(which).tolist():
        is_own = which == component
        found.update(
            zip(
                sorted_draws[is_own].tolist(),
                component_cursor_of(component).lookup_many(nth[is_own].tolist()),
                strict=True,
            )
        )
    return found


def _mix_draws(draws: Int64Array, mixing: LaneMixture) -> tuple[Int64Array, Int64Array]:
    first = int(draws[0])
    which, nth = mixing.draws(first, int(draws[-1]) + 1)
    return which[draws - first], nth[draws - first]


LOOKAHEAD_DRAWS = 1024  # draws whose components are computed at once
FIRST_DRAWS = 64  # of a lane, whose components are prefetched before it is opened


@dataclass(frozen=True, slots=True)
class RefStage:
    """`blends`: one mixture for each segment of the schedule, over the same components.

    `is_finite`: a lane ends with the epoch number `epoch` of the only component.
    """

    components: Sequence[Component]
    blends: Sequence[Mixture]
    mix_seed: int
    is_finite: bool = False
    epoch: int = 0

    def open(self, lane: Lane, weight_histories: Sequence[SegmentHistory] = ()) -> RefCursor:
        return RefCursor(self, lane, weight_histories)


class RefCursor:
    """The references of one lane."""

    def __init__(self, stage: RefStage, lane: Lane, weight_histories: Sequence[SegmentHistory]) -> None:
        self._stage = stage
        self._lane = lane
        self._mixing = LaneMixture(stage.blends, stage.mix_seed, lane, weight_histories)
        self._weights = stage.blends[0].weights  # at the beginning of the schedule: they decide what is fetched first
        self._total_weight = sum(self._weights)
        self._component_cursors: dict[
            int, ComponentCursor
        ] = {}  # of components that were drawn from since the last seek
        self._next_components: list[int] = []  # the components of the draws from `_next_components_start` on
        self._next_components_start = 0
        self._prefetch_draws: dict[int, None] = {}  # draws, in the order in which they will be looked up
        self._prefetched_refs: dict[int, SampleRef] = {}  # of the next of them
        self.draws = self._opened_at = 0
        self._limit = self._open_component(0).first_epoch_samples() if stage.is_finite else None

    def take(self, count: int) -> list[SampleRef]:
        """The next `count` references, fewer at the end of a finite lane."""
        if self._limit is not None:
            count = min(count, self._limit - self.draws)
        if len(self._stage.components) == 1:
            taken = self._drawn_component_cursor(0).take_refs(count)
            self.draws += count
            return taken
        refs: list[SampleRef] = []
        cursors = self._component_cursors
        while len(refs) < count:
            at = self.draws - self._next_components_start
            if at >= len(self._next_components):
                ahead, _ = self._mixing.draws(self.draws, self.draws + LOOKAHEAD_DRAWS)
                self._next_components, self._next_components_start = ahead.tolist(), self.draws
                at = 0
            for which in self._next_components[at : at + count - len(refs)]:
                cursor = cursors.get(which)
                # A draw counts when its reference is there: a new component is positioned by the draws before.
                refs.append(self._drawn_component_cursor(which).next_ref() if cursor is None else cursor.next_ref())
                self.draws += 1
        return refs

    def take_ranges(self, count: int) -> list[SampleRefRange]:
        """The next `count` references of an endless lane, as ranges if its only component has contiguous references."""
        if len(self._stage.components) > 1 or not self._stage.components[0].has_contiguous_refs:
            return [(source, block, i, i + 1) for source, block, i in self.take(count)]
        runs = self._drawn_component_cursor(0).take_ranges(count)
        self.draws += count
        return runs

    def lookup(self, draw: int) -> SampleRef:
        """The reference of any draw of this lane, earlier ones too. Moves nothing. Some 0.4 ms, unless it was
        prefetched."""
        if draw in self._prefetch_draws:
            batch = [draw, *islice(self._prefetch_draws, MAX_CACHED_REFERENCES)]
            self._prefetched_refs.update(lookup_many(batch, self._mixing, self._any_component_cursor))
            for each in batch:
                self._prefetch_draws.pop(each, None)
        if draw in self._prefetched_refs:
            return self._prefetched_refs.pop(draw)
        which, nth = self._mixing.component_at(draw)
        return self._any_component_cursor(which).lookup(nth)

    def prefetch(self, draws: Iterable[int]) -> None:
        """Announce `lookup` of these draws, in about this order: some thousand at a time are computed together when the
        first of them is looked up."""
        self._prefetch_draws = dict.fromkeys(draws)

    def seek(self, draws: int) -> None:
        """Move to this draw. Each component computes its position when it is next drawn from."""
        self.draws = self._opened_at = draws
        self._component_cursors.clear()
        self._next_components, self._next_components_start = [], draws

    def prefetch_first(self) -> list[object]:
        """Fetch what this lane reads first from stores, for as long as the result is kept. Moves nothing."""
        if self._limit is not None and self.draws >= self._limit:
            return []
        components = self._stage.components
        if len(components) == 1:
            first_draws = {0: 0}
        else:
            ahead, _ = self._mixing.draws(self.draws, self.draws + FIRST_DRAWS)
            first_draws = {which: ahead.tolist().index(which) for which in dict.fromkeys(ahead.tolist())}
        return [
            self._open_component(which).prefetch_first(self._mixing.count_component(which, self.draws), due)
            for which, due in first_draws.items()
            if components[which].is_remote
        ]

    def set_weight_histories(self, weight_histories: Sequence[SegmentHistory]) -> None:
        """Mix draws from here on by these histories, which agree with the old ones up to here."""
        self._mixing = LaneMixture(self._stage.blends, self._stage.mix_seed, self._lane, weight_histories)
        self._next_components, self._next_components_start = [], self.draws

    def _drawn_component_cursor(self, component: int) -> ComponentCursor:
        cursor = self._component_cursors.get(component)
        if cursor is None:
            cursor = self._component_cursors[component] = self._open_component(component)
            cursor.limit = self._limit
            cursor.seek(self._mixing.count_component(component, self.draws), self.draws - self._opened_at)
        return cursor

    def _any_component_cursor(self, component: int) -> ComponentCursor:
        """A cursor of a component at any position: one that is drawn from has its window already."""
        return self._component_cursors.get(component) or self._open_component(component)

    def _open_component(self, component: int) -> ComponentCursor:
        components = self._stage.components
        return ComponentCursor(
            components[component],
            self._lane,
            self._mixing.taken_at_splits(component),
            len(components),
            self._stage.epoch,
            share=max(1, self._weights[component]) / self._total_weight,
        )
