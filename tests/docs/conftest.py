"""A small dataset of real photographs, made once, and a folder with a copy of it for each page."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from wdsctl.core.index.request import IndexRequest, MediaRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WDSCTL_CATALOG", "WDSCTL_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `shards`: 120 samples of 32 x 32, split 8 : 1 : 1."""
    folder = tmp_path_factory.mktemp("made")
    script = str(ROOT / "examples" / "make_raw_folder.py")
    arguments = [str(folder / "raw"), "--samples", "120", "--size", "32"]
    subprocess.run([sys.executable, script, *arguments], check=True, capture_output=True)
    options = PrepareRequest(
        shard_samples=20,
        split={"train": 8, "val": 1, "test": 1},
        index=IndexRequest(media=MediaRequest(selection="auto")),
    )
    prepare(str(folder / "raw"), str(folder / "shards"), options)
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a page's commands run: it has `examples`, as a clone does."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dataset(folder: Path, made: Path) -> Path:
    """The same with the dataset `shards`."""
    shutil.copytree(made / "shards", folder / "shards")
    return folder
