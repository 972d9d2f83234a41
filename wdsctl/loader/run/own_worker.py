"""Hooks of a loader without workers that is used in a thread: they run in a worker process, because all threads share
the random generators of this process. One call in such a worker, and the log line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from wdsctl.loader.run.transport import compact_batch, expand_batch
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.workers.options import PoolOptions
from wdsctl.loader.workers.pool import WorkerPool


@cache
def log_own_worker() -> None:
    """Log once that hooks run in a worker process that was not requested."""
    logger.warning(
        "a loader is used in a thread, so its hooks run in a worker process, because all threads share the random "
        "generators of this process; to silence this warning, pass WorkerConfig(num_workers=1) or more, and call "
        "loader.start() in the main thread"
    )


def call_in_worker(call: Callable[[], Any], sources: Sequence[Any], options: PoolOptions) -> Any:
    """What a call returns (a sample or a batch) in a process that is forked for it. Raises what it raises.

    `sources`: of the loader, by number.
    """
    with WorkerPool(lambda *_: _CallRunner(call), lambda _: None, worker_count=1, options=options) as pool:
        pool.submit(0, None)
        pool.send()
        return expand_batch(pool.peek(0), sources)


class _CallRunner:
    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def run_task(self, task: Any) -> Any:  # noqa: ARG002 - there is one task
        return compact_batch(self._call())

    def close(self) -> None:
        """Do nothing: the process ends with the call."""
