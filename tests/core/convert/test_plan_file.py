"""Plans, and what is done of them, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.hostile import statements
from wdsctl.core.convert.plan_file import PlanFile, UnitResult, UnitResultFile, create_plan
from wdsctl.core.errors import CatalogError, InputError, StorageError

DONE = UnitResult(3, 5, 700, "{}", (1, 2), (9,), "[]")


def test_what_is_done_is_known_to_the_same_conversion_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "done.sqlite")
    with UnitResultFile(path, "one") as done:
        done.add(DONE)
    with UnitResultFile(path, "one") as done:
        assert done.all() == {3: DONE}
    with UnitResultFile(path, "other") as done:
        assert done.all() == {}


def test_files_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    (tmp_path / "done.sqlite").mkdir()
    with pytest.raises(InputError, match="not a regular file"):
        UnitResultFile(str(tmp_path / "done.sqlite"), "one")
    with pytest.raises(StorageError, match="disk is full"):
        _write_on_a_full_disk(str(tmp_path / "plan.sqlite"))
    assert [path.name for path in tmp_path.iterdir()] == ["done.sqlite"]


def _write_on_a_full_disk(path: str) -> None:
    with create_plan(path) as connection:
        connection.execute("COMMIT")
        connection.execute("PRAGMA max_page_count = 10")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO meta VALUES (?, ?)", ((str(i), "x" * 999) for i in range(100)))


def a_plan(path: Path, *, name: str = "a.tar", folder: str = "") -> str:
    with create_plan(str(path)) as connection:
        connection.execute("INSERT INTO grp VALUES (0, ?)", (folder,))
        connection.execute("INSERT INTO unit VALUES (0, '', 0, ?, 0, 1, 1, 10)", (name,))
    return str(path)


@pytest.mark.parametrize("name", ["../a.tar", "/a.tar", "b/../../a.tar", "a\n.tar", ""])
def test_a_plan_names_no_file_outside_the_destination(tmp_path: Path, name: str) -> None:
    path = a_plan(tmp_path / "plan.sqlite", name=name)
    with PlanFile(path) as plan, pytest.raises(CatalogError) as caught:
        plan.units()
    assert (caught.value.code, caught.value.where) == ("WDS335", path)


def test_a_plan_names_no_folder_outside_the_destination(tmp_path: Path) -> None:
    with (
        PlanFile(a_plan(tmp_path / "plan.sqlite", folder="..")) as plan,
        pytest.raises(CatalogError, match="not below the destination"),
    ):
        plan.units()


@pytest.mark.parametrize(
    "sql", ["CREATE VIEW more AS SELECT 1", "CREATE TRIGGER t AFTER INSERT ON meta BEGIN SELECT 1; END"]
)
def test_a_plan_with_more_than_our_tables_is_damaged(tmp_path: Path, sql: str) -> None:
    path = a_plan(tmp_path / "plan.sqlite")
    statements(sql)(Path(path))
    with pytest.raises(CatalogError, match="which wdsctl did not create"):
        PlanFile(path)


def test_what_is_done_is_not_read_from_a_file_with_more_than_our_tables(tmp_path: Path) -> None:
    path = tmp_path / "done.sqlite"
    with UnitResultFile(str(path), "one") as done:
        done.add(DONE)
    statements("CREATE TRIGGER t AFTER INSERT ON done BEGIN DELETE FROM plan; END")(path)
    with pytest.raises(CatalogError, match="which wdsctl did not create"):
        UnitResultFile(str(path), "one")
