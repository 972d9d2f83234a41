"""A join is computed once for the same inputs and stored in a writable folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.core.joins.test_join_index import make_side
from wdsctl.core.errors import DatasetError, PermissionDenied
from wdsctl.core.files import make_folder
from wdsctl.core.joins import index
from wdsctl.core.joins.index import JOINS_FOLDER, MAX_FILES_PER_JOIN, open_join, write_join


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def computed_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the computed join files."""
    paths: list[str] = []

    def record_and_write(path: str, *given: object) -> None:
        paths.append(path)
        write_join(path, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(index, "write_join", record_and_write)
    return paths


def list_joins(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / JOINS_FOLDER).iterdir())


def test_open_join_computes_join_once_for_same_data(tmp_path: Path, computed_paths: list[str]) -> None:
    for _ in range(3):
        join = open_join(str(tmp_path), make_side(["a", "b"]), [make_side(["b", "a"])])
        assert join.partners(0, np.arange(2)).tolist() == [1, 0]

    assert len(computed_paths) == len(list_joins(tmp_path)) == 1


def test_open_join_recomputes_for_other_data_and_removes_old_joins(tmp_path: Path, computed_paths: list[str]) -> None:
    for count in range(6):
        open_join(str(tmp_path), make_side(["a"]), [make_side(["a", *map(str, range(count))])])

    assert (len(computed_paths), len(list_joins(tmp_path))) == (6, MAX_FILES_PER_JOIN)


def test_open_join_keeps_joins_of_other_datasets(tmp_path: Path) -> None:
    open_join(str(tmp_path), make_side(["a"]), [make_side(["a"], name="other")])
    for count in range(5):
        open_join(str(tmp_path), make_side(["a"]), [make_side(["a", *map(str, range(count))])])

    assert len(list_joins(tmp_path)) == MAX_FILES_PER_JOIN + 1


def test_open_join_recomputes_damaged_join(tmp_path: Path, computed_paths: list[str]) -> None:
    open_join(str(tmp_path), make_side(["a"]), [make_side(["a"])])
    (path,) = (tmp_path / JOINS_FOLDER).iterdir()
    path.write_bytes(b"nonsense")

    assert open_join(str(tmp_path), make_side(["a"]), [make_side(["a"])]).partners(0, np.arange(1)).tolist() == [0]
    assert len(computed_paths) == 2


def test_failed_join_leaves_no_files(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no partner"):
        open_join(str(tmp_path), make_side(["a"]), [make_side(["b"])])

    assert list_joins(tmp_path) == []


def test_joins_of_read_only_folder_are_stored_in_user_cache(
    tmp_path: Path, computed_paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = str(tmp_path / "meta" / JOINS_FOLDER)
    monkeypatch.setattr(
        index, "make_folder", lambda folder: _denied(folder) if folder == denied else make_folder(folder)
    )

    for _ in range(2):
        open_join(str(tmp_path / "meta"), make_side(["a"]), [make_side(["a"])])

    assert len(computed_paths) == len(list_joins(tmp_path / "cache" / "wdsctl")) == 1


def test_open_join_without_writable_folder_hints_at_xdg_cache_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "make_folder", _denied)

    with pytest.raises(PermissionDenied, match="cannot write a join") as raised:
        open_join(str(tmp_path), make_side(["a"]), [make_side(["a"])])
    assert "XDG_CACHE_HOME" in raised.value.hint


def test_open_join_removes_old_partial_files(tmp_path: Path) -> None:
    (tmp_path / JOINS_FOLDER).mkdir()
    old, new = (tmp_path / JOINS_FOLDER / f".join-{name}.partial" for name in ("old", "new"))
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))

    open_join(str(tmp_path), make_side(["a"]), [make_side(["a"])])

    assert not old.exists()
    assert new.exists()


def _denied(folder: str) -> str:
    raise PermissionDenied("may not write", where=folder, hint="")
