"""What a loader has done so far: exact counts, and the seconds each stage took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Counts since this loader was made; a restored loader counts from zero again."""

    batches: int = 0
    samples: int = 0  # that went into batches
    skipped: int = 0  # by SkipSample
    load_seconds: float = 0.0  # reading, decoding and building samples
    encode_seconds: float = 0.0  # in encode_sample
    batch_seconds: float = 0.0  # in batch and encode_batch

    @contextmanager
    def as_before_if_it_fails(self) -> Iterator[None]:
        """The counts, if the block does not come to its end: what it counted will be done, and counted, again."""
        before = self.batches, self.samples, self.skipped
        try:
            yield
        except BaseException:  # Ctrl-C too: an interrupted batch is drawn again, and must not count twice
            self.batches, self.samples, self.skipped = before
            raise
