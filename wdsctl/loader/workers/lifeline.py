"""A pipe that only the consumer holds open: when the consumer is gone, however it went, the kernel kills the worker.

The kernel sends a signal of our choice when the last writer of the pipe is gone. A worker that hangs in a loop, holding
the interpreter's lock, ends too, which a thread in it could not promise. Systems without F_SETSIG go without: there a
worker ends when it next reads or writes.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys


def hold(descriptor: int) -> None:
    """This process is killed when the pipe that `descriptor` reads from loses its last writer."""
    if sys.platform == "linux":
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    # The writer may have gone before the signal was asked for.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(0):
        os._exit(1)


def process_handle(pid: int) -> int | None:
    """A descriptor that turns readable when the process ends, and that no later process can take over."""
    if sys.platform != "linux":
        return None
    return os.pidfd_open(pid)


def send_signal(pid: int, handle: int | None, number: int) -> None:
    """To the process itself, never to another that got its id. Says nothing where it is gone."""
    try:
        if sys.platform == "linux" and handle is not None:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return
