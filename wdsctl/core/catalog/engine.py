"""SQLAlchemy over catalog and ledger files: a published catalog, read-only, or a connection that somebody has open."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.pool import StaticPool

from wdsctl.core.catalog.identity import check
from wdsctl.core.catalog.published import connect as connect_published


def open_published(path: str) -> Engine:
    """A published catalog, read-only. It never changes under a reader: writers replace the file.

    Raises CatalogError: WDS301 missing, WDS302 damaged, WDS303 too new.
    """
    check(path)

    def connect() -> sqlite3.Connection:
        # In autocommit: the driver would open transactions where it sees fit; SQLAlchemy says BEGIN itself.
        return connect_published(path, check_same_thread=False)

    return _engine(connect)


def layer_over(driver: sqlite3.Connection) -> Connection:
    """The same connection through SQLAlchemy. What fails in it is raised as the driver raises it.

    A transaction that is open is committed: SQLAlchemy would undo it when it looks at the database. Closing the result
    leaves `driver` open.
    """
    driver.commit()

    def connect() -> sqlite3.Connection:
        return driver

    engine = _engine(connect)
    event.listen(engine, "handle_error", _as_it_was)
    return engine.connect()


def _engine(connect: Callable[[], sqlite3.Connection]) -> Engine:
    engine = create_engine("sqlite://", creator=connect, poolclass=StaticPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _as_it_was(context: ExceptionContext) -> None:
    if isinstance(context.original_exception, sqlite3.Error):
        raise context.original_exception
