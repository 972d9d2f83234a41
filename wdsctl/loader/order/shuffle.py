"""The endless order of one source in closed form: any window of any epoch costs the same.

An epoch is k passes over n samples shuffled together (k is 1 by default). A pass has M slices of neighbouring samples.
An epoch has kM slots with one slice each. Each stretch of M slots has the short slice (if there is one) once, at a
keyed position; the other slots have each full slice k times, in a keyed permutation. Concatenated, the slices of an
epoch give each of its samples an *offset*. Lanes divide the offsets (`lanes/lane_order.py`), and a window is a range of
offsets with its samples permuted.

If there is a short slice, the full slices have their own permutation, of k(M - 1) elements. Let q be the short slot of
stretch j. Slot j * M + r has the short slice if r = q; otherwise, j * (M - 1) + r - [r > q] full slots precede it, and
this number is the position in the permutation. Element i of the permutation is slice i mod (M - 1) in pass i // (M - 1)
of the epoch.

A source so small that windows of lanes would have only a few samples has no windows: each sample is a slice
(`is_direct`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wdsctl.core.errors import UsageError
from wdsctl.core.hashing import derive_seed, derive_seeds, hash_one_value, hash_values
from wdsctl.loader.order.permutation import MAX_ELEMENTS, permutation, permute, permute_each
from wdsctl.loader.order.repeats import remove_repeats

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Part of every plan and state. Raised by every change after which the same plan has another order.
ORDER_VERSION = 1

UNSHUFFLED = 0
WITH_REPLACEMENT = -1

MIN_WINDOWED_BATCHES = 4  # an order has no windows if lanes have fewer batches in an epoch,
MIN_WINDOWED_SAMPLES = 64  # or fewer samples


class SamplePositions(NamedTuple):
    """`positions`, `passes`: int64, of the same length. A sample's pass is the number of the pass over the source,
    counted from 0 over all epochs; with replacement, the number of its slot."""

    positions: NDArray[np.int64]
    passes: NDArray[np.int64]


def slice_size(n: int, lanes: int, target: int) -> int:
    """Samples per slice: `target`, or fewer so that each lane has eight slices per pass, if n allows it."""
    return min(target, max(1, n // (8 * lanes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledOrder:
    """The order of n samples. Sizes are in samples. `seed`: a 64-bit seed of this order alone (see `derive_seed`).

    `passes`: the number of passes that are shuffled together into one epoch; 0: samples are in the order of the
    dataset; -1: full slices are drawn with replacement, and an epoch has as many draws as there are full slices.
    `lanes`: the number with which the job began. `turn_samples`: samples that a lane draws before the next lane's turn.
    `max_batch_samples`: the maximum number of samples of the source in one batch, which must not contain a sample
    twice. Raises UsageError for impossible values.
    """

    n: int
    slice_samples: int
    window_samples: int
    seed: int
    passes: int
    lanes: int = 1
    turn_samples: int = 1
    max_batch_samples: int = 1

    # size: samples of a full slice; the short slice has `short_by` fewer. slices_per_pass: M. is_direct: no windows.
    size: int = field(init=False, repr=False, compare=False)
    short_by: int = field(init=False, repr=False, compare=False)
    slices_per_pass: int = field(init=False, repr=False, compare=False)
    full_slices_per_pass: int = field(init=False, repr=False, compare=False)
    epoch_samples: int = field(init=False, repr=False, compare=False)
    window_size: int = field(init=False, repr=False, compare=False)
    is_direct: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_order(self)
        # A single short slice counts as a smaller full slice.
        size = min(self.slice_samples, self.n)
        full = self.n // size
        is_small = self.n < self.lanes * max(MIN_WINDOWED_BATCHES * self.max_batch_samples, MIN_WINDOWED_SAMPLES)
        is_direct = self.passes == UNSHUFFLED or is_small
        # With replacement, only full slices are drawn. The draws are endless, so an epoch is n // size of them.
        draws_slices = self.passes == WITH_REPLACEMENT and not is_direct
        missing = 0 if draws_slices else -self.n % size
        values = {
            "size": size,
            "short_by": missing,
            "slices_per_pass": full + (missing > 0),
            "full_slices_per_pass": full,
            "epoch_samples": full * size if draws_slices else self.n * max(1, self.passes),
            "window_size": max(1, self.window_samples // size) * size,
            "is_direct": is_direct,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.epoch_samples > MAX_ELEMENTS:
            raise UsageError(
                f"{self.passes} epochs of {self.n} samples, shuffled together, exceed the limit of 2^62 samples",
                hint="shuffle fewer epochs together: lower shuffle_over_epochs_multiplier",
            )

    @property
    def avoids_repeats(self) -> bool:
        """Whether batches across the end of an epoch contain no sample twice. False if an epoch mixes passes anyway."""
        return self.passes == 1 and self.max_batch_samples > 1

    def direct_samples(
        self, epochs: NDArray[np.int64], offsets: NDArray[np.int64], draws_before: int
    ) -> SamplePositions:
        """The samples at these offsets of these epochs, in an order without windows. `epochs` ascend.

        `draws_before`: the number of draws before epoch 0, which determines where turns end in an epoch. Some 60 us per
        call, 20 ns per sample, and 50 us per epoch that begins within a turn.
        """
        if self.passes == UNSHUFFLED:
            return SamplePositions(offsets, epochs)
        if self.passes == WITH_REPLACEMENT:
            draws = epochs * self.epoch_samples + offsets
            hashes = hash_values(derive_seed("draws", self.seed), draws)
            return SamplePositions((hashes % np.uint64(self.n)).view(np.int64), draws)
        numbers, which = np.unique(epochs, return_inverse=True)
        keys = derive_seeds(("samples", self.seed), numbers.tolist())
        if len(keys) == 1:
            elements = permute(offsets, self.epoch_samples, keys[0])
        else:
            elements = permute_each(offsets, which, self.epoch_samples, keys)
        if self.avoids_repeats and 1 < self.turn_samples <= self.n:
            remove_repeats(elements, epochs, offsets, self, draws_before)
        if self.passes == 1:
            return SamplePositions(elements, epochs)
        passes, positions = np.divmod(elements, self.n)
        return SamplePositions(positions, passes + epochs * self.passes)

    def window(self, epoch: int, start: int, stop: int) -> SamplePositions:
        """The samples with the offsets [start, stop) of an epoch, shuffled.

        Some 45 to 110 us for 1000 samples, in any epoch.
        """
        first = self._slot_of(epoch, start)
        slots = np.arange(first, self._slot_of(epoch, stop - 1) + 1)
        slices, passes = self._slices_in_slots(epoch, slots)
        positions = ((slices * self.size)[:, np.newaxis] + np.arange(self.size)).ravel()
        numbers = np.repeat(passes, self.size) if passes.size > 1 else passes
        if self.short_by:  # only the short slice extends past n
            there = positions < self.n
            positions = positions[there]
            numbers = numbers[there] if numbers.size > 1 else numbers
        skipped = start - self._slot_start(epoch, first)
        way = skipped + permutation(stop - start, derive_seed("window", self.seed, epoch, start))
        return SamplePositions(
            positions[way], numbers[way] if numbers.size > 1 else np.broadcast_to(numbers, way.shape)
        )

    def slices_of_epoch(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The slices of an epoch in their order, and the first offset of each."""
        slots = np.arange(
            self.epoch_samples // self.n * self.slices_per_pass if self.passes > 0 else self.slices_per_pass
        )
        slices, _ = self._slices_in_slots(epoch, slots)
        sizes = np.full(len(slots), self.size)
        if self.short_by:
            sizes[slices == self.slices_per_pass - 1] -= self.short_by
        return slices, np.cumsum(sizes) - sizes

    def _slices_in_slots(self, epoch: int, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The slices in these slots of an epoch, and the pass of each slice; a single pass if all have the same."""
        if self.passes == WITH_REPLACEMENT:
            slots = slots + epoch * self.slices_per_pass
            hashes = hash_values(derive_seed("draws", self.seed), slots)
            return (hashes % np.uint64(self.full_slices_per_pass)).view(np.int64), slots
        turns, stretches, is_short = slots, None, None
        if self.short_by:
            stretches, rests = np.divmod(slots, self.slices_per_pass)
            shorts = self._short_slots(epoch * self.passes + stretches)
            is_short = rests == shorts
            turns = stretches * self.full_slices_per_pass + rests - (rests > shorts)
            # If the short slice has the epoch's last slot, its number is past the end of the full slices.
            turns[is_short] = 0
        elements = permute(turns, self.passes * self.full_slices_per_pass, derive_seed("slices", self.seed, epoch))
        passes, slices = (
            (np.zeros(1, np.int64), elements) if self.passes == 1 else np.divmod(elements, self.full_slices_per_pass)
        )
        if is_short is not None and stretches is not None:
            slices[is_short] = self.slices_per_pass - 1
            if self.passes > 1:
                passes[is_short] = stretches[is_short]
        return slices, passes + epoch * self.passes

    def _slot_of(self, epoch: int, offset: int) -> int:
        """The slot of an epoch that contains this offset."""
        if not self.short_by:
            return offset // self.size
        stretch, rest = divmod(offset, self.n)
        short = self._short_slot(epoch, stretch)
        slot = rest // self.size
        if slot >= short:  # the short slice is in this slot or an earlier one
            slot = short if rest < (short + 1) * self.size - self.short_by else (rest + self.short_by) // self.size
        return stretch * self.slices_per_pass + slot

    def _slot_start(self, epoch: int, slot: int) -> int:
        """The offset at which a slot of an epoch begins."""
        if not self.short_by:
            return slot * self.size
        stretch, rest = divmod(slot, self.slices_per_pass)
        return stretch * self.n + rest * self.size - (self.short_by if rest > self._short_slot(epoch, stretch) else 0)

    def _short_slot(self, epoch: int, stretch: int) -> int:
        number = epoch * self.passes + stretch
        return hash_one_value(derive_seed("short", self.seed), number) % self.slices_per_pass

    def _short_slots(self, passes: NDArray[np.int64]) -> NDArray[np.int64]:
        return (hash_values(derive_seed("short", self.seed), passes) % np.uint64(self.slices_per_pass)).view(np.int64)


def _check_order(order: ShuffledOrder) -> None:
    if not 1 <= order.n <= MAX_ELEMENTS:
        raise UsageError(
            f"cannot order {order.n} samples: expected 1 to 2^62",
            hint="check which samples the split and the filters select",
        )
    for name in ("slice_samples", "window_samples", "passes", "lanes", "turn_samples", "max_batch_samples"):
        value, least = getattr(order, name), WITH_REPLACEMENT if name == "passes" else 1
        if value < least:
            raise UsageError(f"{name} must be at least {least}, not {value}", hint=f"omit {name} for the default")
