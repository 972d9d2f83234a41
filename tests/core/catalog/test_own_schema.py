from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.core.catalog.test_schema import rebuilt
from wdsctl.core.catalog.database_file import catalog_schema, find_schema_problem, ledger_schema, ledger_statements
from wdsctl.core.catalog.open_catalog import CATALOG_SCHEMA_VERSION


@pytest.mark.parametrize("version", range(1, CATALOG_SCHEMA_VERSION + 1))
def test_catalogs_of_all_versions_are_ours_however_they_were_made(tmp_path: Path, version: int) -> None:
    with closing(sqlite3.connect(rebuilt(tmp_path, version))) as connection:
        assert find_schema_problem(connection, catalog_schema()) == ""


def test_a_ledger_that_lacks_a_table_is_none_of_ours() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in ledger_statements()[:-1]:
            connection.execute(statement)
        assert find_schema_problem(connection, ledger_schema()).endswith(" is missing")


def test_a_statement_counts_and_not_only_the_name(tmp_path: Path) -> None:
    with closing(sqlite3.connect(rebuilt(tmp_path, CATALOG_SCHEMA_VERSION))) as connection:
        connection.execute("DROP TABLE former_split")
        connection.execute("CREATE TABLE former_split (split, shard, samples, bits)")
        assert (
            find_schema_problem(connection, catalog_schema())
            == "it has the table 'former_split', which wdsctl did not create"
        )
