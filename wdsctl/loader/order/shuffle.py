"""The endless order of one source, dealt to lanes, in closed form: any window of any lane costs the same.

An epoch is M slices of neighbouring positions, the last one possibly short. They come in a keyed permutation, epoch
after epoch, as slices t = 0, 1, 2, ...; of L lanes, lane l has t = l, l + L, l + 2L, ... A window is a lane's next W
slices, cut where the epoch ends, with the samples in it permuted. Nothing has to be remembered but a window's number.

Why there is a closed form. Lane l has slice t = l + kL in epoch e for k0(e) <= k < k0(e + 1), where
k0(e) = ceil((eM - l) / L): that is floor(M / L) slices, or one more for M mod L of the lanes. So in each epoch all
lanes together have D windows, whatever the epoch: D = L ceil(floor(M / L) / W), and M mod L more where one more slice
needs one more window. The extra windows fall to the same lanes as the extra slices, so windows are dealt as slices
are: ceil((eD - l) / L) of lane l's windows come before epoch e, and window w of lane l is in epoch
floor((wL + l) / D).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wdsctl.core.errors import UsageError
from wdsctl.core.keys import derive
from wdsctl.loader.order.permutation import MOST, permutation, permute

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Part of every plan and state. Raised whenever the same plan would give another order.
ORDER_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """`positions`: int64, in the order they come. `epoch` counts passes over the source, from 0."""

    epoch: int
    positions: NDArray[np.int64]


def slice_size(n: int, lanes: int, wanted: int) -> int:
    """Samples a slice: `wanted`, but few enough that each lane has eight slices an epoch, where n allows it."""
    return min(wanted, max(1, n // (8 * lanes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """The order of n samples. Sizes are in samples; `seed` is a 64-bit key of its own (see `derive`).

    Without `shuffle` slices come as they lie and windows keep their order.
    """

    n: int
    lanes: int
    slice_samples: int
    window_samples: int
    seed: int
    shuffle: bool = True

    # Of an epoch: slices (M), windows of all lanes together (D). Of a full window: slices (W).
    slices: int = field(init=False, repr=False, compare=False)
    windows: int = field(init=False, repr=False, compare=False)
    window_slices: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _refuse_nonsense(self)
        slices = -(-self.n // self.slice_samples)
        width = max(1, self.window_samples // self.slice_samples)
        few, lanes_with_more = divmod(slices, self.lanes)
        windows = self.lanes * -(-few // width)
        if few % width == 0:
            windows += lanes_with_more
        object.__setattr__(self, "slices", slices)
        object.__setattr__(self, "windows", windows)
        object.__setattr__(self, "window_slices", width)

    def window(self, lane: int, number: int) -> Window:
        """The lane's window of this number (from 0). Some 40 to 70 µs for 1000 samples, at window 10^12 too.

        Raises IndexError for a lane or a number that there is not.
        """
        epoch, slices = self._slices(lane, number)
        positions = self._positions(slices)
        if self.shuffle:
            key = derive("window", self.seed, lane, number)
            positions = positions[permutation(positions.size, key)]
        return Window(epoch, positions)

    def slices_of(self, lane: int, number: int) -> NDArray[np.int64]:
        """What the window reads: int64 (slices, 2), rows [start, stop) of positions, ascending, none empty."""
        _, slices = self._slices(lane, number)
        starts = np.sort(slices) * self.slice_samples
        return np.stack((starts, np.minimum(starts + self.slice_samples, self.n)), axis=1)

    def windows_before(self, lane: int, epoch: int) -> int:
        """How many windows the lane has in the epochs before this one: the number of its first window there, if any."""
        self._guard(lane, epoch, "epoch")
        return -((lane - epoch * self.windows) // self.lanes)

    def epoch_of(self, lane: int, number: int) -> int:
        """The epoch that the lane's window of this number is in."""
        self._guard(lane, number, "window")
        return (number * self.lanes + lane) // self.windows

    def _slices(self, lane: int, number: int) -> tuple[int, NDArray[np.int64]]:
        """The window's epoch, and its slices as they come."""
        epoch = self.epoch_of(lane, number)
        before = epoch * self.slices
        # k counts the lane's slices from the beginning of time; these are plain integers, however large.
        k = -((lane - before) // self.lanes) + (number - self.windows_before(lane, epoch)) * self.window_slices
        k_end = min(k + self.window_slices, -((lane - before - self.slices) // self.lanes))
        first = lane + k * self.lanes - before
        turns = np.arange(first, first + (k_end - k) * self.lanes, self.lanes)
        if not self.shuffle:
            return epoch, turns
        return epoch, permute(turns, self.slices, derive("slices", self.seed, epoch))

    def _positions(self, slices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The samples of these slices, slice by slice. Only the very last slice can reach past n."""
        starts = slices * self.slice_samples
        positions = (starts[:, np.newaxis] + np.arange(self.slice_samples)).ravel()
        return positions[positions < self.n] if self.n % self.slice_samples else positions

    def _guard(self, lane: int, number: int, what: str) -> None:
        if not 0 <= lane < self.lanes:
            raise IndexError(f"there is no lane {lane}: the lanes are 0 to {self.lanes - 1}")
        if number < 0:
            raise IndexError(f"there is no {what} {number}: they count from 0")


def _refuse_nonsense(order: Shuffled) -> None:
    if not 1 <= order.n <= MOST:
        raise UsageError(
            f"an order has 1 to 2^62 samples, not {order.n}",
            hint="Look at the split and the filters: nothing, or far too much, is selected.",
        )
    for name in ("lanes", "slice_samples", "window_samples"):
        value = getattr(order, name)
        if value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}", hint="Leave it out to get the default.")
