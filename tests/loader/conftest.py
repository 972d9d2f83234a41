"""Fixtures of the loader's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loader import datasets

NAMES = ("data", "anywhere", "one", "two", "data0", "data1", "data2")


@pytest.fixture(scope="session", autouse=True)
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The folder in which `a_dataset` keeps what it has built."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(datasets, "templates", tmp_path_factory.mktemp("templates"))
        yield


@pytest.fixture
def unopened_datasets(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with datasets whose paths are valid but which must not be opened."""
    folder = tmp_path_factory.mktemp("unopened_datasets")
    for name in NAMES:
        meta = folder / name / ".wdsctl"
        meta.mkdir(parents=True)
        (meta / "catalog.sqlite").touch()
    monkeypatch.chdir(folder)
    return folder
