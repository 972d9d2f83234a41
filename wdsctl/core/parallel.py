"""Runs units of work on processes: shards to write, to scan, to check. Results come as they are ready.

Workers are forked from a server that has imported what they need, and nothing else: no threads, no open files, no
`__main__` of the caller. They leave Ctrl-C to the parent, and end at once when it is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing import connection, forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from types import FrameType, ModuleType
from typing import TypeVar

from wdsctl.core.beneath import VARIABLE
from wdsctl.core.errors import StorageError
from wdsctl.core.fresh_python import without_current_folder

Unit = TypeVar("Unit")
Result = TypeVar("Result")

_IN_FLIGHT = 2  # units a worker: one to work on, one to go on with


def map_units(
    fn: Callable[[Unit], Result], units: Iterable[Unit], workers: int, *, preload: Sequence[str] = ()
) -> Generator[tuple[int, Result], None, None]:
    """(place in `units`, `fn(unit)`) of every unit, in the order they finish.

    With one worker, or one unit, it all happens in this process. Otherwise `fn` must stand at the top of a module, and
    units and results must pickle; `preload` names the modules to import before the first fork. Units are taken from
    their iterable as they are needed, so there may be millions.
    What a unit raises is raised here, and the rest is stopped: units under way are interrupted, with their `finally`
    clauses run. The same happens when the generator is closed, which `contextlib.closing` does at once. A worker that
    dies raises StorageError WDS405, one that cannot be started WDS407.
    """
    numbered = enumerate(units)
    first = list(islice(numbered, 2))
    if workers <= 1 or len(first) < 2:
        for i, unit in chain(first, numbered):
            yield i, fn(unit)
        return
    with _pool(workers, preload) as pool:
        yield from _run(pool, fn, chain(first, numbered), _IN_FLIGHT * workers)


def warm_up(preload: Sequence[str]) -> None:
    """Start the server that workers are forked from, so that it imports `preload` while the caller does something else.

    Not needed; saves the first `map_units` of a process 0.1 to 0.3 s. Raises StorageError WDS407 if it cannot start.
    """
    with _starting():
        _context(preload)


def _run(
    pool: ProcessPoolExecutor, fn: Callable[[Unit], Result], units: Iterator[tuple[int, Unit]], in_flight: int
) -> Iterator[tuple[int, Result]]:
    places: dict[Future[Result], int] = {}
    try:
        while True:
            for i, unit in islice(units, in_flight - len(places)):
                with _starting(), _nameless_main(), _whole():
                    places[pool.submit(_work, fn, unit)] = i
            if not places:
                return
            for future in wait(places, return_when=FIRST_COMPLETED).done:
                yield places.pop(future), future.result()
    except BrokenProcessPool as error:
        raise StorageError(
            "a worker process died",
            hint="often the memory was full: give fewer --workers, or more memory, and run the same command again",
            code="WDS405",
        ) from error


@contextmanager
def _pool(workers: int, preload: Sequence[str]) -> Iterator[ProcessPoolExecutor]:
    """A pool that is empty when the block ends, whichever way it ends."""
    with _starting():
        context = _context(preload)
        told, tell = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            workers, mp_context=context, initializer=_begin, initargs=(told, os.environ.get(VARIABLE))
        )
    try:
        yield pool
    except BaseException:  # Ctrl-C and a closed generator too: shutdown waits, so the workers must be told first
        tell.close()  # the workers see the end of the pipe, and end
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        tell.close()
        told.close()


@contextmanager
def _starting() -> Iterator[None]:
    """What the system refuses here is a process, a pipe or a thread: it says nothing of any file of the caller's."""
    try:
        with without_current_folder():
            yield
    except (OSError, EOFError, RuntimeError) as error:
        if isinstance(error, BrokenProcessPool) or (isinstance(error, RuntimeError) and "thread" not in str(error)):
            raise
        words = getattr(error, "strerror", None) or str(error) or "their server has ended"
        raise StorageError(
            f"worker processes cannot be started: {words}",
            hint="say `--workers 1`, which starts none; or allow more processes and open files (`ulimit -a`)",
            code="WDS407",
        ) from error


def _context(preload: Sequence[str]) -> BaseContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    # The server and all its children inherit that Ctrl-C is not for them, from their first instruction on.
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, before)
    return context


@contextmanager
def _whole() -> Iterator[None]:
    """Let Ctrl-C wait until the block is done.

    A pool that is left in the middle of starting a worker does not know of it, and the worker says so in a traceback.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(signal.SIGINT, came[0])


@contextmanager
def _nameless_main() -> Iterator[None]:
    """Hide the caller's `__main__`: workers would import it again, at the cost of all it imports.

    It has no use there, and a script without `if __name__ == "__main__"` would start from the top in every worker.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class _Stopped(BaseException):
    """The parent wants no more. Not an Exception: nobody should take it for a failure of the unit."""


def _begin(told: Connection, allowed: str | None) -> None:
    """What a worker does first. `allowed`: folders that data may name; their server may have been started before."""
    if allowed is not None:
        os.environ[VARIABLE] = allowed
    else:
        os.environ.pop(VARIABLE, None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(told,), daemon=True, name="wdsctl-watch").start()


def _watch(told: Connection) -> None:
    """End this worker when its parent is gone, or says so."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if parent.sentinel in connection.wait([told, parent.sentinel]):
        os._exit(1)  # killed: it cannot have asked for anything to be tidied, and the next run does that
    os.kill(os.getpid(), signal.SIGTERM)


def _work(fn: Callable[[Unit], Result], unit: Unit) -> Result:
    """Run one unit in a worker. Told to end in the middle of it, the worker unwinds before it does."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        return fn(unit)
    except _Stopped:
        os._exit(1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise _Stopped
