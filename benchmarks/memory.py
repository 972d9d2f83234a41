"""The memory of a whole process tree while it runs: proportional set size, so that shared pages count once.

Reading it slows the processes read, so it is taken in the untimed warm-up run only.
"""

from __future__ import annotations

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
            self.peak_bytes = max(self.peak_bytes, sum(map(_proportional_bytes, _tree(process_id))))


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
