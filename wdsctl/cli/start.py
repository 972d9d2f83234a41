"""The console script: prepares the process, then runs the command line.

Little is imported here, so that Ctrl-C ends a command with one line even while the rest is being imported.
"""

from __future__ import annotations

import gc
import os
import sys

from wdsctl.cli.interrupts import INTERRUPTED_MESSAGE


def run() -> None:
    """Run the command line of this process and exit with its code."""
    # Imported modules stay: with the default thresholds, a tenth of a short command is searching them for garbage.
    gc.set_threshold(100_000, 50, 50)
    # numpy's BLAS starts one thread per CPU when it is imported, and no command has work for them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_closed_streams()
    try:
        from wdsctl.cli.main import main

        code = main()
    except KeyboardInterrupt:  # during the imports; afterwards `main` handles it
        sys.stderr.write(f"{INTERRUPTED_MESSAGE}\n")
        code = 130
    drop_unwritable_output()
    sys.exit(code)


def drop_unwritable_output() -> None:
    """Send what a stream could not write to /dev/null. The command has reported it; Python would exit with code 120."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, number)
            os.close(devnull)


def open_closed_streams() -> None:
    """Open /dev/null as stdin, stdout or stderr if the shell closed it (`>&-`).

    Otherwise the next file that is opened would get the descriptor.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle == number:
                os.set_inheritable(number, True)  # as `dup2` does: child processes need the stream, too
            else:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - open until the process ends
