"""Counts of what was read from a store."""

from __future__ import annotations

from operator import add, sub
from threading import Lock
from typing import NamedTuple


class ReadCounts(NamedTuple):
    """What was read from one store, and how long reads waited for it."""

    bytes: int = 0  # received, with gaps between ranges and answers that were not used
    requests: int = 0  # for bytes, with retries and hedges
    retries: int = 0
    hedges: int = 0  # requests that were sent a second time because the first one was late
    stalled_seconds: float = 0.0  # during which a read waited for the store
    cached_bytes: int = 0  # read from the shard cache instead

    def plus(self, more: ReadCounts) -> ReadCounts:
        return ReadCounts._make(map(add, self, more))

    def minus(self, before: ReadCounts) -> ReadCounts:
        return ReadCounts._make(map(sub, self, before))


class ReadCounter:
    """Counts what several threads read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = ReadCounts()

    def add(self, counts: ReadCounts) -> None:
        with self._lock:
            self._counts = self._counts.plus(counts)

    def take(self) -> ReadCounts:
        """What was counted since the last call."""
        with self._lock:
            counts, self._counts = self._counts, ReadCounts()
        return counts
