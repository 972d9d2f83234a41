"""What Python imports first where this folder is on its path: ends the run at the n-th call of a function of `os`.

It does so by a signal. The calls of all its processes are counted, by bytes in one file. See `tests/killing.py`.
"""

from __future__ import annotations

import os
import stat
from typing import Any


def _arm(seam: str, nth: int, parent_only: str, sends: int, counted: str) -> None:
    call, write = getattr(os, seam), os.write

    def counting(*given: Any, **named: Any) -> Any:
        # What goes through pipes is how processes talk to each other: no part of the work.
        if seam != "write" or stat.S_ISREG(os.fstat(given[0]).st_mode):
            count = os.open(counted, os.O_WRONLY | os.O_APPEND)
            write(count, b".")
            if os.lseek(count, 0, os.SEEK_CUR) == nth:
                _end(sends, is_alone=parent_only == "True")
            os.close(count)
        return call(*given, **named)

    setattr(os, seam, counting)


def _end(sends: int, *, is_alone: bool) -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if not is_alone:
        os.killpg(0, sends)
        return
    os.kill(os.getpid() if parent is None or parent.pid is None else parent.pid, sends)


_seam, _nth, _parent_only, _sends, _counted = os.environ["DIES_AT"].split(" ", 4)
_arm(_seam, int(_nth), _parent_only, int(_sends), _counted)
