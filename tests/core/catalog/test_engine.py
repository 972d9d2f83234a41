from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import text

from wdsctl.core.catalog.engine import layer_over


@pytest.fixture
def driver() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        yield connection


def test_what_was_written_before_stays_and_both_write_into_one_transaction(driver: sqlite3.Connection) -> None:
    driver.execute("BEGIN")
    driver.execute("INSERT INTO t VALUES (1)")
    layer = layer_over(driver)
    layer.begin()
    layer.execute(text("INSERT INTO t VALUES (2)"))
    driver.execute("INSERT INTO t VALUES (3)")
    assert layer.execute(text("SELECT a FROM t ORDER BY a")).scalars().all() == [1, 2, 3]
    driver.commit()
    layer.close()

    assert driver.execute("SELECT count(*) FROM t").fetchone() == (3,)


def test_what_fails_fails_as_the_driver_says_it(driver: sqlite3.Connection) -> None:
    with closing(layer_over(driver)) as layer, pytest.raises(sqlite3.OperationalError, match="no such table: u"):
        layer.execute(text("SELECT * FROM u"))


def test_a_transaction_that_does_not_end_well_is_undone(driver: sqlite3.Connection) -> None:
    with closing(layer_over(driver)) as layer, pytest.raises(sqlite3.IntegrityError), layer.begin():
        layer.execute(text("INSERT INTO t VALUES (1), (1)"))

    assert driver.execute("SELECT count(*) FROM t").fetchone() == (0,)
