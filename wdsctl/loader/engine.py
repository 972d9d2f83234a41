"""Who does the drawing: this process, or worker processes that run ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from wdsctl.loader.workers import OpenWork, Pool, PoolOptions, Work


class Engine(Protocol):
    def draw(self, turn: int) -> Any:
        """What the task of this turn gives. Turns come in order; one that raised is asked for again."""

    def start(self) -> None:
        """Start now what would be started by the first turn."""

    def again(self, last: int | None) -> bool:
        """Count turns from 0 again, up to `last`; False where that cannot be, and another engine is needed."""

    def close(self) -> None: ...


class InProcess:
    """Every turn is done when it is asked for."""

    def __init__(self, work: Work, task_of: Callable[[int], Any]) -> None:
        self._work = work
        self._task_of = task_of

    def draw(self, turn: int) -> Any:
        return self._work.do(self._task_of(turn))

    def start(self) -> None:
        """There is nothing to start."""

    def again(self, last: int | None) -> bool:  # noqa: ARG002 - nothing is made ahead here
        return True

    def close(self) -> None:
        self._work.close()


class Ahead:
    """Workers that are `depth` turns each ahead of what was asked for. Turn t is done by worker `worker_of(t)`.

    `noted(turn, result)` is told of every result as it comes, so that `resume(worker)` can say where a worker that
    begins again begins. `arrived(result)` makes of a result that travelled what it was.
    """

    def __init__(
        self,
        open_work: OpenWork,
        resume: Callable[[int], Any],
        task_of: Callable[[int], Any],
        worker_of: Callable[[int], int],
        noted: Callable[[int, Any], None],
        *,
        workers: int,
        depth: int,
        last: int | None,
        arrived: Callable[[Any], Any],
        options: PoolOptions,
    ) -> None:
        self._pool = Pool(open_work, resume, workers=workers, options=options)
        self._task_of = task_of
        self._worker_of = worker_of
        self._noted = noted
        self._arrived = arrived
        self._ahead = workers * depth
        self._last = last
        self._submitted = 0
        self._collected: tuple[int, Any] = (-1, None)
        self._stopped: set[int] = set()  # workers that wait after an error

    def draw(self, turn: int) -> Any:
        if self._collected[0] == turn:
            return self._collected[1]
        until = turn + max(1, self._ahead)
        if self._last is not None:
            until = min(until, self._last)
        while self._submitted < until:
            self._pool.submit(self._worker_of(self._submitted), self._task_of(self._submitted))
            self._submitted += 1
        worker = self._worker_of(turn)
        if worker in self._stopped:
            self._pool.restart(worker)
            self._stopped.discard(worker)
        try:
            result = self._arrived(self._pool.collect(worker))
        except Exception:  # whatever the worker's code raised: it does nothing more until it is opened again
            self._stopped.add(worker)
            raise
        self._noted(turn, result)
        self._collected = turn, result
        return result

    def start(self) -> None:
        """The pool has started them when it was made."""

    def again(self, last: int | None) -> bool:
        if self._submitted != self._collected[0] + 1 or self._stopped:
            return False
        self._submitted, self._collected, self._last = 0, (-1, None), last
        return True

    def close(self) -> None:
        self._pool.close()
