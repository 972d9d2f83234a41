"""Python imports this first if this folder is on its path: it ends the run at the n-th call of a function of `os`.

It ends the run by a signal. Calls of all processes are counted together, as bytes in one file. See `tests/killing.py`.
"""

from __future__ import annotations

import os
import stat
from typing import Any


def _install_counter(function: str, nth: int, parent_only: str, signal_number: int, counter_path: str) -> None:
    call, write = getattr(os, function), os.write

    def call_and_count(*args: Any, **kwargs: Any) -> Any:
        # Writes to pipes are communication between processes and are not counted.
        if function != "write" or stat.S_ISREG(os.fstat(args[0]).st_mode):
            count = os.open(counter_path, os.O_WRONLY | os.O_APPEND)
            write(count, b".")
            if os.lseek(count, 0, os.SEEK_CUR) == nth:
                _end(signal_number, is_alone=parent_only == "True")
            os.close(count)
        return call(*args, **kwargs)

    setattr(os, function, call_and_count)


def _end(signal_number: int, *, is_alone: bool) -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if not is_alone:
        os.killpg(0, signal_number)
        return
    os.kill(os.getpid() if parent is None or parent.pid is None else parent.pid, signal_number)


_function, _nth, _parent_only, _signal_number, _counter_path = os.environ["DIES_AT"].split(" ", 4)
_install_counter(_function, int(_nth), _parent_only, int(_signal_number), _counter_path)
