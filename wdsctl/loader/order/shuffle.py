"""The endless order of one source in closed form: any window of any epoch costs the same.

An epoch is k passes over n samples shuffled together (k is 1 unless somebody asks for more). A pass is M slices of
neighbouring samples; an epoch has kM slots, each with one slice. Every M slots have the short slice (where there is
one) once, at a keyed place; the other slots hold each full slice k times, in a keyed permutation. Laid end to end, the
slices of an epoch give each of its samples an *offset*: that is what lanes share out (`lane_order.py`), and a window is
a range of offsets with its samples permuted.

Why the full slices need no more than a permutation of their own: slot j * M + r has the short slice where r = q, the
short place of stretch j, and otherwise j * (M - 1) + r - [r > q] full slots come before it. That goes through the
permutation of k(M - 1) elements: element i is slice i mod (M - 1) in pass i // (M - 1) of the epoch.

A source so small that lanes would have windows of a few samples has none: each sample is a slice (`direct`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wdsctl.core.errors import UsageError
from wdsctl.core.keys import derive, derive_each, mix, mix_one
from wdsctl.loader.order.permutation import MOST, permutation, permute, permute_each
from wdsctl.loader.order.small import without_repeats

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Part of every plan and state. Raised whenever the same plan would give another order.
ORDER_VERSION = 3

AS_THEY_LIE = 0
WITH_REPLACEMENT = -1

FEW_BATCHES = 4  # a lane that has fewer in an epoch gets no windows of its own,
FEW_SAMPLES = 64  # and neither does one that has fewer samples


class Samples(NamedTuple):
    """`positions`: int64, in the order they come. `passes`: int64, the same length: which pass over the source each
    belongs to, from 0 over all time; with replacement, its slot."""

    positions: NDArray[np.int64]
    passes: NDArray[np.int64]


def slice_size(n: int, lanes: int, wanted: int) -> int:
    """Samples a slice: `wanted`, but few enough that each lane has eight slices a pass, where n allows it."""
    return min(wanted, max(1, n // (8 * lanes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """The order of n samples. Sizes are in samples; `seed` is a 64-bit key of its own (see `derive`).

    `passes`: so many are shuffled together, which makes an epoch; 0: samples come as they lie; -1: full slices are
    drawn with replacement, and an epoch is as many as there are. `lanes`: how many the job began with. `turn`: how many
    samples a lane draws before it is the next one's turn. `apart`: at most so many samples of the source are in one
    batch, which must not hold one twice. Raises UsageError for what cannot be.
    """

    n: int
    slice_samples: int
    window_samples: int
    seed: int
    passes: int
    lanes: int = 1
    turn: int = 1
    apart: int = 1

    # Samples a slice, and how many fewer in the short one. Slices of a pass (M), and full ones. Samples of an epoch,
    # and of a window. Whether there are no windows.
    size: int = field(init=False, repr=False, compare=False)
    missing: int = field(init=False, repr=False, compare=False)
    slices: int = field(init=False, repr=False, compare=False)
    full_slices: int = field(init=False, repr=False, compare=False)
    epoch_samples: int = field(init=False, repr=False, compare=False)
    width: int = field(init=False, repr=False, compare=False)
    is_direct: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _refuse_nonsense(self)
        # One slice that is short would be one full slice that is smaller.
        size = min(self.slice_samples, self.n)
        full = self.n // size
        is_small = self.n < self.lanes * max(FEW_BATCHES * self.apart, FEW_SAMPLES)
        is_direct = self.passes == AS_THEY_LIE or is_small
        # What is drawn with replacement are full slices; they have no end, and an epoch is a number of them.
        draws_slices = self.passes == WITH_REPLACEMENT and not is_direct
        missing = 0 if draws_slices else -self.n % size
        values = {
            "size": size,
            "missing": missing,
            "slices": full + (missing > 0),
            "full_slices": full,
            "epoch_samples": full * size if draws_slices else self.n * max(1, self.passes),
            "width": max(1, self.window_samples // size) * size,
            "is_direct": is_direct,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.epoch_samples > MOST:
            raise UsageError(
                f"{self.passes} passes over {self.n} samples are more than 2^62",
                hint="shuffle fewer passes together (shuffle_over_epochs_multiplier)",
            )

    @property
    def keeps_apart(self) -> bool:
        """Whether a batch across the end of an epoch holds no sample twice: not where passes are mixed anyway."""
        return self.passes == 1 and self.apart > 1

    def direct(self, epochs: NDArray[np.int64], offsets: NDArray[np.int64], before: int) -> Samples:
        """The samples at these offsets of these epochs, which ascend, of an order without windows.

        `before`: how many draws came before epoch 0, which says where turns end in an epoch. Some 60 us a call, 20 ns a
        sample, and 50 us an epoch that begins inside of a turn.
        """
        if self.passes == AS_THEY_LIE:
            return Samples(offsets, epochs)
        if self.passes == WITH_REPLACEMENT:
            draws = epochs * self.epoch_samples + offsets
            hashes = mix(derive("draws", self.seed), draws)
            return Samples((hashes % np.uint64(self.n)).view(np.int64), draws)
        numbers, which = np.unique(epochs, return_inverse=True)
        keys = derive_each(("samples", self.seed), numbers.tolist())
        if len(keys) == 1:
            elements = permute(offsets, self.epoch_samples, keys[0])
        else:
            elements = permute_each(offsets, which, self.epoch_samples, keys)
        if self.keeps_apart and 1 < self.turn <= self.n:
            without_repeats(elements, epochs, offsets, self, before)
        if self.passes == 1:
            return Samples(elements, epochs)
        passes, positions = np.divmod(elements, self.n)
        return Samples(positions, passes + epochs * self.passes)

    def window(self, epoch: int, start: int, stop: int) -> Samples:
        """The samples with the offsets [start, stop) of an epoch, shuffled among each other.

        Some 45 to 110 us for 1000 samples, in any epoch.
        """
        first = self._slot_of(epoch, start)
        slots = np.arange(first, self._slot_of(epoch, stop - 1) + 1)
        slices, passes = self._drawn(epoch, slots)
        positions = ((slices * self.size)[:, np.newaxis] + np.arange(self.size)).ravel()
        numbers = np.repeat(passes, self.size) if passes.size > 1 else passes
        if self.missing:  # only the short slice reaches past n
            there = positions < self.n
            positions = positions[there]
            numbers = numbers[there] if numbers.size > 1 else numbers
        skipped = start - self._start_of(epoch, first)
        way = skipped + permutation(stop - start, derive("window", self.seed, epoch, start))
        return Samples(positions[way], numbers[way] if numbers.size > 1 else np.broadcast_to(numbers, way.shape))

    def _drawn(self, epoch: int, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The slices in these slots of an epoch, and the pass of each; one pass where it is that of all."""
        if self.passes == WITH_REPLACEMENT:
            slots = slots + epoch * self.slices
            hashes = mix(derive("draws", self.seed), slots)
            return (hashes % np.uint64(self.full_slices)).view(np.int64), slots
        turns, stretches, is_short = slots, None, None
        if self.missing:
            stretches, rests = np.divmod(slots, self.slices)
            shorts = self._short_places(epoch * self.passes + stretches)
            is_short = rests == shorts
            turns = stretches * self.full_slices + rests - (rests > shorts)
            # The short slice may have the epoch's last slot, and then this is no place among the full ones.
            turns[is_short] = 0
        elements = permute(turns, self.passes * self.full_slices, derive("slices", self.seed, epoch))
        passes, slices = (
            (np.zeros(1, np.int64), elements) if self.passes == 1 else np.divmod(elements, self.full_slices)
        )
        if is_short is not None and stretches is not None:
            slices[is_short] = self.slices - 1
            if self.passes > 1:
                passes[is_short] = stretches[is_short]
        return slices, passes + epoch * self.passes

    def _slot_of(self, epoch: int, offset: int) -> int:
        """The slot of an epoch that has this offset."""
        if not self.missing:
            return offset // self.size
        stretch, rest = divmod(offset, self.n)
        short = self._short_place(epoch, stretch)
        slot = rest // self.size
        if slot >= short:  # the short slice is in this slot, or before it
            slot = short if rest < (short + 1) * self.size - self.missing else (rest + self.missing) // self.size
        return stretch * self.slices + slot

    def _start_of(self, epoch: int, slot: int) -> int:
        """The offset with which a slot of an epoch begins."""
        if not self.missing:
            return slot * self.size
        stretch, rest = divmod(slot, self.slices)
        return stretch * self.n + rest * self.size - (self.missing if rest > self._short_place(epoch, stretch) else 0)

    def _short_place(self, epoch: int, stretch: int) -> int:
        number = epoch * self.passes + stretch
        return mix_one(derive("short", self.seed), number) % self.slices

    def _short_places(self, passes: NDArray[np.int64]) -> NDArray[np.int64]:
        return (mix(derive("short", self.seed), passes) % np.uint64(self.slices)).view(np.int64)


def _refuse_nonsense(order: Shuffled) -> None:
    if not 1 <= order.n <= MOST:
        raise UsageError(
            f"an order has 1 to 2^62 samples, not {order.n}",
            hint="look at the split and the filters: nothing, or far too much, is selected",
        )
    for name in ("slice_samples", "window_samples", "passes", "lanes", "turn", "apart"):
        value, least = getattr(order, name), WITH_REPLACEMENT if name == "passes" else 1
        if value < least:
            raise UsageError(f"{name} must be at least {least}, not {value}", hint="leave it out to get the default")
