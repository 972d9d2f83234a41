"""Finite passes, for validation: neighbouring positions in runs of one batch, every pass the same.

Run b of a pass covers positions [b * size, (b + 1) * size), the last one what is left; lane l has runs l, l + L, ...
There are ceil(n / size) runs whatever the number of lanes, and run b holds the same samples whatever it is.

A pass ends, and the next one begins with run 0 on lane 0 again, however many lanes were left without a run: the order
knows no passes. A loader's place is therefore (pass, runs drawn in it), which it can go on from with any other number
of lanes, ranks and workers. Windows are numbered within the pass, `windows_of(lane)` says where a lane ends, and the
epoch is always 0, so that what is keyed by it (a random crop in a hook) is the same in every pass too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wdsctl.core.errors import UsageError
from wdsctl.loader.order.shuffle import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Runs:
    """One pass over n samples (0 are allowed: an empty pass) in runs of `size`; `drop_last` leaves a short one out."""

    n: int
    size: int
    lanes: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.n < 0 or self.size < 1 or self.lanes < 1:
            raise UsageError(
                f"a pass needs samples, a batch size and lanes, not {self.n}, {self.size} and {self.lanes}",
                hint="Give a batch size of at least 1.",
            )

    @property
    def batches(self) -> int:
        """Runs in a pass, over all lanes."""
        return self.n // self.size if self.drop_last else -(-self.n // self.size)

    def windows_of(self, lane: int) -> int:
        """How many runs of a pass the lane has: none, where there are more lanes than batches."""
        self._guard(lane)
        return -((lane - self.batches) // self.lanes)

    def batch(self, number: int) -> tuple[int, int]:
        """Positions [start, stop) of a run. Raises IndexError past the end of the pass."""
        if not 0 <= number < self.batches:
            raise IndexError(f"there is no batch {number} in a pass of {self.batches}")
        return number * self.size, min((number + 1) * self.size, self.n)

    def window(self, lane: int, number: int) -> Window:
        """The lane's run of this number, from 0 up to `windows_of(lane)`, where the pass is over: IndexError."""
        return Window(epoch=0, positions=np.arange(*self.batch(self._run(lane, number))))

    def slices_of(self, lane: int, number: int) -> NDArray[np.int64]:
        """What the run reads: int64 (1, 2), its [start, stop)."""
        return np.array([self.batch(self._run(lane, number))], dtype=np.int64)

    def _run(self, lane: int, number: int) -> int:
        self._guard(lane)
        if number < 0:
            raise IndexError(f"there is no window {number}: they count from 0")
        return lane + number * self.lanes

    def _guard(self, lane: int) -> None:
        if not 0 <= lane < self.lanes:
            raise IndexError(f"there is no lane {lane}: the lanes are 0 to {self.lanes - 1}")
