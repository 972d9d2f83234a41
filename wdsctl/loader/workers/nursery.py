"""The nursery: a process of one thread and nothing open that forks workers, the first ones and all later ones.

The training process itself, with its threads and CUDA, forks once, when the pool is made, or never ("forkserver").
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import time
from typing import Any, NamedTuple

from wdsctl.loader.workers.process import Ends, be_worker, leave_signals_to_the_consumer, run_forked
from wdsctl.loader.workers.wire import receive_parcel, send_parcel
from wdsctl.loader.workers.work import OpenWork

#: How often it looks whether its parent is still there, in milliseconds.
_LOOK_EVERY = 1000
#: How long it waits for a worker that is about to end, in seconds.
_WAIT = 2.0


class Fork(NamedTuple):
    """Asks for a worker; its ends come along. The answer is its process id."""

    worker: int
    ring_bytes: int | None


class HowEnded(NamedTuple):
    """Asks how a worker ended. The answer is its exit code, None if it still runs."""

    pid: int


def tend(control: socket.socket, open_work: OpenWork, parent: int) -> None:
    """Serves requests until the consumer closes the socket or is gone, then ends all workers that are left."""
    leave_signals_to_the_consumer()
    running: set[int] = set()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while os.getppid() == parent:
        if not poll.poll(_LOOK_EVERY):
            continue
        try:
            raw, descriptors = receive_parcel(control)
            request = pickle.loads(raw)  # noqa: S301 - from our own consumer, through a socket that nobody else has
            send_parcel(control, pickle.dumps(_served(request, descriptors, control, open_work, running)))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            break
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _served(
    request: Any, descriptors: list[int], control: socket.socket, open_work: OpenWork, running: set[int]
) -> int | None:
    if isinstance(request, HowEnded):
        code = _exit_code(request.pid)
        if code is not None:
            running.discard(request.pid)
        return code
    ends = Ends(*descriptors)
    pid = os.fork()
    if not pid:
        control.close()
        run_forked(lambda: be_worker(request.worker, open_work, ends, request.ring_bytes))
    running.add(pid)
    for descriptor in ends:
        os.close(descriptor)
    return pid


def _exit_code(pid: int) -> int | None:
    """None if the process is still running after a while, or is not ours."""
    until = time.monotonic() + _WAIT
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
    return None
