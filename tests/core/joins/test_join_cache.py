"""A join is computed once for what it is made of, and kept where it can be written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.core.joins.test_join_index import side
from wdsctl.core.errors import DatasetError, PermissionDenied
from wdsctl.core.files import make_folder
from wdsctl.core.joins import index
from wdsctl.core.joins.index import JOINS_FOLDER, MAX_FILES_PER_JOIN, open_join, write_join


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were computed."""
    paths: list[str] = []

    def counted(path: str, *given: object) -> None:
        paths.append(path)
        write_join(path, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(index, "write_join", counted)
    return paths


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / JOINS_FOLDER).iterdir())


def test_a_join_is_computed_once_for_the_same_data(tmp_path: Path, computed: list[str]) -> None:
    for _ in range(3):
        join = open_join(str(tmp_path), side(["a", "b"]), [side(["b", "a"])])
        assert join.partners(0, np.arange(2)).tolist() == [1, 0]

    assert len(computed) == len(kept(tmp_path)) == 1


def test_other_data_is_another_join_and_old_ones_are_swept(tmp_path: Path, computed: list[str]) -> None:
    for count in range(6):
        open_join(str(tmp_path), side(["a"]), [side(["a", *map(str, range(count))])])

    assert (len(computed), len(kept(tmp_path))) == (6, MAX_FILES_PER_JOIN)


def test_a_join_of_other_datasets_is_not_swept(tmp_path: Path) -> None:
    open_join(str(tmp_path), side(["a"]), [side(["a"], name="other")])
    for count in range(5):
        open_join(str(tmp_path), side(["a"]), [side(["a", *map(str, range(count))])])

    assert len(kept(tmp_path)) == MAX_FILES_PER_JOIN + 1


def test_a_damaged_join_is_made_anew(tmp_path: Path, computed: list[str]) -> None:
    open_join(str(tmp_path), side(["a"]), [side(["a"])])
    (path,) = (tmp_path / JOINS_FOLDER).iterdir()
    path.write_bytes(b"nonsense")

    assert open_join(str(tmp_path), side(["a"]), [side(["a"])]).partners(0, np.arange(1)).tolist() == [0]
    assert len(computed) == 2


def test_what_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no partner"):
        open_join(str(tmp_path), side(["a"]), [side(["b"])])

    assert kept(tmp_path) == []


def test_a_folder_that_cannot_be_written_has_its_joins_in_the_users_cache(
    tmp_path: Path, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = str(tmp_path / "meta" / JOINS_FOLDER)
    monkeypatch.setattr(
        index, "make_folder", lambda folder: _denied(folder) if folder == denied else make_folder(folder)
    )

    for _ in range(2):
        open_join(str(tmp_path / "meta"), side(["a"]), [side(["a"])])

    assert len(computed) == len(kept(tmp_path / "cache" / "wdsctl")) == 1


def test_where_nothing_can_be_written_the_error_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "make_folder", _denied)

    with pytest.raises(PermissionDenied, match="cannot write a join") as raised:
        open_join(str(tmp_path), side(["a"]), [side(["a"])])
    assert "XDG_CACHE_HOME" in raised.value.hint


def test_a_draft_that_somebody_left_is_swept_a_day_later(tmp_path: Path) -> None:
    (tmp_path / JOINS_FOLDER).mkdir()
    old, new = (tmp_path / JOINS_FOLDER / f".join-{name}.partial" for name in ("old", "new"))
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))

    open_join(str(tmp_path), side(["a"]), [side(["a"])])

    assert not old.exists()
    assert new.exists()


def _denied(folder: str) -> str:
    raise PermissionDenied("may not write", where=folder, hint="")
