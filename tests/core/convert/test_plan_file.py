"""Plan files and files of unit results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.hostile import statements
from wdsctl.core.convert.plan_file import PlanFile, UnitResult, UnitResultFile, create_plan
from wdsctl.core.errors import CatalogError, InputError, StorageError

RESULT = UnitResult(3, 5, 700, "{}", (1, 2), (9,), "[]")


def test_unit_results_are_read_only_by_same_conversion(tmp_path: Path) -> None:
    path = str(tmp_path / "units.sqlite")
    with UnitResultFile(path, "one") as results:
        results.add(RESULT)
    with UnitResultFile(path, "one") as results:
        assert results.all() == {3: RESULT}
    with UnitResultFile(path, "other") as results:
        assert results.all() == {}


def test_unwritable_plan_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "units.sqlite").mkdir()
    with pytest.raises(InputError, match="not a regular file"):
        UnitResultFile(str(tmp_path / "units.sqlite"), "one")
    with pytest.raises(StorageError, match="disk is full"):
        _write_to_full_disk(str(tmp_path / "plan.sqlite"))
    assert [path.name for path in tmp_path.iterdir()] == ["units.sqlite"]


def _write_to_full_disk(path: str) -> None:
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
def test_unit_path_outside_destination_is_refused(tmp_path: Path, name: str) -> None:
    path = a_plan(tmp_path / "plan.sqlite", name=name)
    with PlanFile(path) as plan, pytest.raises(CatalogError) as caught:
        plan.units()
    assert (caught.value.code, caught.value.where) == ("WDS335", path)


def test_unit_folder_outside_destination_is_refused(tmp_path: Path) -> None:
    with (
        PlanFile(a_plan(tmp_path / "plan.sqlite", folder="..")) as plan,
        pytest.raises(CatalogError, match="not below the destination"),
    ):
        plan.units()


@pytest.mark.parametrize(
    "sql", ["CREATE VIEW more AS SELECT 1", "CREATE TRIGGER t AFTER INSERT ON meta BEGIN SELECT 1; END"]
)
def test_plan_with_foreign_tables_or_triggers_is_refused(tmp_path: Path, sql: str) -> None:
    path = a_plan(tmp_path / "plan.sqlite")
    statements(sql)(Path(path))
    with pytest.raises(CatalogError, match="which wdsctl did not create"):
        PlanFile(path)


def test_unit_results_with_foreign_triggers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "units.sqlite"
    with UnitResultFile(str(path), "one") as results:
        results.add(RESULT)
    statements("CREATE TRIGGER t AFTER INSERT ON done BEGIN DELETE FROM plan; END")(path)
    with pytest.raises(CatalogError, match="which wdsctl did not create"):
        UnitResultFile(str(path), "one")
