"""A small dataset of photographs, created once, and a working folder with a copy of it for each page."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests import children
from tests.docs.pages import ROOT
from wdsctl.core.index.request import IndexRequest, MediaRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WDSCTL_CATALOG", "WDSCTL_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)  # no worker processes by default


@pytest.fixture(scope="session")
def example_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `shards`: 120 samples of 32 x 32, split 8 : 1 : 1."""
    folder = tmp_path_factory.mktemp("example_data")
    script = str(ROOT / "examples" / "make_raw_folder.py")
    arguments = [str(folder / "raw"), "--samples", "120", "--size", "32"]
    children.run([sys.executable, script, *arguments], check=True, capture_output=True)
    options = PrepareRequest(
        shard_samples=20,
        split={"train": 8, "val": 1, "test": 1},
        index=IndexRequest(media=MediaRequest(selection="auto")),
    )
    prepare(str(folder / "raw"), str(folder / "shards"), options)
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a page's commands; it contains `examples`, like a clone."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dataset(folder: Path, example_data: Path) -> Path:
    """The working folder with the dataset `shards`."""
    shutil.copytree(example_data / "shards", folder / "shards")
    return folder
