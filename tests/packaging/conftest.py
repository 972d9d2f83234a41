"""A wheel and an sdist of the working tree, built once for each test process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Built(NamedTuple):
    wheel: Path
    sdist: Path


def copy_sources(folder: Path) -> Path:
    """Copy the files that a build reads, without leftovers of earlier builds and runs in the working tree."""
    folder.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("wdsctl", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for each in ROOT.iterdir():
        if each.is_file() and not each.name.startswith("."):
            shutil.copy2(each, folder)
    return folder


def build(sources: Path, out: Path) -> Built:
    """Build an sdist, and a wheel from it, with `python -m build`. Without isolation nothing is downloaded: `dev` has
    the backend."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(sources)],
        check=True,
        capture_output=True,
        text=True,
        timeout=250,
    )
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return Built(wheel, sdist)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    return build(copy_sources(folder / "sources"), folder / "dist")
