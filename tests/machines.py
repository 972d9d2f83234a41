"""Simulated machines that share a store, each with its own mirror, for the tests of published catalogs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import children
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.progress import SilentProgress

Machines = Callable[[str], Path]


class Notes(SilentProgress):
    """Records the notes for the user."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


def fetch_catalog(url: str) -> DatasetLocation:
    """Fetch the published catalog, as every command does. Returns the location with its mirror."""
    return open_dataset(url).location


def machines_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Return a function that switches to another machine by name and returns its data folder."""

    def switch(name: str) -> Path:
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / name))
        return folder / name

    return switch


#: A program that runs wdsctl and kills itself before or after the n-th call of a function or method.
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


def run_until_killed(home: Path, moment: str, *arguments: str) -> bool:
    """Run a command that kills itself at `moment`, such as `MODULE:CLASS NAME NTH before`. False if it completed."""
    result = children.run(
        [sys.executable, "-c", _DYING, moment, *arguments],
        env={**os.environ, "XDG_DATA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode in (0, -9), result.stderr
    return result.returncode == -9


def run_command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a machine."""
    return children.run(
        [sys.executable, "-m", "wdsctl", *arguments],
        env={**os.environ, "XDG_DATA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
