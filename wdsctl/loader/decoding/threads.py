"""Images of one batch, decoded by several threads of this process: libjpeg-turbo runs without Python's lock.

Reading headers, choosing places and everything else stays in order on the caller's thread; only pixels are filled in
side by side, each image in memory of its own. So the result is that of one thread.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: More threads than this keep a processor busy, and a batch no sooner done: what is left runs on one.
MOST_THREADS = 4

#: Images that wait with their bytes: enough to share out, and little memory.
MOST_WAITING = 64


def default_threads() -> int:
    """As many as there are processors for this process, up to 4."""
    return min(MOST_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


class DecodeThreads:
    """Fills pixels at once, or, within `together`, until its end. Threads live as long as one batch: none is ever left.

    `together` raises what one of the fillings raised; which one it is depends on the threads, so load what failed again
    outside of it, where errors come in their order.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._is_open = False
        self._waiting: deque[Callable[[], None]] = deque()

    def fill(self, fill: Callable[[], None]) -> None:
        """Call it now or soon."""
        if not self._is_open:
            fill()
            return
        self._waiting.append(fill)
        if len(self._waiting) >= MOST_WAITING:
            self._run()

    @contextmanager
    def together(self) -> Iterator[None]:
        self._is_open = self._threads > 1
        try:
            yield
            self._run()
        finally:
            self._is_open = False
            self._waiting.clear()

    def _run(self) -> None:
        failures: list[Exception] = []
        others = min(self._threads, len(self._waiting)) - 1
        threads = [threading.Thread(target=self._work, args=(failures,), daemon=True) for _ in range(others)]
        try:
            for thread in threads:
                thread.start()
            self._work(failures)
        finally:
            self._waiting.clear()  # an interrupt leaves the rest undone
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        if failures:
            raise failures[0]

    def _work(self, failures: list[Exception]) -> None:
        while self._waiting and not failures:
            try:
                fill = self._waiting.popleft()
            except IndexError:
                return  # another thread had the last one
            try:
                fill()
            except Exception as error:  # noqa: BLE001 - raised by the caller's thread
                failures.append(error)
