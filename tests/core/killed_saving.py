"""A run that is killed when the third of its results has been saved, as a program for a process of its own."""

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


def program(folder: str, run: str) -> str:
    """`folder`: the name of that for the results. `run`: lines that index something."""
    return _PROGRAM.format(folder=folder) + run
