"""What makes catalogs and ledgers without SQLAlchemy is what SQLAlchemy makes of the schemas."""

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


def test_the_texts_are_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "schema_text.py"))["texts"]()

    assert made == {name: (FOLDER / name).read_text(encoding="utf-8") for name in ("catalog.sql", "ledger.sql")}


@pytest.mark.parametrize(
    ("statements", "metadata", "views"),
    [
        (catalog_statements(), schema.catalog_metadata, set(VIEWS)),
        (ledger_statements(), schema.ledger_metadata, set()),
    ],
)
def test_the_statements_make_every_table_to_the_letter(
    statements: list[str], metadata: MetaData, views: set[str]
) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        made = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index')"))
        assert {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")} == views
    engine = create_engine("sqlite://")
    with engine.begin() as layer:
        metadata.create_all(layer)
        assert set(metadata.tables) == set(inspect(layer).get_table_names())
        query = "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index')"
        wanted = {name: text for name, text in layer.exec_driver_sql(query)}  # noqa: C416
    engine.dispose()

    assert made == wanted


def test_a_ledger_keeps_the_tables_that_it_has() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in (*ledger_statements(), "INSERT INTO renamed VALUES (x'00')", *ledger_statements()):
            connection.execute(statement)

        assert connection.execute("SELECT count(*) FROM renamed").fetchone() == (1,)
