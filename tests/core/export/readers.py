"""Python interpreters of environments that `make interop` builds; their libraries read the output of `export`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

#: Environment variable with the folder of the environments, if it is not the one of `make interop`.
INTEROP = "INTEROP_ENVIRONMENTS"


def reader(distribution: str) -> str:
    """The interpreter of the newest environment with this package. Skips the test if there is none."""
    folder = Path(os.environ.get(INTEROP, Path(sys.prefix) / "interop"))
    interpreters = sorted(folder.glob(f"{distribution}-*/bin/python"))
    if not interpreters:
        pytest.skip(f"no environment has {distribution}: run `make interop`")
    return str(interpreters[-1])


def run_in(python: str, program: str, *arguments: str, **variables: str) -> str:
    """The output of a program that runs in an environment."""
    process = subprocess.run(
        [python, "-W", "ignore", "-c", program, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout
