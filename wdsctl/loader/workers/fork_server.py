"""The fork server: a process with one thread and no open resources that forks all workers.

The training process itself, with its threads and CUDA, forks once, when the pool is created, or never ("forkserver").
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

from wdsctl.loader.workers.options import TaskRunnerFactory
from wdsctl.loader.workers.process import WorkerDescriptors, reset_signal_handlers, run_forked, run_worker
from wdsctl.loader.workers.wire import receive_parcel, send_parcel

#: Interval between checks whether the parent process still exists, in milliseconds.
_PARENT_CHECK_MILLISECONDS = 1000
#: Time to wait for a worker that is about to end, in seconds.
_EXIT_WAIT_SECONDS = 2.0


class ForkRequest(NamedTuple):
    """Asks for a worker, with its descriptors. The answer is its process id."""

    worker: int
    ring_bytes: int | None


class ExitCodeRequest(NamedTuple):
    """Asks for a worker's exit code. The answer is None if the worker still runs."""

    pid: int


def serve(control: socket.socket, runner_factory: TaskRunnerFactory, parent_pid: int) -> None:
    """Serve requests until the consumer closes the socket or is gone, then kill all workers that are left."""
    reset_signal_handlers()
    running: set[int] = set()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while os.getppid() == parent_pid:
        if not poll.poll(_PARENT_CHECK_MILLISECONDS):
            continue
        try:
            raw, descriptors = receive_parcel(control)
            request = pickle.loads(raw)  # noqa: S301 - from our own consumer, through a private socket
            send_parcel(control, pickle.dumps(_answer_request(request, descriptors, control, runner_factory, running)))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            break
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _answer_request(
    request: Any, descriptors: list[int], control: socket.socket, runner_factory: TaskRunnerFactory, running: set[int]
) -> int | None:
    if isinstance(request, ExitCodeRequest):
        code = _wait_for_exit_code(request.pid)
        if code is not None:
            running.discard(request.pid)
        return code
    ends = WorkerDescriptors(*descriptors)
    pid = os.fork()
    if not pid:
        control.close()
        run_forked(lambda: run_worker(request.worker, runner_factory, ends, request.ring_bytes))
    running.add(pid)
    for descriptor in ends:
        os.close(descriptor)
    return pid


def _wait_for_exit_code(pid: int) -> int | None:
    """The exit code of a child; None if it still runs after `_EXIT_WAIT_SECONDS`, or is not a child."""
    until = time.monotonic() + _EXIT_WAIT_SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
    return None
