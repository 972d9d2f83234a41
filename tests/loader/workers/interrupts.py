"""Ctrl-C at random moments, from a timer, only within chosen code."""

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
def interrupt_within(function: Callable[..., Any], package: ModuleType) -> Iterator[None]:
    """Interrupt a function and the code of the package that it calls by a timer, but neither its caller nor finalizers.

    The timer does not interrupt its own handler either: the error would come out of whatever code the handler
    interrupted, for example the hooks of `os.fork`, and the lock of `logging` held there would never be released.
    """
    package_folder = str(Path(str(package.__file__)).parent)
    pauses = random.Random(7)  # often too short to start a worker, and sometimes long enough on any machine

    def interrupt(_number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.002 * 1.5 ** pauses.randrange(15))
        is_in_package = frame is not None and frame.f_code.co_filename.startswith(package_folder)
        codes = {each.f_code for each, _ in traceback.walk_stack(frame)}
        if is_in_package and function.__code__ in codes and _return_block.__code__ not in codes:
            raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
