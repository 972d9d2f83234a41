"""The endless order of one source in closed form: any window of any lane costs the same, at any place.

A pass over n samples is M slices of neighbouring ones. Slots t = 0, 1, 2, ... hold one slice each. Every stretch of M
slots has the short slice (where there is one) once, at a place of its own (`short.py`); the other slots of an epoch of
k stretches hold each full slice k times, in a keyed permutation. A strand is slots first, first + step, ...: of L
lanes, lane l begins with (l, L). A window is a strand's next W slices, cut where the epoch ends, with their samples
permuted.

Why the full slices need no more than a permutation of their own: slot t is place t - ekM of epoch e = t // kM; u short
slots are before its stretch, and one more where r > q for r = t mod M. So place - u - [r > q] counts the full slots of
the epoch, and that goes through the permutation of k(M - 1) elements: element i is slice i mod (M - 1) in pass
i // (M - 1) of the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wdsctl.core.errors import UsageError
from wdsctl.core.keys import derive, derive_each, mix
from wdsctl.loader.order.permutation import MOST, permutation, permutations, permute, permute_each
from wdsctl.loader.order.short import NO_SHORTS, Shorts, keyed_places, last_place, shorts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Part of every plan and state. Raised whenever the same plan would give another order.
ORDER_VERSION = 2

AS_THEY_LIE = 0
WITH_REPLACEMENT = -1


class Strand(NamedTuple):
    """Slots first, first + step, first + 2 * step, ...; its slices are counted from 0."""

    first: int
    step: int


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """`positions`: int64, in the order they come. `passes`: int64, the same length: which pass over the source each
    belongs to, from 0 over all time; with replacement, its slot. `slices`: int64 (m, 2), what to read: rows
    [start, stop) of positions, ascending, none twice. `stop`: the strand's slice where the next window begins."""

    positions: NDArray[np.int64]
    passes: NDArray[np.int64]
    slices: NDArray[np.int64]
    stop: int


def slice_size(n: int, lanes: int, wanted: int) -> int:
    """Samples a slice: `wanted`, but few enough that each lane has eight slices a pass, where n allows it."""
    return min(wanted, max(1, n // (8 * lanes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """The order of n samples. Sizes are in samples; `seed` is a 64-bit key of its own (see `derive`).

    `passes`: so many are shuffled together, which makes an epoch; 0: samples come as they lie; -1: full slices are
    drawn with replacement, and there are no epochs. Raises UsageError for what cannot be.
    """

    n: int
    slice_samples: int
    window_samples: int
    seed: int
    passes: int

    # Samples a slice, and how many fewer in the short one. Slices: of a pass (M), full ones, of an epoch (kM), of a
    # full window (W).
    size: int = field(init=False, repr=False, compare=False)
    missing: int = field(init=False, repr=False, compare=False)
    slices: int = field(init=False, repr=False, compare=False)
    full_slices: int = field(init=False, repr=False, compare=False)
    epoch_slices: int = field(init=False, repr=False, compare=False)
    window_slices: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _refuse_nonsense(self)
        # One slice that is short would be one full slice that is smaller.
        size = min(self.slice_samples, self.n)
        slices, missing = -(-self.n // size), -self.n % size
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "missing", missing)
        object.__setattr__(self, "slices", slices)
        object.__setattr__(self, "full_slices", slices - (missing > 0))
        object.__setattr__(self, "epoch_slices", slices * max(1, self.passes))
        object.__setattr__(self, "window_slices", max(1, self.window_samples // self.slice_samples))
        if self.epoch_slices > MOST:
            raise UsageError(
                f"{self.passes} passes over {slices} slices are more than 2^62",
                hint="shuffle fewer passes together (shuffle_over_epochs_multiplier)",
            )

    def window(self, strand: Strand, start: int, slices: int = 1) -> Window:
        """The window that begins with the strand's slice `start`. Some 45 to 110 µs for 1000 samples, at slot 2^62 too.

        Where it has fewer than `slices`, windows that follow are laid after it until there are as many: that costs
        little more than one does. Raises IndexError where no window begins, and past slot 2^62.
        """
        edges = self._windows_from(strand, start, slices)
        first, step = strand
        slots = np.arange(first + start * step, first + edges[-1] * step, step)
        drawn, passes = self._drawn(slots)
        positions, sizes = self._samples(drawn)
        # Most windows are of one pass, which is then there once: a blend holds a window for each of its sources.
        of_one = passes[0] == passes[-1] and bool((passes == passes[0]).all())
        numbers = np.broadcast_to(passes[:1].copy(), positions.shape) if of_one else np.repeat(passes, sizes)
        if self.passes != AS_THEY_LIE:
            keys = derive_each(("window", self.seed), [first + edge * step for edge in edges[:-1]])
            way = permutation(positions.size, keys[0]) if len(keys) == 1 else permutations(_sums(sizes, edges), keys)
            positions, numbers = positions[way], numbers if of_one else numbers[way]
        return Window(positions, numbers, self._reads(drawn), edges[-1])

    def samples_before(self, strand: Strand, count: int) -> int:
        """How many samples the strand's first `count` slices have. About 20 µs; 2 where no slice is short."""
        _refuse_outside(strand, count)
        return count * self.size - self.missing * self._shorts(strand).before(count)

    def end_of(self, strand: Strand, index: int) -> int:
        """The slice where the window that has the strand's slice `index` ends, and the next begins."""
        return self._window_around(strand, index)[1]

    def find(self, strand: Strand, taken: int) -> tuple[int, int]:
        """The window that the strand's sample number `taken` (from 0) is in, as its first slice, and how many samples
        of that window come before it. About 25 µs at any place; 3 where no slice is short."""
        _refuse_outside(strand, taken)
        if not taken:
            return 0, 0
        lying = self._shorts(strand)
        start, _ = self._window_around(strand, lying.slice_of(taken, self.size, self.missing))
        return start, taken - start * self.size + self.missing * lying.before(start)

    def _window_around(self, strand: Strand, index: int) -> tuple[int, int]:
        """First slice and end of the window that has this slice of the strand. Plain integers, however large."""
        _refuse_outside(strand, index)
        width = self.window_slices
        if self.passes == WITH_REPLACEMENT:
            start = index // width * width
            return start, start + width
        first, step = strand
        epoch_begins = (first + index * step) // self.epoch_slices * self.epoch_slices
        begin = max(0, -((first - epoch_begins) // step))
        end = -((first - epoch_begins - self.epoch_slices) // step)
        start = begin + (index - begin) // width * width
        return start, min(start + width, end)

    def _windows_from(self, strand: Strand, start: int, slices: int) -> list[int]:
        """Where the windows from `start` on begin and, last, where they end, until they have so many slices."""
        begin, stop = self._window_around(strand, start)
        if begin != start:
            raise IndexError(f"no window begins at slice {start} of {strand}: it is inside the one from {begin}")
        if strand.first + stop * strand.step > MOST:
            raise IndexError(f"slot {strand.first + start * strand.step} is too far: slots go up to 2^62")
        edges = [start]
        while strand.first + stop * strand.step <= MOST:
            edges.append(stop)
            if stop - start >= slices:
                break
            _, stop = self._window_around(strand, stop)
        return edges

    def _shorts(self, strand: Strand) -> Shorts:
        return shorts(*strand, self.slices, self._places()) if self.missing else NO_SHORTS

    def _places(self) -> NDArray[np.int64]:
        return keyed_places(self.slices, self.seed) if self.passes != AS_THEY_LIE else last_place(self.slices)

    def _drawn(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The slices in these ascending slots, as they come, and the pass of each."""
        epochs = np.zeros_like(slots) if self.passes == WITH_REPLACEMENT else slots // self.epoch_slices
        slots = slots - epochs * self.epoch_slices
        if not self.missing:
            return self._full(slots, slots, epochs)
        stretches, rests, short_rests = self._stretches(slots, epochs)
        is_short = rests == short_rests
        turns = slots - stretches - (rests > short_rests)
        # The short slice may have the epoch's last slot, and then this is no place among the full ones.
        turns[is_short] = 0
        slices, passes = self._full(slots, turns, epochs)
        slices[is_short] = self.slices - 1
        if self.passes > 1:
            passes = np.where(is_short, stretches + epochs * self.passes, passes)
        return slices, passes

    def _stretches(
        self, slots: NDArray[np.int64], epochs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64] | int, NDArray[np.int64], NDArray[np.int64]]:
        """Of each slot of its epoch: its stretch, its place there, and the place of the short slice there."""
        places = self._places()
        if self.passes in {AS_THEY_LIE, 1}:
            return 0, slots, places[epochs % places.size]
        stretches, rests = np.divmod(slots, self.slices)
        before = epochs * max(1, self.passes) % places.size
        return stretches, rests, places[(stretches + before) % places.size]

    def _full(
        self, slots: NDArray[np.int64], turns: NDArray[np.int64], epochs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The same where every slot has a full slice; `turns` counts those of the epoch."""
        if self.passes == AS_THEY_LIE:
            return turns.copy(), epochs
        if self.passes == WITH_REPLACEMENT:
            hashes = mix(derive("draws", self.seed), slots)
            return (hashes % np.uint64(self.full_slices)).view(np.int64), slots
        elements = self._elements(turns, epochs)
        if self.passes == 1:
            return elements, epochs
        passes, slices = np.divmod(elements, self.full_slices)
        return slices, passes + epochs * self.passes

    def _elements(self, turns: NDArray[np.int64], epochs: NDArray[np.int64]) -> NDArray[np.int64]:
        """What the permutation of each one's epoch has at its turn."""
        n, epoch = self.passes * self.full_slices, int(epochs[0])
        if epoch == epochs[-1]:
            return permute(turns, n, derive("slices", self.seed, epoch))
        numbers, which = np.unique(epochs, return_inverse=True)
        return permute_each(turns, which, n, derive_each(("slices", self.seed), numbers.tolist()))

    def _samples(self, slices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The positions of these slices, slice by slice, and how many each has. Only the short one reaches past n."""
        positions = ((slices * self.size)[:, np.newaxis] + np.arange(self.size)).ravel()
        sizes = np.full(slices.size, self.size)
        if self.missing:
            sizes[slices == self.slices - 1] -= self.missing
            positions = positions[positions < self.n]
        return positions, sizes

    def _reads(self, slices: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = np.empty((slices.size, 2), dtype=np.int64)
        np.multiply(np.sort(slices), self.size, out=rows[:, 0])
        np.minimum(rows[:, 0] + self.size, self.n, out=rows[:, 1])
        return rows[np.diff(rows[:, 0], prepend=-1) > 0]


def _sums(sizes: NDArray[np.int64], edges: Sequence[int]) -> NDArray[np.int64]:
    """The samples of each window, of the samples of its slices."""
    return np.add.reduceat(sizes, np.array(edges[:-1]) - edges[0])


def _refuse_nonsense(order: Shuffled) -> None:
    if not 1 <= order.n <= MOST:
        raise UsageError(
            f"an order has 1 to 2^62 samples, not {order.n}",
            hint="look at the split and the filters: nothing, or far too much, is selected",
        )
    for name, least in (("slice_samples", 1), ("window_samples", 1), ("passes", WITH_REPLACEMENT)):
        value = getattr(order, name)
        if value < least:
            raise UsageError(f"{name} must be at least {least}, not {value}", hint="leave it out to get the default")


def _refuse_outside(strand: Strand, number: int) -> None:
    if strand.first < 0 or strand.step < 1:
        raise IndexError(f"{strand} is no strand: slots count from 0, and it goes forward")
    if number < 0:
        raise IndexError(f"there is no number {number} in a strand: they count from 0")
