"""How worker processes come into being, for the consumer: forked by a nursery, or each a fresh interpreter."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import time
import warnings
from typing import Any, Protocol

from wdsctl.core.errors import LoaderError
from wdsctl.loader.workers.fresh import interpreter, luggage
from wdsctl.loader.workers.nursery import Fork, HowEnded, tend
from wdsctl.loader.workers.options import PoolOptions
from wdsctl.loader.workers.process import Ends, flush_output, run_forked
from wdsctl.loader.workers.wire import hang_up, receive_parcel, send_parcel
from wdsctl.loader.workers.work import OpenWork

#: A nursery that does not answer for so long is given up, in seconds: a fresh one may import torch from a slow disk.
_ANSWER = 120.0
_END = 2.0


class Launcher(Protocol):
    def ready(self) -> None:
        """To be called before the ends of a worker are made: what is forked later must not hold them."""

    def launch(self, index: int, ends: Ends) -> int:
        """The id of a new worker process, which has the ends. The caller closes its own."""

    def exit_code(self, pid: int) -> int | None:
        """How a worker that ended did so; negative for a signal, None where nobody knows."""

    def close(self) -> None: ...


def launcher_for(open_work: OpenWork, options: PoolOptions) -> Launcher:
    """Raises LoaderError (WDS531) for work that must be pickled and cannot."""
    return Spawner(open_work, options) if options.start == "spawn" else Nursery(open_work, options)


class Spawner:
    """A fresh interpreter for each worker."""

    def __init__(self, open_work: OpenWork, options: PoolOptions) -> None:
        self._open_work = open_work
        self._ring_bytes = options.ring_bytes
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        luggage(open_work)

    def ready(self) -> None:
        """Nothing is forked."""

    def launch(self, index: int, ends: Ends) -> int:
        raw = luggage(self._open_work, index=index, ends=tuple(ends), ring_bytes=self._ring_bytes)
        process = interpreter(raw, ends)
        self._running[process.pid] = process
        return process.pid

    def exit_code(self, pid: int) -> int | None:
        process = self._running.pop(pid)
        return _ended(process, _END)

    def close(self) -> None:
        for process in self._running.values():
            if _ended(process, _END) is None:
                process.kill()
                process.wait()
        self._running.clear()


class Nursery:
    """A process that forks workers when it is asked to. Where it died, the workers live on and the next one needed
    gets a new nursery."""

    def __init__(self, open_work: OpenWork, options: PoolOptions) -> None:
        self._open_work = open_work
        self._options = options
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | _Forked | None = None
        self._is_asking = False
        self.ready()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def ready(self) -> None:
        # A question that was interrupted leaves an answer behind that belongs to nobody.
        if self._process and (self._control is None or self._is_asking or self._process.poll() is not None):
            self._abandon()
        if self._process is None:
            self._begin()

    def launch(self, index: int, ends: Ends) -> int:
        question = Fork(index, self._options.ring_bytes)
        try:
            pid = self._ask(question, ends)
        except LoaderError:
            self._abandon()
            self._begin()
            pid = self._ask(question, ends)
        if pid is None:
            raise LoaderError("no worker could be started", hint="the log says more", code="WDS530")
        return pid

    def exit_code(self, pid: int) -> int | None:
        try:
            return self._ask(HowEnded(pid))
        except LoaderError:
            return None

    def close(self) -> None:
        """It ends its workers with it, those that are still there."""
        control, self._control = self._control, None
        process, self._process = self._process, None
        self._is_asking = False
        if control:
            hang_up(control)
        if process and _ended(process, _END) is None:
            process.kill()
            process.wait()

    def _abandon(self) -> None:
        """Its workers live on: a nursery ends them only where it sees that its consumer is gone."""
        self._options.say("the nursery of the workers is gone; a new one is made")
        if self._process:
            self._process.kill()
            self._process.wait()
        self.close()

    def _begin(self) -> None:
        mine, theirs = socket.socketpair()
        mine.settimeout(_ANSWER)
        with contextlib.ExitStack() as undo, theirs:
            undo.callback(mine.close)
            if self._options.start == "fork":
                self._process = _fork_nursery(mine, theirs, self._open_work)
            else:
                raw = luggage(self._open_work, control=theirs.fileno())
                self._process = interpreter(raw, [theirs.fileno()])
            self._control = mine
            undo.pop_all()

    def _ask(self, question: Any, descriptors: Any = ()) -> int | None:
        if self._control is None or self._is_asking:
            raise _silent()
        self._is_asking = True
        try:
            send_parcel(self._control, pickle.dumps(question), list(descriptors))
            raw, _ = receive_parcel(self._control)
        except (OSError, EOFError) as error:
            raise _silent() from error
        self._is_asking = False
        answer: int | None = pickle.loads(raw)  # noqa: S301 - from our own nursery
        return answer


class _Forked:
    """A forked child with what we need of the face of subprocess.Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._code if self._code is not None else self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        return self._code if self._code is not None else self._wait(0)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, flags: int) -> int | None:
        try:
            pid, status = os.waitpid(self.pid, flags)
        except ChildProcessError:
            # Somebody else in this process waited for all children at once: its code is lost.
            self._code = 255
        else:
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


def _fork_nursery(mine: socket.socket, theirs: socket.socket, open_work: OpenWork) -> _Forked:
    parent = os.getpid()
    flush_output()
    with warnings.catch_warnings():
        # Threads may be alive here. The child runs none of their code and takes none of their locks: Python and the C
        # library make theirs anew in a forked child.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        mine.close()
        run_forked(lambda: tend(theirs, open_work, parent))
    return _Forked(pid)


def _ended(process: subprocess.Popen[bytes] | _Forked, seconds: float) -> int | None:
    until = time.monotonic() + seconds
    while (code := process.poll()) is None and time.monotonic() < until:
        time.sleep(0.002)
    return code


def _silent() -> LoaderError:
    return LoaderError("the nursery of the workers does not answer", hint="run it again", code="WDS530")
