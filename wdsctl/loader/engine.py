"""Who does the drawing: this process, or worker processes that run ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from wdsctl.core.errors import LoaderError
from wdsctl.loader.workers import OpenWork, Pool, PoolOptions, Work

#: Turns that a worker is ahead where nothing is said: at least, and at most. A ring has 32 blocks.
_LEAST, _MOST = 2, 16
#: Bytes of results that lie ready, a worker, before there are more than the least.
_BYTES = 8 << 20
#: A worker's turns ahead are given to it in so many parts, each in one go: to wake it for every turn costs more.
_PARTS = 4


class Engine(Protocol):
    def draw(self, turn: int) -> Any:
        """What the task of this turn gives. Turns come in order; one that raised is asked for again."""

    def start(self) -> None:
        """Start now what would be started by the first turn."""

    def again(self, last: int | None) -> bool:
        """Count turns from 0 again, mostly up to `last`; False where that cannot be, and another engine is needed."""

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


class _Taken(NamedTuple):
    """The result of a turn, and the number that it has among those of its worker."""

    turn: int
    result: Any
    worker: int
    number: int


class _Count(NamedTuple):
    """`begun`: tasks that the pool had been given before turn 0. `last`: turns that are foreseen; None: without end."""

    begun: int
    last: int | None
    taken: _Taken | None


class Ahead:
    """Workers that are `depth` turns each ahead of what was asked for; None: see `_depth`. Turn t is done by worker
    `worker_of(t)`.

    `noted(turn, result)` is told of every result before the next one is asked for, once or more often, so that
    `resume(worker)` can say where a worker that begins again begins. `arrived(turn, result)` makes of a result that
    travelled what it was, or raises where it is not that of this turn (`check_due`).

    An interrupt may come between any two steps: what was submitted the pool knows, and a result is this one's by a
    single assignment. All else is done again where it may not have been done.
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
        depth: int | None,
        last: int | None,
        arrived: Callable[[int, Any], Any],
        options: PoolOptions,
    ) -> None:
        self._pool = Pool(open_work, resume, workers=workers, options=options)
        self._task_of = task_of
        self._worker_of = worker_of
        self._noted = noted
        self._arrived = arrived
        self._workers = workers
        self._given_depth = depth
        self._count = _Count(0, last, None)
        self._stopped: set[int] = set()  # workers that wait after an error

    def draw(self, turn: int) -> Any:
        taken = self._settled()
        if taken is not None and taken.turn == turn:
            return taken.result
        self._run_ahead_of(turn)
        worker = self._worker_of(turn)
        if worker in self._stopped:
            self._pool.restart(worker)
            self._stopped.discard(worker)
        number = self._pool.accepted(worker)
        try:
            result = self._arrived(turn, self._pool.look(worker))
        except Exception:  # whatever the worker's code raised: it does nothing more until it is opened again
            self._stopped.add(worker)
            raise
        self._count = self._count._replace(taken=_Taken(turn, result, worker, number))
        return result

    def start(self) -> None:
        """The pool has started them when it was made."""

    def again(self, last: int | None) -> bool:
        taken = self._settled()
        is_under_way = self._submitted != (0 if taken is None else taken.turn + 1)
        if is_under_way or self._stopped or self._pool.is_closed:
            return False
        self._count = _Count(self._pool.submitted, last, None)
        return True

    def close(self) -> None:
        self._pool.close()

    def _settled(self) -> _Taken | None:
        """What was taken last. Whoever is to know of it does now."""
        taken = self._count.taken
        if taken is not None:
            self._noted(taken.turn, taken.result)
            self._pool.accept(taken.worker, taken.number)
        return taken

    @property
    def _submitted(self) -> int:
        return self._pool.submitted - self._count.begun

    def _run_ahead_of(self, turn: int) -> None:
        """Submit what workers are to do until this turn's result was taken: itself, if nobody foresaw it."""
        submitted, depth = self._submitted, self._depth()
        until = turn + self._workers * depth
        if submitted > until - max(1, depth // _PARTS * self._workers):
            return
        if self._count.last is not None:
            until = min(until, max(self._count.last, turn + 1))
        for each in range(submitted, until):
            self._pool.submit(self._worker_of(each), self._task_of(each))
        self._pool.send()

    def _depth(self) -> int:
        """Turns a worker is ahead: what was asked for, or as many small results as `_BYTES` hold.

        A worker that is late by a moment, because the machine has other things to do, or because it reads the next
        block of its order, is late for all: results that are used up in half a millisecond have to lie in stock.
        """
        if self._given_depth is not None:
            return self._given_depth
        if not self._pool.largest:
            return _LEAST
        return max(_LEAST, min(_BYTES // self._pool.largest, _MOST))


def check_due(got: Any, due: Any) -> None:
    """Raise LoaderError WDS518 unless a result was made for the task that is due: another one would repeat batches
    and miss others, and no state would tell."""
    if got != due:
        raise LoaderError(
            f"a worker's result is that of {got}, and due is {due}",
            hint="close the loader and go on with it: it begins again where it stood, and nothing is lost",
            code="WDS518",
        )
