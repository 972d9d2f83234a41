"""The content of a catalog, without values that differ between two runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from wdsctl.core.dataset.location import locate

TABLES = ("shard", "ext", "sample", "shard_part", "split", "split_shard")


def catalog_of(root: str | Path) -> Path:
    return Path(locate(str(root)).catalog_path)


def query(path: str | Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def dump(root: str | Path) -> dict[str, list[Any]]:
    """Every row of every table, ordered by its key."""
    path = catalog_of(root)
    return {table: query(path, f"SELECT * FROM {table} ORDER BY 1, 2") for table in TABLES}


def split_of(root: str | Path) -> dict[tuple[str, int], str]:
    """(path of the shard, position in it) -> split, for every sample that is in a split."""
    path = catalog_of(root)
    sizes = {row[0]: (row[1], row[2]) for row in query(path, "SELECT id, path, samples FROM shard")}
    split_names: dict[tuple[str, int], str] = {}
    sql = "SELECT split.name, shard, bits FROM split_shard JOIN split ON split.id = split_shard.split"
    for name, shard, bits in query(path, sql):
        shard_path, count = sizes[shard]
        for i in range(count):
            if bits is None or bits[i // 8] >> i % 8 & 1:
                assert (shard_path, i) not in split_names, "in two splits"
                split_names[shard_path, i] = name
    return split_names
