"""What a catalog has at this moment, in three numbers. Standard library alone, and no error where there is none."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from urllib.parse import quote

from wdsctl.core.catalog.identity import DAMAGE, check
from wdsctl.core.errors import WdsctlError


def present_state(path: str) -> dict[str, int] | None:
    """Generation, shards and samples of the catalog at `path`; None where there is none that can be read."""
    try:
        check(path)
        uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            generation = connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()[0]
            query = "SELECT count(*), coalesce(sum(samples), 0) FROM shard WHERE removed IS NULL"
            shards, samples = connection.execute(query).fetchone()
            return {"generation": int(generation), "shards": shards, "samples": samples}
    except (*DAMAGE, WdsctlError, ValueError, TypeError):
        return None
