"""Fixtures of the loader's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

NAMES = ("data", "anywhere", "one", "two", "data0", "data1", "data2")


@pytest.fixture
def unopened(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with datasets in it that may be named and not opened."""
    folder = tmp_path_factory.mktemp("unopened")
    for name in NAMES:
        meta = folder / name / ".wdsctl"
        meta.mkdir(parents=True)
        (meta / "catalog.sqlite").touch()
    monkeypatch.chdir(folder)
    return folder
