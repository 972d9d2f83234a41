"""One process measured: wall clock, CPU of its whole tree, peak memory of its largest process.

The harness itself imports nothing heavy: a child's peak memory starts from that of the parent it was forked from.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.places import REPOSITORY, shown

#: A contender that has not ended by then has hung: the slowest one takes minutes.
TIMEOUT_SECONDS = 1800
_TAIL_CHARACTERS = 3000
#: How long a process may live on after the command that it belongs to.
_ORPHANS_SECONDS = 10.0
_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run of a command took."""

    #: Seconds from the start of the process to its end.
    wall_seconds: float
    #: User and system seconds of the process and of every descendant.
    cpu_seconds: float
    #: Peak resident bytes of the largest single process in the tree.
    peak_bytes: int
    #: What it wrote to stdout.
    output: str


class ContenderError(RuntimeError):
    """A contender ended with an error, or did other work than its rivals: its figure would mean nothing."""


def _environment() -> dict[str, str]:
    """Ours, with leave to keep compiled modules. pip compiles what it installs, so the peers start from bytecode."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(command: Sequence[str], *, started: Callable[[int], None] | None = None) -> Cost:
    """Run the command once, from the root of the repository. `started` is called with the process id.

    Raises ContenderError, with the end of stderr, if the command does not succeed.
    """
    _take_in_orphans()
    earlier_children = set(_children())
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=_environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        if started:
            started(process.pid)
        timeout = threading.Timer(TIMEOUT_SECONDS, process.kill)
        timeout.start()
        # Not Popen.wait: only wait4 tells what this one child and its descendants used.
        _, status, usage = os.wait4(process.pid, 0)
        wall_seconds = time.perf_counter() - start
        timeout.cancel()
        orphans = sum(_waited_for(each) for each in _children() if each not in earlier_children)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            tail = errors.read()[-_TAIL_CHARACTERS:]
            raise ContenderError(f"exit code {process.returncode} from: {shown(command)}\n{tail}")
        return Cost(
            wall_seconds=wall_seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime + orphans,
            peak_bytes=usage.ru_maxrss * 1024,
            output=output.read(),
        )


def _take_in_orphans() -> None:
    """From here on, descendants whose parent ends become children of this process: it can ask what they used."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children() -> list[int]:
    """Of all threads: a child belongs to the thread that started it."""
    return [int(child) for task in Path("/proc/self/task").iterdir() for child in _listed(task / "children")]


def _listed(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # the thread has ended meanwhile
        return []


def _waited_for(process_id: int) -> float:
    """CPU seconds of a process that its parent left behind, and of what it waited for; one that stays is ended."""
    until = time.monotonic() + _ORPHANS_SECONDS
    while time.monotonic() < until:
        found, _, usage = os.wait4(process_id, os.WNOHANG)
        if found:
            return usage.ru_utime + usage.ru_stime
        time.sleep(0.01)
    os.kill(process_id, signal.SIGKILL)
    _, _, usage = os.wait4(process_id, 0)
    return usage.ru_utime + usage.ru_stime
