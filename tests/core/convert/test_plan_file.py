"""Plans, and what is done of them, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.convert.plan_file import Done, DoneFile, new_plan
from wdsctl.core.errors import StorageError

DONE = Done(3, 5, 700, "{}", (1, 2), (9,), "[]")


def test_what_is_done_is_known_to_the_same_conversion_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "done.sqlite")
    with DoneFile(path, "one") as done:
        done.add(DONE)
    with DoneFile(path, "one") as done:
        assert done.all() == {3: DONE}
    with DoneFile(path, "other") as done:
        assert done.all() == {}


def test_files_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    (tmp_path / "done.sqlite").mkdir()
    with pytest.raises(StorageError, match="cannot write the plan"):
        DoneFile(str(tmp_path / "done.sqlite"), "one")
    with pytest.raises(StorageError, match="disk is full"):
        _write_on_a_full_disk(str(tmp_path / "plan.sqlite"))
    assert [path.name for path in tmp_path.iterdir()] == ["done.sqlite"]


def _write_on_a_full_disk(path: str) -> None:
    with new_plan(path) as connection:
        connection.execute("COMMIT")
        connection.execute("PRAGMA max_page_count = 10")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", ((str(i), "x" * 999) for i in range(100)))
