"""The peers' own environment, `benchmarks/.venv-peers`, built once from peers.txt. About 2 GB and some minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.places import HERE, PEERS, PEERS_PYTHON

_REQUIREMENTS = HERE / "peers.txt"
_MARKER = PEERS / "built-from.txt"


def ensure_peers() -> Path:
    """The peers' Python, installed unless it was built from these very requirements before."""
    requirements = _REQUIREMENTS.read_text()
    if not (_MARKER.is_file() and _MARKER.read_text() == requirements):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(PEERS)], check=True)
        # torch alone and first: a plain resolve of the rest may pull the CUDA build, which is 5 GB.
        _pip(_torch_requirement(requirements))
        _pip("-r", str(_REQUIREMENTS))
        _MARKER.write_text(requirements)
    return PEERS_PYTHON


def _torch_requirement(requirements: str) -> str:
    return next(line for line in requirements.splitlines() if line.startswith("torch=="))


def _pip(*arguments: str) -> None:
    subprocess.run([str(PEERS_PYTHON), "-m", "pip", "install", "--quiet", *arguments], check=True)
