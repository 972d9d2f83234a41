"""Ctrl-C at any moment, from a timer: what is interrupted, and what is not."""

from __future__ import annotations

import random
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from wdsctl.loader.workers.ring_reader import _return_block


@contextmanager
def interrupted_within(function: Callable[..., Any], package: ModuleType) -> Iterator[None]:
    """A timer interrupts a function and what it calls of the package, but neither its caller nor the end of an object.

    Nor itself: where it is late and interrupts its own handler, an error would come out of whatever that interrupted,
    the hooks of `os.fork` for one, and what holds the lock of `logging` there never lets go of it.
    """
    ours = str(Path(str(package.__file__)).parent)
    pauses = random.Random(7)  # often too short to start a worker in, and sometimes long enough on any machine

    def interrupt(_number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.002 * 1.5 ** pauses.randrange(15))
        is_ours = frame is not None and frame.f_code.co_filename.startswith(ours)
        codes = {each.f_code for each, _ in traceback.walk_stack(frame)}
        if is_ours and function.__code__ in codes and _return_block.__code__ not in codes:
            raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
