"""Finite passes, of validations and of trainings with repeat=False: the places of a pass in runs of one batch.

Run b of a pass covers places [b * size, (b + 1) * size) of its order, the last one what is left. Which rank draws a run
is no part of it: a loader's place is (pass, runs drawn), from which any number of ranks goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from wdsctl.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Runs:
    """One pass over n samples (0 are allowed: an empty pass) in runs of `size`; `drop_last` leaves a short one out."""

    n: int
    size: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.n < 0 or self.size < 1:
            raise UsageError(
                f"a pass needs samples and a batch size, not {self.n} and {self.size}",
                hint="give a batch size of at least 1",
            )

    @property
    def batches(self) -> int:
        """Runs in a pass."""
        return self.n // self.size if self.drop_last else -(-self.n // self.size)

    def batch(self, number: int) -> tuple[int, int]:
        """Positions [start, stop) of a run. Raises IndexError past the end of the pass."""
        if not 0 <= number < self.batches:
            raise IndexError(f"there is no batch {number} in a pass of {self.batches}")
        return number * self.size, min((number + 1) * self.size, self.n)
