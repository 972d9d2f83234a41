"""The costs of the checks, and what they let pass; `tests/security/test_hostile_catalogs.py` tests what they refuse."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.core.catalog.drafts import open_draft
from tests.core.dumps import catalog_of
from wdsctl.core.catalog.database_file import catalog_schema, error_text, find_page_problem, open_database
from wdsctl.core.index.index import index


def a_catalog(tmp_path: Path) -> str:
    index(some_shards(tmp_path, 2))
    return str(catalog_of(tmp_path))


def test_open_database_adds_less_than_half_a_millisecond(tmp_path: Path) -> None:
    path = a_catalog(tmp_path)

    def open_plain() -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("SELECT 1 FROM meta").fetchone()

    def open_checked() -> None:
        with closing(open_database(path, catalog_schema())) as connection:
            connection.execute("SELECT 1 FROM meta").fetchone()

    def best_time(run: object) -> float:
        best = 1.0
        for _ in range(200):
            start = time.process_time()
            run()  # type: ignore[operator]
            best = min(best, time.process_time() - start)
        return best

    assert best_time(open_checked) - best_time(open_plain) < 0.000_5


def test_find_page_problem_is_empty_for_valid_catalog(tmp_path: Path) -> None:
    assert find_page_problem(a_catalog(tmp_path)) == ""


def test_error_text_of_interrupted_statement_raises_keyboard_interrupt(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        error_text(a_catalog(tmp_path), sqlite3.OperationalError("interrupted"))


def test_open_database_allows_long_statement(tmp_path: Path) -> None:
    with closing(open_database(a_catalog(tmp_path), catalog_schema())) as connection:
        query = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000) SELECT count(*) FROM n"
        )
        assert connection.execute(query).fetchone() == (2_000_000,)


def test_new_draft_allows_long_statement(tmp_path: Path) -> None:
    with open_draft(str(tmp_path / "catalog.sqlite")) as draft:
        query = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000) SELECT count(*) FROM n"
        )
        assert draft._connection.execute(query).fetchone() == (2_000_000,)
    assert find_page_problem(str(tmp_path / "catalog.sqlite")) == ""
