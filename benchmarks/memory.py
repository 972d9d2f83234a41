"""What a whole process tree uses while it runs: CPU, and proportional set size, so that shared pages count once.

Reading sizes slows the processes read, so they are taken in the untimed warm-up run only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_PERIOD_SECONDS = 0.1


class TreeWatch:
    """Samples a process tree ten times a second until left; `peak_bytes` is the highest sum seen."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> TreeWatch:
        return self

    def start(self, process_id: int) -> None:
        self._thread = threading.Thread(target=self._watch, args=(process_id,), daemon=True)
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        if self._thread:
            self._thread.join()

    def _watch(self, process_id: int) -> None:
        while not self._done.wait(_PERIOD_SECONDS):
            self.peak_bytes = max(self.peak_bytes, tree_bytes(process_id))


def tree_bytes(process_id: int) -> int:
    """Proportional set size of a process and all its descendants, now."""
    return sum(map(_proportional_bytes, _tree(process_id)))


def tree_cpu_seconds(process_id: int) -> float:
    """User and system seconds of a process, all its descendants, and those that have ended and were waited for."""
    return sum(map(_cpu_ticks, _tree(process_id))) / os.sysconf("SC_CLK_TCK")


def _tree(process_id: int) -> Iterator[int]:
    yield process_id
    # A process may end between being listed and being read.
    with suppress(OSError):
        for task in Path(f"/proc/{process_id}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _proportional_bytes(process_id: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _cpu_ticks(process_id: int) -> int:
    with suppress(OSError):
        # The name, in brackets, may hold anything; utime, stime, cutime and cstime are fields 14 to 17.
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15]))
    return 0
