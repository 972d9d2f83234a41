"""Opens catalog files: read-only and immutable for everybody, or as a draft that nobody else sees yet."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.pool import StaticPool

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.identity import APPLICATION_ID, VERSION, check
from wdsctl.core.catalog.migrations import migrate

#: For a draft. Sorting the key index in memory would break the bound on memory; two threads halve its time.
_BUILD = (
    "journal_mode = OFF",
    "synchronous = OFF",
    "locking_mode = EXCLUSIVE",
    "cache_size = -16384",
    "temp_store = FILE",
    "threads = 2",
)


def open_published(path: str) -> Engine:
    """A published catalog, read-only. It never changes under a reader: writers replace the file.

    Raises CatalogError: WDS301 missing, WDS302 damaged, WDS303 too new.
    """
    check(path)
    return _engine(f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1")


def open_draft(path: str) -> Engine:
    """A catalog under construction. No journal, no syncs: if the run dies, the draft is thrown away.

    One that began as a copy of an older catalog is brought to the present schema.
    """
    is_new = not os.path.exists(path)
    if not is_new:
        migrate(path)
    engine = _engine(f"file:{quote(os.fsencode(path))}", _BUILD)
    if is_new:
        _create(engine)
    return engine


def _create(engine: Engine) -> None:
    schema.metadata.create_all(engine)
    with engine.begin() as connection:
        for name, query in schema.VIEWS.items():
            connection.execute(text(f"CREATE VIEW {name} AS {query}"))
        connection.execute(text(f"PRAGMA application_id = {APPLICATION_ID}"))
        connection.execute(text(f"PRAGMA user_version = {VERSION}"))


def _engine(uri: str, pragmas: Sequence[str] = ()) -> Engine:
    def connect() -> sqlite3.Connection:
        # The driver would open transactions where it sees fit; SQLAlchemy says BEGIN itself.
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=StaticPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine
