"""What a catalog has at this moment, in three numbers. Standard library alone, and no error where there is none."""

from __future__ import annotations

from contextlib import closing

from wdsctl.core.catalog.identity import DAMAGE
from wdsctl.core.catalog.published import connect
from wdsctl.core.errors import WdsctlError


def present_state(path: str) -> dict[str, int] | None:
    """Generation, shards and samples of the catalog at `path`; None where there is none that can be read."""
    try:
        with closing(connect(path)) as connection:
            generation = connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()[0]
            query = "SELECT count(*), coalesce(sum(samples), 0) FROM shard WHERE removed IS NULL"
            shards, samples = connection.execute(query).fetchone()
            return {"generation": int(generation), "shards": shards, "samples": samples}
    except (*DAMAGE, WdsctlError, ValueError, TypeError):
        return None
