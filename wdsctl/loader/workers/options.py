"""How a pool runs its workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.errors import UsageError
from wdsctl.loader.logs import log

Start = Literal["fork", "forkserver", "spawn"]
_STARTS = ("fork", "forkserver", "spawn")
#: The least that a ring may hold where nothing else is said, in bytes.
RING_BYTES = 64 << 20
#: And how many of the largest results seen.
RING_RESULTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """Raises UsageError for values that cannot be."""

    #: "fork": from a nursery that is forked when the pool is made. "forkserver": from a nursery in a fresh
    #: interpreter. "spawn": a fresh interpreter a worker. The last two need work that can be pickled.
    start: Start = "fork"
    #: Most bytes of shared memory a worker's ring may take; None: 64 MiB, or four of the largest results seen.
    #: It takes only as much as its results need.
    ring_bytes: int | None = None
    #: Seconds that `look` waits for a worker that gives no sign of life in one task; None: for ever.
    timeout_seconds: float | None = None
    #: The same until a worker has opened its work; None: `timeout_seconds`.
    first_timeout_seconds: float | None = None
    #: Where a line goes when a worker is replaced; None: the logger of this module, as a warning.
    log: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        if self.start not in _STARTS:
            raise UsageError(f"workers cannot be started by '{self.start}'", hint=f"give one of {', '.join(_STARTS)}")
        for name in ("ring_bytes", "timeout_seconds", "first_timeout_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name} is {value}", hint="give more than 0, or None")

    def say(self, line: str) -> None:
        (self.log or log.warning)(line)

    def patience(self, *, is_open: bool) -> float | None:
        """Seconds of silence after which a worker counts as hung."""
        if not is_open and self.first_timeout_seconds is not None:
            return self.first_timeout_seconds
        return self.timeout_seconds


def ring_limit(ring_bytes: int | None, largest_bytes: int) -> int:
    """Bytes that a ring may hold, when the largest result so far took so many."""
    return ring_bytes if ring_bytes is not None else max(RING_BYTES, RING_RESULTS * largest_bytes)
