"""One process measured: wall clock, CPU of its whole tree, peak memory of its largest process.

The harness itself imports nothing heavy: a child's peak memory starts from that of the parent it was forked from.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.places import REPOSITORY, shown

#: A contender that has not ended by then has hung: the slowest one takes minutes.
PATIENCE_SECONDS = 1800
_TAIL_CHARACTERS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run of a command took."""

    #: Seconds from the start of the process to its end.
    wall_seconds: float
    #: User and system seconds of the process and of every descendant it waited for.
    cpu_seconds: float
    #: Peak resident bytes of the largest single process in the tree.
    peak_bytes: int
    #: What it wrote to stdout.
    output: str


class ContenderError(RuntimeError):
    """A contender ended with an error, or did other work than its rivals: its figure would mean nothing."""


def measure(command: Sequence[str], *, started: Callable[[int], None] | None = None) -> Cost:
    """Runs the command once, from the repository's root. `started` is told the process id.

    Raises ContenderError, with the end of stderr, if the command does not succeed.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        if started:
            started(process.pid)
        patience = threading.Timer(PATIENCE_SECONDS, process.kill)
        patience.start()
        # Not Popen.wait: only wait4 tells what this one child and its descendants used.
        _, status, usage = os.wait4(process.pid, 0)
        wall_seconds = time.perf_counter() - start
        patience.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            tail = errors.read()[-_TAIL_CHARACTERS:]
            raise ContenderError(f"exit code {process.returncode} from: {shown(command)}\n{tail}")
        return Cost(
            wall_seconds=wall_seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_bytes=usage.ru_maxrss * 1024,
            output=output.read(),
        )
