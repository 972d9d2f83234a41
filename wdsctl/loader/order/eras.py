"""The order of a dataset that has grown: one order up to a slot where an epoch ends, and from there on another.

Slots are counted on over all eras, so lanes, strands and cuts are what they were. An era has the slots from where the
one before it ended; in its own order they are counted from 0. Eras end where an epoch does, so no window reaches into
the next, and what lanes have of an era together is so many whole epochs of it. Positions of an era come after those of
the eras before, and so do passes: a sample of a pass of the job has one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wdsctl.loader.order.shuffle import WITH_REPLACEMENT, Shuffled, Strand, Window


class Era(NamedTuple):
    """An order from slot `begin` to `end` (None: without end). `positions`, `passes`: how many came before it."""

    order: Shuffled
    begin: int
    end: int | None
    positions: int
    passes: int


class Eras:
    """What `Shuffled` is, for several orders one after the other. `ends`: the slots where all but the last one end.

    Raises ValueError where an era does not end with an epoch of its order.
    """

    def __init__(self, orders: Sequence[Shuffled], ends: Sequence[int]) -> None:
        self.eras = tuple(_eras(orders, ends))
        self.latest = latest = self.eras[-1].order
        # Of the last one, which is what the job has to do with from now on.
        self.n, self.size, self.slices, self.passes = latest.n, latest.size, latest.slices, latest.passes
        self.epoch_slices = latest.epoch_slices

    def window(self, strand: Strand, start: int, slices: int = 1) -> Window:
        """The window that begins with the strand's slice `start`: see `Shuffled.window`."""
        era, low, high = self._era_of(strand, start)
        most = slices if high is None else min(slices, high - start)
        found = era.order.window(_local(strand, era, low), start - low, most)
        return Window(
            found.positions + era.positions, found.passes + era.passes, found.slices + era.positions, found.stop + low
        )

    def samples_before(self, strand: Strand, count: int) -> int:
        """How many samples the strand's first `count` slices have."""
        total = 0
        for era, low, high in self._stretches(strand):
            mine = count - low if high is None else min(count, high) - low
            if mine <= 0:
                break
            total += era.order.samples_before(_local(strand, era, low), mine)
        return total

    def end_of(self, strand: Strand, index: int) -> int:
        """The slice where the window that has the strand's slice `index` ends."""
        era, low, _ = self._era_of(strand, index)
        return low + era.order.end_of(_local(strand, era, low), index - low)

    def find(self, strand: Strand, taken: int) -> tuple[int, int]:
        """The window that the strand's sample number `taken` is in, as its first slice, and how many come before it."""
        for era, low, high in self._stretches(strand):
            local = _local(strand, era, low)
            samples = None if high is None else era.order.samples_before(local, high - low)
            if samples is None or taken < samples:
                start, at = era.order.find(local, taken)
                return low + start, at
            taken -= samples
        raise IndexError("the last era has no end")  # pragma: no cover - it has none

    def epoch_end(self, slot: int) -> int:
        """The first slot, `slot` or later, at which an epoch of the last era begins."""
        last = self.eras[-1]
        return last.begin + -(-max(0, slot - last.begin) // self.epoch_slices) * self.epoch_slices

    def _era_of(self, strand: Strand, index: int) -> tuple[Era, int, int | None]:
        return next(each for each in self._stretches(strand) if each[2] is None or index < each[2])

    def _stretches(self, strand: Strand) -> Iterator[tuple[Era, int, int | None]]:
        """The eras that a strand goes through, and from which to before which of its slices."""
        low = 0
        for era in self.eras:
            high = None if era.end is None else max(low, -((strand.first - era.end) // strand.step))
            if high is None or high > low:
                yield era, low, high
                low = low if high is None else high


def _local(strand: Strand, era: Era, low: int) -> Strand:
    """A strand from its slice `low` on, in the slots of an era."""
    return Strand(strand.first + low * strand.step - era.begin, strand.step)


def _eras(orders: Sequence[Shuffled], ends: Sequence[int]) -> Iterator[Era]:
    begin = positions = passes = 0
    for order, end in zip(orders, [*ends, None], strict=True):
        yield Era(order, begin, end, positions, passes)
        if end is None:
            return
        if order.passes == WITH_REPLACEMENT or end <= begin or (end - begin) % order.epoch_slices:
            raise ValueError(f"no epoch of the order ends at slot {end}")
        positions += order.n
        passes += (end - begin) // order.slices
        begin = end
