"""Run units in worker processes on this machine, for `jobs.LocalProcesses`.

A fork server imports the modules that workers need, and every worker is a fork of it: without threads, open files or
the caller's `__main__`. Workers ignore Ctrl-C, which the parent handles, and end at once when the parent is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import connection, forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from types import FrameType, ModuleType
from typing import TypeVar

from wdsctl.core.errors import StorageError
from wdsctl.core.import_guard import without_current_folder
from wdsctl.core.waits import note_wait, send_waits

UnitT = TypeVar("UnitT")
ResultT = TypeVar("ResultT")

_UNITS_PER_WORKER = 2  # one running and one queued, so that no worker is idle


def run_in_processes(
    fn: Callable[[UnitT], ResultT], units: Iterable[UnitT], workers: int, preload: Sequence[str]
) -> Generator[tuple[int, ResultT], None, None]:
    """Yield (index of the unit, `fn(unit)`) as units finish. Raises like `jobs.LocalProcesses.run`."""
    with _pool(workers, preload) as pool:
        yield from _run(pool, fn, enumerate(units), _UNITS_PER_WORKER * workers)


def warm_up_workers(preload: Sequence[str]) -> None:
    """Start the fork server, which imports `preload` while the caller continues.

    Optional: saves the first pool of a process 0.1 to 0.3 s. Raises StorageError WDS407 if the server cannot start.
    """
    with _translate_start_errors():
        _fork_server_context(preload)


def _run(
    pool: ProcessPoolExecutor, fn: Callable[[UnitT], ResultT], units: Iterator[tuple[int, UnitT]], in_flight: int
) -> Iterator[tuple[int, ResultT]]:
    places: dict[Future[ResultT], int] = {}
    try:
        while True:
            for i, unit in islice(units, in_flight - len(places)):
                with _translate_start_errors(), _hide_main(), _defer_interrupt():
                    places[pool.submit(_run_in_worker, fn, unit)] = i
            if not places:
                return
            for future in wait(places, return_when=FIRST_COMPLETED).done:
                yield places.pop(future), future.result()
    except BrokenProcessPool as error:
        raise StorageError(
            "a worker process died",
            hint="if memory ran out, lower --workers or provide more memory, then run the same command again",
            code="WDS405",
        ) from error


@contextmanager
def _pool(workers: int, preload: Sequence[str]) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of workers, which have all ended when the block ends."""
    with _translate_start_errors():
        context = _fork_server_context(preload)
        stop_reader, stop_writer = context.Pipe(duplex=False)
        waits_reader, waits_writer = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            workers,
            mp_context=context,
            initializer=_init_worker,
            initargs=(stop_reader, waits_writer, dict(os.environ)),
        )
        waits = threading.Thread(target=_note_waits, args=(waits_reader,), daemon=True, name="wdsctl-waits")
        waits.start()
    try:
        yield pool
    except BaseException:  # also Ctrl-C and a closed generator: `shutdown` waits, so stop the workers first
        stop_writer.close()  # the workers read the end of the pipe, and exit
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        stop_writer.close()
        stop_reader.close()
        waits_writer.close()  # the thread reads the end of the pipe
        waits.join(timeout=1.0)


@contextmanager
def _translate_start_errors() -> Iterator[None]:
    """Turn failures to create a process, pipe or thread into StorageError WDS407.

    They do not concern any file of the caller.
    """
    try:
        with without_current_folder():
            yield
    except (OSError, EOFError, RuntimeError) as error:
        if isinstance(error, BrokenProcessPool) or (isinstance(error, RuntimeError) and "thread" not in str(error)):
            raise
        words = getattr(error, "strerror", None) or str(error) or "the fork server has stopped"
        raise StorageError(
            f"cannot start worker processes: {words}",
            hint="pass `--workers 1` to work without them, or raise the limits on processes and open files (`ulimit "
            "-a`)",
            code="WDS407",
        ) from error


def _fork_server_context(preload: Sequence[str]) -> BaseContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    # The server and its children inherit the ignored SIGINT from their first instruction on.
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, before)
    return context


@contextmanager
def _defer_interrupt() -> Iterator[None]:
    """Deliver Ctrl-C only after the block.

    An interrupt while the pool starts a worker would leave a worker that the pool does not know, and that prints a
    traceback.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    interrupted_frames: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: interrupted_frames.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupted_frames:
            before(signal.SIGINT, interrupted_frames[0])


@contextmanager
def _hide_main() -> Iterator[None]:
    """Hide the caller's `__main__` from workers, which would import it again with all its imports.

    Workers do not need it, and a script without `if __name__ == "__main__"` would run again in every worker.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class _Stopped(BaseException):
    """The parent stopped this worker. Not an Exception: no handler may take it for a failure of the unit."""


def _note_waits(pipe: Connection) -> None:
    """Pass on what the workers wait for, until the last of them has ended."""
    with pipe, suppress(EOFError):
        while True:
            note_wait(*pipe.recv())


def _init_worker(stop_pipe: Connection, waits_pipe: Connection, environment: Mapping[str, str]) -> None:
    """Initialise a worker.

    `environment`: the parent's. It may be newer than the fork server's: credentials of a store, WDSCTL_ALLOW_PATH.
    """
    if dict(os.environ) != environment:
        os.environ.clear()
        os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.unraisablehook = _stop_after_destructor
    send_waits(waits_pipe.send)
    threading.Thread(target=_watch_parent, args=(stop_pipe,), daemon=True, name="wdsctl-watch").start()


def _watch_parent(stop_pipe: Connection) -> None:
    """End this worker when its parent dies or asks for it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if parent.sentinel in connection.wait([stop_pipe, parent.sentinel]):
        os._exit(1)  # the parent was killed: the next run cleans up
    os.kill(os.getpid(), signal.SIGTERM)


def _run_in_worker(fn: Callable[[UnitT], ResultT], unit: UnitT) -> ResultT:
    """Run one unit in a worker. If the worker is stopped meanwhile, `finally` clauses run before it exits."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        return fn(unit)
    except _Stopped:
        os._exit(1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise _Stopped


def _stop_after_destructor(unraisable: sys.UnraisableHookArgs) -> None:
    """Stop the worker although the signal came in a destructor, from which Python lets no exception out."""
    if unraisable.exc_type is _Stopped:
        again = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGTERM))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)
