"""The SQL files that create catalogs and ledgers equal what SQLAlchemy generates from the schemas."""

from __future__ import annotations

import runpy
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import MetaData, create_engine, inspect

from tests.docs.pages import ROOT
from wdsctl.core.catalog import schema
from wdsctl.core.catalog.database_file import catalog_statements, ledger_statements
from wdsctl.core.catalog.open_catalog import VIEWS

FOLDER = ROOT / "wdsctl" / "core" / "catalog"


def test_schema_sql_files_are_up_to_date() -> None:
    actual = runpy.run_path(str(ROOT / "docs" / "schema_text.py"))["texts"]()

    assert actual == {name: (FOLDER / name).read_text(encoding="utf-8") for name in ("catalog.sql", "ledger.sql")}


@pytest.mark.parametrize(
    ("statements", "metadata", "views"),
    [
        (catalog_statements(), schema.catalog_metadata, set(VIEWS)),
        (ledger_statements(), schema.ledger_metadata, set()),
    ],
)
def test_statements_create_same_tables_as_sqlalchemy(
    statements: list[str], metadata: MetaData, views: set[str]
) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        actual = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index')"))
        assert {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")} == views
    engine = create_engine("sqlite://")
    with engine.begin() as sqlalchemy_connection:
        metadata.create_all(sqlalchemy_connection)
        assert set(metadata.tables) == set(inspect(sqlalchemy_connection).get_table_names())
        query = "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index')"
        expected = {name: text for name, text in sqlalchemy_connection.exec_driver_sql(query)}  # noqa: C416
    engine.dispose()

    assert actual == expected


def test_ledger_statements_keep_existing_tables() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in (*ledger_statements(), "INSERT INTO renamed VALUES (x'00')", *ledger_statements()):
            connection.execute(statement)

        assert connection.execute("SELECT count(*) FROM renamed").fetchone() == (1,)
