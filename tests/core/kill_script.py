"""A program for a separate process, which is killed when the third of its results has been saved."""

from __future__ import annotations

_PROGRAM = """
import os, signal
from wdsctl.core.job_results import ResultFolder
whole, saved = ResultFolder.save, []
def save(self, units, results):
    kept = whole(self, units, results)
    saved.extend(units if os.path.basename(self.folder) == {folder!r} else ())
    if len(saved) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return kept
ResultFolder.save = save
"""


def kill_script(folder: str, run: str) -> str:
    """`folder`: the name of the folder of results. `run`: the lines of code that index something."""
    return _PROGRAM.format(folder=folder) + run
