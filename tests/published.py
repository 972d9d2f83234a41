"""Machines that share a store, each with a mirror of its own: for the tests of published catalogs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wdsctl.core.progress import SilentProgress
from wdsctl.core.remote_catalogs.pull import forget_pulls

Machines = Callable[[str], Path]


class Notes(SilentProgress):
    """Keeps the lines for the user."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


def machines_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """A function that goes on as another machine: its name -> its folder of data."""

    def switch(name: str) -> Path:
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / name))
        forget_pulls()
        return folder / name

    return switch


#: A machine of its own that ends by SIGKILL before or after the n-th call of a function or method.
_DYING = """
import os, signal, sys
from importlib import import_module
owner, name, nth, moment = sys.argv[1].split(" ")
module, _, kind = owner.partition(":")
holder = import_module(module)
holder = getattr(holder, kind) if kind else holder
call, calls = getattr(holder, name), []
def dying(*given, **named):
    calls.append(1)
    if len(calls) == int(nth) and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = call(*given, **named)
    if len(calls) == int(nth) and moment == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(holder, name, dying)
sys.argv = ["wdsctl", *sys.argv[2:]]
from wdsctl.cli.main import main
main()
"""


def dies(home: Path, moment: str, *arguments: str) -> bool:
    """Run a command on a machine that dies at `moment`: `MODULE:CLASS NAME NTH before`. False if it ended well."""
    done = subprocess.run(
        [sys.executable, "-c", _DYING, moment, *arguments],
        env={**os.environ, "XDG_DATA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -9), done.stderr
    return done.returncode == -9


def runs(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a machine."""
    return subprocess.run(
        [sys.executable, "-m", "wdsctl", *arguments],
        env={**os.environ, "XDG_DATA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
