"""Finite passes, of validations and of trainings with repeat=False: the positions of a pass in ranges of one batch.

Range b of a pass covers positions [b * batch_size, (b + 1) * batch_size) of its order; the last range may be shorter. A
loader's position is (pass, ranges drawn), from which any number of ranks can continue.
"""

from __future__ import annotations

from dataclasses import dataclass

from wdsctl.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class BatchRanges:
    """One pass over n samples (0: an empty pass) in ranges of `batch_size`. `drop_last` drops a short last range."""

    n: int
    batch_size: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.n < 0 or self.batch_size < 1:
            raise UsageError(
                f"a pass of {self.n} samples with batch size {self.batch_size}: expected 0 or more samples and a "
                "batch size of 1 or more",
                hint="pass a batch size of 1 or more",
            )

    @property
    def batches(self) -> int:
        """Ranges in a pass."""
        return self.n // self.batch_size if self.drop_last else -(-self.n // self.batch_size)

    def batch_range(self, number: int) -> tuple[int, int]:
        """Positions [start, stop) of a range. Raises IndexError past the end of the pass."""
        if not 0 <= number < self.batches:
            raise IndexError(f"batch {number} is out of range for a pass of {self.batches} batches")
        return number * self.batch_size, min((number + 1) * self.batch_size, self.n)
