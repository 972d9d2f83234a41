from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.core.catalog.test_schema import restore_golden_catalog
from wdsctl.core.catalog.database_file import catalog_schema, find_schema_problem, ledger_schema, ledger_statements
from wdsctl.core.catalog.open_catalog import CATALOG_SCHEMA_VERSION


@pytest.mark.parametrize("version", range(1, CATALOG_SCHEMA_VERSION + 1))
def test_find_schema_problem_accepts_catalogs_of_all_versions(tmp_path: Path, version: int) -> None:
    with closing(sqlite3.connect(restore_golden_catalog(tmp_path, version))) as connection:
        assert find_schema_problem(connection, catalog_schema()) == ""


def test_find_schema_problem_reports_missing_ledger_table() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in ledger_statements()[:-1]:
            connection.execute(statement)
        assert find_schema_problem(connection, ledger_schema()).endswith(" is missing")


def test_find_schema_problem_compares_statements(tmp_path: Path) -> None:
    with closing(sqlite3.connect(restore_golden_catalog(tmp_path, CATALOG_SCHEMA_VERSION))) as connection:
        connection.execute("DROP TABLE former_split")
        connection.execute("CREATE TABLE former_split (split, shard, samples, bits)")
        assert (
            find_schema_problem(connection, catalog_schema())
            == "it has the table 'former_split', which wdsctl did not create"
        )
