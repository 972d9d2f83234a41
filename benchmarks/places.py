"""Where the benchmarks keep things, and how a path is shown without saying where this machine keeps it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
HERE = REPOSITORY / "benchmarks"
#: Corpora and their conversions, some 25 GB. WDSCTL_BENCH_DATA puts them on another disk.
DATA = Path(os.environ.get("WDSCTL_BENCH_DATA", HERE / ".data")).absolute()
PEERS = HERE / ".venv-peers"
RESULTS = HERE / "results" / "latest.json"
REPORT = REPOSITORY / "docs" / "benchmarks.md"

#: The interpreter of the package under test; its console scripts are in the same folder.
WDSCTL_PYTHON = Path(sys.executable)
PEERS_PYTHON = PEERS / "bin" / "python"


def wdsctl_script(script: str) -> str:
    """The console script of the package under test."""
    return str(WDSCTL_PYTHON.parent / script)


def peer(script: str) -> str:
    """The console script of a peer."""
    return str(PEERS / "bin" / script)


def shown(command: Sequence[str]) -> str:
    """The command line as a reader would type it: no path of this machine is left in it."""
    return " ".join(_shown_word(word) for word in command)


def _shown_word(word: str) -> str:
    path = Path(word)
    if path.is_absolute():
        if path.parent in (WDSCTL_PYTHON.parent, PEERS / "bin"):
            return path.name
        if path.is_relative_to(DATA):
            return f"$DATA/{path.relative_to(DATA)}"
    return f"'{word}'" if set(word) & set(' {}"$') else word
