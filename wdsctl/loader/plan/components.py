"""The opened components of a blend: each is an order over the samples of one or several concatenated datasets."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.blend import BlendComponent, Leaf, resolve
from wdsctl.core.errors import InputError
from wdsctl.loader.lanes.lane_order import LaneOrder, SampleWindow
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.order.growth import SourceOrder, version_orders
from wdsctl.loader.reading.reference_blocks import ReferenceBlock
from wdsctl.loader.reading.source import PrefetchUnit, SampleRef, SampleRefRange, SplitSource
from wdsctl.loader.runtime.identity import value_digest

if TYPE_CHECKING:
    from wdsctl.loader.stores.shard_cache import CachedUnits

PREFETCH_BYTES = 64 << 20  # bytes of a window that the system reads ahead when the window is opened
MAX_CACHED_REFERENCES = 4096  # over all components of a lane: each is some 300 bytes


@dataclass(frozen=True, slots=True)
class SourceRange:
    """`positions` positions of a source from `first_position` on, repeated to `samples` samples per pass. The last
    repetition may be partial."""

    source: SplitSource
    first_position: int
    positions: int
    samples: int

    @property
    def repetitions(self) -> int:
        """The maximum number of times that a sample occurs in a pass."""
        return -(-self.samples // self.positions)


class Component:
    """Concatenated `source_ranges` in the order `order`, whose n is the sum of their samples. For a dataset that grew,
    the ranges of all versions.

    `has_contiguous_refs`: every window is within one range, as there is only one (per version) without repetitions.
    """

    def __init__(self, order: SourceOrder, source_ranges: Sequence[SourceRange]) -> None:
        self.order = order
        self.cached_units: CachedUnits | None = None  # set where a shard cache is used
        self.source_ranges = tuple(source_ranges)
        self._starts: Int64Array = np.cumsum([0, *(piece.samples for piece in source_ranges)], dtype=np.int64)
        self.has_contiguous_refs = len(source_ranges) == len(version_orders(order)) and all(
            piece.samples <= piece.positions for piece in source_ranges
        )

    def block(self, positions: Int64Array, passes: Int64Array) -> tuple[SplitSource, ReferenceBlock]:
        """References to positions of one window of a component that `has_contiguous_refs`, and the source that loads
        them."""
        source, shift = self._source_of(positions[0])
        return source, source.block(positions + shift if shift else positions, passes)

    def refs(self, positions: Int64Array, passes: Int64Array) -> list[SampleRef]:
        """A reference for each position, in their order."""
        if self.has_contiguous_refs and len(self.source_ranges) == 1:
            source, block = self.block(positions, passes)
            return [(source, block, i) for i in range(len(block))]
        refs: list[SampleRef] = [None] * len(positions)  # type: ignore[list-item]  # all are filled in below
        which = np.searchsorted(self._starts, positions, side="right") - 1
        for number in np.unique(which).tolist():
            piece, own = self.source_ranges[number], np.flatnonzero(which == number)
            repetition, local = np.divmod(positions[own] - self._starts[number], piece.positions)
            block = piece.source.block(local + piece.first_position, passes[own] * piece.repetitions + repetition)
            for i, at in enumerate(own.tolist()):
                refs[at] = (piece.source, block, i)
        return refs

    def will_need(self, window: SampleWindow) -> None:
        """Ask the system to read the window's bytes ahead, if the window is a range of one source."""
        if self.has_contiguous_refs:
            source, shift = self._source_of(int(window.positions[0]))
            source.will_need(window.position_ranges() + shift, PREFETCH_BYTES)

    @property
    def is_remote(self) -> bool:
        """Whether any sample is read from a store."""
        return any(piece.source.is_remote for piece in self.source_ranges)

    @property
    def lead_seconds(self) -> float:
        """How long before its first sample is used a window should be prefetched, by the first of its stores."""
        return next((piece.source.lead_seconds for piece in self.source_ranges if piece.source.is_remote), 0.0)

    def prefetch(self, positions: Int64Array, time: int = 0, *, starts: bool = True, due: float = 0.0) -> object:
        """Fetch the samples at these positions from stores in the background, while the result is kept.

        `time`: the draw of the job at which their window begins. `starts`: begin now, or when the first sample is read.
        `due`: when the first one is used; those with lower numbers are fetched first.
        """
        which = np.searchsorted(self._starts, positions, side="right") - 1
        kept = []
        for number in np.unique(which).tolist():
            piece, own = self.source_ranges[number], positions[which == number]
            if piece.source.is_remote:
                local = (own - self._starts[number]) % piece.positions + piece.first_position
                units = [] if self.cached_units is None else self._units(self.cached_units, number, own, time)
                kept.append(piece.source.prefetch(local, units, starts=starts, due=due))
        return kept

    def _units(self, cache: CachedUnits, number: int, positions: Int64Array, time: int) -> list[PrefetchUnit]:
        """The units of a cache that these positions of one range are in. A unit that extends into another range or
        repetition is not cached."""
        piece, first, size = self.source_ranges[number], int(self._starts[number]), cache.unit_samples
        units = []
        for unit in dict.fromkeys((positions // size).tolist()):
            start, stop = unit * size - first, min((unit + 1) * size, self.order.n) - first
            if start < 0 or stop > piece.samples or start // piece.positions != (stop - 1) // piece.positions:
                continue
            rows = np.arange(start, stop) % piece.positions + piece.first_position
            cache.use(unit, time)
            units.append(
                PrefetchUnit(
                    rows, cache.is_cached(unit), partial(cache.load, unit), partial(cache.collector, unit, time)
                )
            )
        return units

    def _source_of(self, position: int) -> tuple[SplitSource, int]:
        """The source of a position, and the offset from positions of the component to positions of the source."""
        number = bisect_right(self._starts, position) - 1
        return self.source_ranges[number].source, self.source_ranges[number].first_position - int(self._starts[number])


_NEVER = 1 << 62
MAX_CHUNKS_AHEAD = 8  # of a lane in a component, that are prefetched for a slow store
MAX_LEAD_SAMPLES = 256  # a client that is slow itself sees long latencies, and would fetch ever further ahead


class ComponentCursor:
    """The position of one lane in one component. `component_count`: of the blend; the cursors share the cache of
    references. `epoch`: the one that the job begins with. `share`: of the lane's draws that are of this component."""

    def __init__(
        self,
        component: Component,
        lane: Lane,
        taken: Sequence[int],
        component_count: int,
        epoch: int = 0,
        *,
        share: float = 1.0,
    ) -> None:
        self._component = component
        self._order = LaneOrder(component.order, lane, taken, epoch)
        self._has_siblings = component_count > 1
        self._chunk = max(16, MAX_CACHED_REFERENCES // component_count) if component_count > 1 else 1 << 62
        self._window: SampleWindow | None = None
        self._at = self._size = 0  # taken samples of the window, and all of its samples
        self._source_block: tuple[SplitSource, ReferenceBlock] | None = None
        self._refs: list[SampleRef] = []
        self._begin = self._end = 0  # of the references that are ready, in the window
        self._share = share
        self._is_remote = component.is_remote
        #: The number of taken samples of the window at which the references after the ready ones are prefetched.
        self._prefetch_at = _NEVER
        self._prefetched: object = None  # of the ready references
        self._prefetched_ahead: deque[object] = deque()  # of those after them, a chunk each
        self._ahead_number = 0  # of the first sample after those
        self._chunk_begun: tuple[float, int] | None = None  # when the ready references were made, and how many
        self._first_number, self._first_draw = 0, 0  # where the lane began, in this component and in all of them
        self.limit: int | None = None  # samples of this lane, in a finite pass

    def seek(self, taken: int, draws: int = 0) -> None:
        """Move to the position after `taken` samples of the component in this lane. `draws`: those of the lane since
        this process has opened it."""
        self._first_number, self._first_draw = taken, draws
        self._prefetched_ahead.clear()
        self._open_window(taken)

    def prefetch_first(self, taken: int, due: float) -> object:
        """Fetch what this lane reads first after `taken` samples, for as long as the result is kept. Moves nothing."""
        window = self._order.window(taken)
        return self._prefetch(window, taken - window.first_number, starts=True, due=due)

    def _open_window(self, taken: int) -> SampleWindow:
        window = self._order.window(taken)
        self._component.will_need(window)
        if self._has_siblings:  # 32-bit numbers, if they fit: a blend holds one window per source and lane
            window = SampleWindow(window.first_number, _as_int32(window.positions), _as_int32(window.passes))
        self._window = window
        self._size = len(window.positions)
        self._at, self._end, self._source_block = taken - window.first_number, 0, None
        return window

    def next_ref(self) -> SampleRef:
        """The next reference, for blends, which draw one at a time."""
        run = self._source_block
        if run is None or self._at >= self._end:
            if not self._component.has_contiguous_refs:
                return self.take_refs(1)[0]
            run = self._source_block = self._component.block(*self._next_positions())
        self._at += 1
        if self._at >= self._prefetch_at:
            self._prefetch_next()
        return *run, self._at - self._begin - 1

    def take_refs(self, count: int) -> list[SampleRef]:
        """The next references."""
        if self._component.has_contiguous_refs:
            return [
                (source, block, i) for source, block, start, stop in self.take_ranges(count) for i in range(start, stop)
            ]
        refs: list[SampleRef] = []
        while len(refs) < count:
            if self._at >= self._end:
                self._refs = self._component.refs(*self._next_positions())
            stop = min(self._end, self._at + count - len(refs))
            refs += self._refs[self._at - self._begin : stop - self._begin]
            self._at = stop
            if stop >= self._prefetch_at:
                self._prefetch_next()
        return refs

    def take_ranges(self, count: int) -> list[SampleRefRange]:
        """The next references of a component that `has_contiguous_refs`, as ranges of blocks."""
        runs: list[SampleRefRange] = []
        while count:
            if self._source_block is None or self._at >= self._end:
                self._source_block = self._component.block(*self._next_positions())
            stop = min(self._end, self._at + count)
            runs.append((*self._source_block, self._at - self._begin, stop - self._begin))
            count -= stop - self._at
            self._at = stop
            if stop >= self._prefetch_at:
                self._prefetch_next()
        return runs

    def lookup(self, number: int) -> SampleRef:
        """One reference, by its number in the component and lane. Does not move the cursor. Some 100 us."""
        return self.lookup_many([number])[0]

    def lookup_many(self, taken: Sequence[int]) -> list[SampleRef]:
        """The references of ascending numbers, in one block per source. Some 100 us per window, and 1 per sample."""
        numbers = np.asarray(taken, np.int64)
        positions, passes = np.empty_like(numbers), np.empty_like(numbers)
        done = 0
        while done < len(numbers):
            number, window = int(numbers[done]), self._window
            if window is None or not window.first_number <= number < window.first_number + self._size:
                window = self._order.window(number)
            stop = int(np.searchsorted(numbers, window.first_number + len(window.positions)))
            at = numbers[done:stop] - window.first_number
            positions[done:stop], passes[done:stop] = window.positions[at], window.passes[at]
            done = stop
        return self._component.refs(positions, passes)

    def first_epoch_samples(self) -> int:
        """The number of samples of this lane in its first epoch."""
        return self._order.first_epoch_samples()

    def _next_positions(self) -> tuple[Int64Array, Int64Array]:
        """The next positions and their passes, of the next window if this one is used up."""
        window = self._window
        if window is None or self._at >= self._size:
            window = self._open_window(0 if window is None else window.first_number + self._size)
        self._begin, self._end = self._at, min(self._at + self._chunk, self._size)
        rows = slice(self._begin, self._end)
        if self._is_remote:
            self._prefetch_at = min((self._begin + self._end) // 2, self._end - self._measure_lead())
            self._prefetched = self._prefetched_ahead.popleft() if self._prefetched_ahead else None
            if self._prefetched is None and self._component.cached_units is not None:
                self._prefetched = self._prefetch(window, self._begin, starts=False)
        return window.positions[rows].astype(np.int64, copy=False), window.passes[rows].astype(np.int64, copy=False)

    def _measure_lead(self) -> int:
        """How many samples ahead of its use a chunk should be prefetched: what this lane takes in the store's time."""
        if self._component.cached_units is not None:
            return 0  # a shard cache holds whole units, for exactly the chunks that the optimal order names
        now, size = time.monotonic(), self._end - self._begin
        begun, self._chunk_begun = self._chunk_begun, (now, size)
        if begun is None:
            return 0
        seconds, taken = max(1e-6, now - begun[0]), begun[1]
        return int(min(MAX_LEAD_SAMPLES, taken * self._component.lead_seconds / seconds))

    def _prefetch_next(self) -> None:
        """Prefetch the chunk after the ready references, and more until what is prefetched lasts for the lead."""
        window = self._window
        if window is None:
            return
        lead, self._prefetch_at = self._end - min(self._prefetch_at, self._end), _NEVER
        number = window.first_number + self._end
        if self._prefetched_ahead:
            number = self._ahead_number
        while len(self._prefetched_ahead) < MAX_CHUNKS_AHEAD and (self.limit is None or number < self.limit):
            if self._prefetched_ahead and number - window.first_number - self._at >= lead:
                break
            ahead = self._order.window(number) if number >= window.first_number + self._size else window
            begin = number - ahead.first_number
            due = self._first_draw + (number - self._first_number) / self._share
            self._prefetched_ahead.append(self._prefetch(ahead, begin, starts=True, due=due))
            number += min(self._chunk, len(ahead.positions) - begin)
            self._ahead_number = number

    def _prefetch(self, window: SampleWindow, begin: int, *, starts: bool, due: float = 0.0) -> object:
        positions = window.positions[begin : begin + self._chunk].astype(np.int64, copy=False)
        draw = self._order.draw_of(window.first_number) if self._component.cached_units is not None else 0
        return self._component.prefetch(positions, draw, starts=starts, due=due)


def _as_int32(numbers: Int64Array) -> Int64Array:
    # A broadcast number takes no memory.
    return numbers.astype(np.int32) if numbers.strides[0] and numbers.max() < 1 << 31 else numbers


def open_source_ranges(component: BlendComponent, open_source: Callable[[Leaf], SplitSource]) -> list[SourceRange]:
    """A range for each repeated leaf that has samples. Calls `open_source`, in order, for each leaf with repetitions.

    Raises InputError WDS211 if nothing is left, and what `resolve` raises for an impossible subset.
    """
    pieces = []
    for stretch in component.repeated_leaves:
        if not stretch.repetitions:
            continue
        source = open_source(stretch.leaf)
        start, stop = resolve(stretch.leaf.subsets, source.n)
        samples = int((stop - start) * stretch.repetitions)
        if samples:
            pieces.append(SourceRange(source, start, stop - start, samples))
    if not pieces:
        raise InputError(
            "this entry of the blend selects no samples",
            where=component.where or ", ".join(stretch.leaf.path for stretch in component.repeated_leaves),
            hint="check the subset and the repetitions of the entry, or set its weight to 0",
            code="WDS211",
        )
    return pieces


def component_data_digest(source_ranges: Sequence[SourceRange]) -> str:
    """The digest of the data that a component reads, wherever it is in a blend: 32 hex digits."""
    return value_digest(_range_facts(source_ranges))


def component_digest(source_ranges: Sequence[SourceRange], number: int) -> str:
    """The digest of the data that component `number` reads: 8 hex digits. States have them all, so that a mismatch can
    name the dataset."""
    return value_digest([number, _range_facts(source_ranges)])[:8]


def _range_facts(source_ranges: Sequence[SourceRange]) -> list[Any]:
    return [[piece.source.digest, piece.first_position, piece.positions, piece.samples] for piece in source_ranges]
