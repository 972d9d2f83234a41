"""The options of a pool, and what it runs: `TaskRunner` and its factory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from wdsctl.core.errors import UsageError
from wdsctl.loader.runtime.logs import logger

#: `WorkerConfig` checks the value.
StartMethod = Literal["fork", "forkserver", "spawn"]
#: The minimum of the default limit of a ring, in bytes.
MIN_RING_BYTES = 64 << 20
#: The minimum of the default limit of a ring, in results of the largest size seen.
MIN_RING_RESULTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How a pool runs its workers. Raises UsageError for impossible values."""

    #: "fork": from a fork server that is forked when the pool is created. "forkserver": from a fork server in a fresh
    #: interpreter. "spawn": a fresh interpreter per worker. The last two need a runner factory that can be pickled.
    start_method: StartMethod = "fork"
    #: Shared memory that a worker's ring may take at most; None: 64 MiB, or four of the largest results seen.
    #: It takes only as much as its results need.
    ring_bytes: int | None = None
    #: Seconds that `peek` waits for a worker without a heartbeat in one task; None: forever.
    timeout_seconds: float | None = None
    #: The same until a worker has opened its runner; None: `timeout_seconds`.
    first_timeout_seconds: float | None = None
    #: Receives a line when a worker is replaced; None: the log, as a warning.
    log: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        for name in ("ring_bytes", "timeout_seconds", "first_timeout_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name} is {value}", hint="pass a number above 0, or None")

    def log_line(self, line: str) -> None:
        (self.log or logger.warning)(line)

    def hang_timeout_seconds(self, *, is_open: bool) -> float | None:
        """Seconds of silence after which a worker counts as hung."""
        if not is_open and self.first_timeout_seconds is not None:
            return self.first_timeout_seconds
        return self.timeout_seconds


def ring_limit_bytes(ring_bytes: int | None, largest_result_bytes: int) -> int:
    """Bytes that a ring may hold, if the largest result so far took `largest_result_bytes`."""
    return ring_bytes if ring_bytes is not None else max(MIN_RING_BYTES, MIN_RING_RESULTS * largest_result_bytes)


class TaskRunner(Protocol):
    """Lives in a worker process. It may keep anything between tasks: the tasks of one worker come in order."""

    def run_task(self, task: Any) -> Any:
        """The result of one task. What it raises is raised by `WorkerPool.peek`."""

    def close(self) -> None:
        """Release resources: the worker ends, or reopens its runner at another state."""


#: Opens the runner of one worker, in that worker: (worker index, its resume state).
TaskRunnerFactory = Callable[[int, Any], TaskRunner]
