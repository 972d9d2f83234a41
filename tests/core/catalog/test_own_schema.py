from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.core.catalog.test_schema import rebuilt
from wdsctl.core.catalog.identity import VERSION
from wdsctl.core.catalog.own_schema import catalog_schema, foreign_entry, ledger_schema
from wdsctl.core.catalog.schema_text import ledger_statements


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_catalogs_of_all_versions_are_ours_however_they_were_made(tmp_path: Path, version: int) -> None:
    with closing(sqlite3.connect(rebuilt(tmp_path, version))) as connection:
        assert foreign_entry(connection, catalog_schema()) == ""


def test_an_older_ledger_has_fewer_tables() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in ledger_statements()[:3]:
            connection.execute(statement)
        assert foreign_entry(connection, ledger_schema()) == ""


def test_a_statement_counts_and_not_only_the_name(tmp_path: Path) -> None:
    with closing(sqlite3.connect(rebuilt(tmp_path, VERSION))) as connection:
        connection.execute("DROP TABLE former_split")
        connection.execute("CREATE TABLE former_split (split, shard, samples, bits)")
        assert foreign_entry(connection, catalog_schema()) == "it has the table 'former_split', which is none of ours"
