"""Kills workers when the consumer ends, for whatever reason, by a pipe that only the consumer holds open.

The kernel sends a chosen signal when the pipe loses its last writer. The signal also ends a worker that hangs in a loop
and holds the interpreter's lock, which a thread of the worker could not do. On systems without F_SETSIG, a worker ends
when it next reads or writes.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys


def die_with_writer(descriptor: int) -> None:
    """Let the kernel kill this process when the pipe that `descriptor` reads from loses its last writer."""
    if sys.platform == "linux":
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    # The writer may have gone before the signal was requested.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(0):
        os._exit(1)


def open_process_handle(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends. It never refers to a later process with the same id."""
    if sys.platform != "linux":
        return None
    return os.pidfd_open(pid)


def send_signal(pid: int, handle: int | None, signal_number: int) -> None:
    """Signal the process, never another one that reuses its id. Does nothing if the process has ended."""
    try:
        if sys.platform == "linux" and handle is not None:
            signal.pidfd_send_signal(handle, signal_number)
        else:
            os.kill(pid, signal_number)
    except ProcessLookupError:
        return
