"""When a job reads each unit of a source: the future that a cache needs for optimal eviction.

A unit is a slice of the order: `order.size` neighbouring samples. Times are draws of the job from the source, at which
the windows begin that contain a part of the unit. So a slice that two windows share is used twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.order.shuffle import ShuffledOrder

NEVER = np.iinfo(np.int64).max
HORIZON_EPOCHS = 4  # in which later uses are looked for: a lane of another node may read a unit for a while


class _EpochUses(NamedTuple):
    """The uses in one epoch: `keys` are unit << shift | time since `begin`, ascending."""

    keys: Int64Array
    begin: int
    shift: int


class UnitUses:
    """The uses of the units of a source by some lanes, which are those of one machine.

    Raises ValueError for an order without windows, and for one that is too large. Memory and time: some 16 bytes and
    100 ns per unit and epoch, when an epoch is first asked for.
    """

    def __init__(self, order: ShuffledOrder, lanes: Sequence[LaneOrder]) -> None:
        self.order = order
        self.unit_samples = order.size
        self.units = order.slices_per_pass
        self._lanes = list(lanes)
        self._shift = order.epoch_samples.bit_length()
        if order.is_direct or self.units.bit_length() + self._shift > 62:
            raise ValueError("the order has no windows, or too many")
        self._epochs: OrderedDict[int, _EpochUses] = OrderedDict()

    def next_uses(self, units: Int64Array, after: Int64Array) -> Int64Array:
        """The first use of each unit after a time; NEVER if there is none within a few epochs."""
        found = np.full(len(units), NEVER)
        if not len(units):
            return found
        first = max(0, int(after.min())) // self.order.epoch_samples
        missing = np.arange(len(units))
        last = max(0, int(after.max())) // self.order.epoch_samples + HORIZON_EPOCHS
        for epoch in range(first, last + 1):
            uses = self._uses(epoch)
            since = np.clip(after[missing] + 1 - uses.begin, 0, (1 << uses.shift) - 1)
            at = np.searchsorted(uses.keys, units[missing] << uses.shift | since)
            keys = uses.keys[np.minimum(at, len(uses.keys) - 1)] if len(uses.keys) else np.zeros(len(at), np.int64)
            is_used = (at < len(uses.keys)) & (keys >> uses.shift == units[missing])
            found[missing[is_used]] = uses.begin + (keys[is_used] & ((1 << uses.shift) - 1))
            missing = missing[~is_used]
            if not len(missing):
                break
        return found

    def trace(self, epoch: int) -> tuple[Int64Array, Int64Array]:
        """(units, times) of all uses in an epoch, in the order of time."""
        uses = self._uses(epoch)
        units, times = uses.keys >> uses.shift, uses.begin + (uses.keys & ((1 << uses.shift) - 1))
        order = np.argsort(times, kind="stable")
        return units[order], times[order]

    def _uses(self, epoch: int) -> _EpochUses:
        uses = self._epochs.get(epoch)
        if uses is None:
            begin = epoch * self.order.epoch_samples
            units, times = self._window_uses(epoch)
            keys = np.unique(units << self._shift | np.clip(times - begin, 0, (1 << self._shift) - 1))
            uses = self._epochs[epoch] = _EpochUses(keys, begin, self._shift)
            while len(self._epochs) > HORIZON_EPOCHS + 2:
                self._epochs.popitem(last=False)
        return uses

    def _window_uses(self, epoch: int) -> tuple[Int64Array, Int64Array]:
        windows = [window for lane in self._lanes for window in lane.window_starts(epoch)]
        if not windows:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        starts, stops, times = (np.concatenate(column) for column in zip(*windows, strict=True))
        by_offset = np.argsort(starts, kind="stable")
        starts, stops, times = starts[by_offset], stops[by_offset], times[by_offset]
        slices, first = self.order.slices_of_epoch(epoch)
        # Slices that begin in a window, and the slice in which a window begins.
        at = np.searchsorted(starts, first, side="right") - 1
        is_here = (at >= 0) & (first < stops[at])
        begun = slices[np.searchsorted(first, starts, side="right") - 1]
        return np.concatenate((slices[is_here], begun)), np.concatenate((times[at[is_here]], times))
