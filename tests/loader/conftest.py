"""Fixtures of the loader's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

NAMES = ("data", "anywhere", "one", "two", "data0", "data1", "data2")


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
