"""A run that is killed when the third of its units has been saved, as a program for a process of its own."""

from __future__ import annotations

_PROGRAM = """
import os, signal, {module} as unit
whole, saved = unit.save_found, []
def save_found(*given):
    whole(*given)
    saved.append(given)
    if len(saved) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
unit.save_found = save_found
"""


def program(module: str, run: str) -> str:
    """`module`: where units are saved by a function of the name `save_found`. `run`: lines that index something."""
    return _PROGRAM.format(module=module) + run
