"""Interpreters of environments that `make interop` has built, which read what `export` writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

#: Environment variable: the folder of the environments, if not that of `make interop`.
INTEROP = "INTEROP_ENVIRONMENTS"


def reader(distribution: str) -> str:
    """The interpreter of the newest environment with this package. Skips the test if there is none."""
    folder = Path(os.environ.get(INTEROP, Path(sys.prefix) / "interop"))
    found = sorted(folder.glob(f"{distribution}-*/bin/python"))
    if not found:
        pytest.skip(f"no environment has {distribution}: run `make interop`")
    return str(found[-1])


def run_in(python: str, program: str, *arguments: str, **variables: str) -> str:
    """What a program prints in an environment."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
