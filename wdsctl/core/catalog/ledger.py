"""`ledger.sqlite`: what changes often. Runs, their findings, and the plan of shards that come from a raw folder.

It is a journal: a damaged one is set aside and begun anew.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, fields
from datetime import datetime, timezone
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal

from wdsctl.core.catalog.ledger_file import (
    connect,
    connect_for_reading,
    connect_to_nothing,
    is_sound,
    translating,
)
from wdsctl.core.files import make_folder, set_aside
from wdsctl.core.findings import Finding
from wdsctl.core.json_text import read_json
from wdsctl.core.shard_record import FormerKeys, ShardRecord, State, pack_keys, unpack_keys
from wdsctl.core.sqlite_file import check_beside

if TYPE_CHECKING:
    from sqlalchemy import Connection

#: The columns of a finding, by its fields.
_FINDING = {each.name: "byte_offset" if each.name == "offset" else f'"{each.name}"' for each in fields(Finding)}
_INSERT_FINDING = f"INSERT INTO finding (run_id, {', '.join(_FINDING.values())}) VALUES (?{', ?' * len(_FINDING)})"
_INSERT_SHARD = (
    f"INSERT INTO planned_shard ({', '.join(ShardRecord._fields)}) VALUES (?{', ?' * (len(ShardRecord._fields) - 1)})"
)

Status = Literal["ok", "partial", "failed", "interrupted"]


class Ledger:
    """One open ledger. `notes` says what the user should know about how it was opened.

    What every run writes goes to the driver as it is, without a wait for SQLAlchemy to be imported.
    """

    def __init__(
        self, path: str, connection: sqlite3.Connection, notes: tuple[str, ...] = (), *, is_file: bool = True
    ) -> None:
        self.path = path
        self._is_file = is_file
        self.notes = notes
        self._connection = connection

    @classmethod
    def open(cls, path: str) -> Ledger:
        """Open or create it, with its folder.

        One that is damaged or not ours is renamed to `ledger.sqlite.damaged-N`, and a new one is begun. Raises
        CatalogError WDS303 if it is from a newer wdsctl, StorageError and PermissionDenied.
        """
        make_folder(os.path.dirname(path))
        notes: tuple[str, ...] = ()
        if not is_sound(path):
            notes = (f"the ledger was damaged; it is now {set_aside(path, 'damaged')}, and a new one has been begun",)
        with translating(path):
            return cls(path, connect(path), notes)

    @classmethod
    def peek(cls, path: str) -> Ledger:
        """Open it to read, making and changing nothing. Where there is none, or a damaged one, it is empty."""
        is_there = os.path.exists(path) and os.path.getsize(path) > 0 and is_sound(path)
        with translating(path):
            return cls(path, connect_for_reading(path) if is_there else connect_to_nothing(), is_file=is_there)

    def close(self) -> None:
        if "_layer" in self.__dict__:
            self._layer.close()
        self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def begin_run(
        self, command: str, argv: Sequence[str], *, version: str, details: Mapping[str, Any] | None = None
    ) -> int:
        """Note that a command begins. Returns the run's id. `details` must be JSON; `finish_run` puts others there."""
        query = "INSERT INTO run (uuid, command, argv, version, started_at, details) VALUES (?, ?, ?, ?, ?, ?)"
        told = None if details is None else json.dumps(dict(details))
        values = (str(uuid.uuid4()), command, json.dumps(list(argv), ensure_ascii=True), version, _now(), told)
        with self._transaction() as connection:
            return int(connection.execute(query, values).lastrowid or 0)

    def finish_run(self, run_id: int, status: Status, details: Mapping[str, Any] | None = None) -> None:
        """Note how a run ended. `details` must be JSON."""
        query = "UPDATE run SET finished_at = ?, status = ?, details = ? WHERE id = ?"
        with self._transaction() as connection:
            connection.execute(query, (_now(), status, json.dumps(dict(details or {})), run_id))

    def runs(self) -> list[dict[str, Any]]:
        """Every run, the oldest first, with `argv` and `details` as values."""
        with self._transaction() as connection:
            found = connection.execute("SELECT * FROM run ORDER BY id")
            names = [column[0] for column in found.description]
            rows = [dict(zip(names, row, strict=True)) for row in found]
        return [{**row, "argv": read_json(row["argv"]), "details": read_json(row["details"] or "{}")} for row in rows]

    def add_findings(self, run_id: int, findings: Iterable[Finding]) -> None:
        rows = [(run_id, *astuple(found)) for found in findings]
        if rows:
            with self._transaction() as connection:
                connection.executemany(_INSERT_FINDING, rows)

    def findings(self, run_id: int) -> list[Finding]:
        """What a run found, in the order it was noted."""
        with self._transaction() as connection:
            query = f"SELECT {', '.join(_FINDING.values())} FROM finding WHERE run_id = ? ORDER BY id"
            rows = connection.execute(query, (run_id,)).fetchall()
        return [Finding(**dict(zip(_FINDING, row, strict=True))) for row in rows]

    def planned_shards(self) -> list[ShardRecord]:
        """The plan of the last `prepare` from a raw folder, in order; empty if there was none."""
        with self._transaction() as connection:
            query = f"SELECT {', '.join(ShardRecord._fields)} FROM planned_shard ORDER BY ordinal"
            return [ShardRecord(*row) for row in connection.execute(query)]

    def plan_source(self) -> str | None:
        """The folder that the plan was made from; None where that is not known."""
        with self._transaction() as connection:
            query = "SELECT 1 FROM sqlite_master WHERE name = 'plan_source'"
            if connection.execute(query).fetchone() is None:  # a ledger of schema version 1, opened by `peek`
                return None
            row = connection.execute("SELECT path FROM plan_source").fetchone()
        return None if row is None else os.fsdecode(row[0])

    def former_keys(self) -> dict[str, FormerKeys]:
        """By shard, the keys that samples had before they were renamed, where the catalog may have these."""
        with self._transaction() as connection:
            query = "SELECT 1 FROM sqlite_master WHERE name = 'former_key'"
            if connection.execute(query).fetchone() is None:  # a ledger of schema version 1 to 4, opened by `peek`
                return {}
            rows = connection.execute("SELECT shard, layout_hash, keys, former FROM former_key").fetchall()
        return {
            shard: FormerKeys(layout, dict(zip(unpack_keys(keys), unpack_keys(former), strict=True)))
            for shard, layout, keys, former in rows
        }

    def forget_former_keys(self) -> None:
        """The catalog has the keys of all shards that are there as planned."""
        done = "SELECT name FROM planned_shard WHERE state = 'done'"
        with self._transaction() as connection:
            connection.execute(f"DELETE FROM former_key WHERE shard IN ({done})")

    def replace_plan(
        self,
        records: Sequence[ShardRecord],
        source: str | None = None,
        former: Mapping[str, FormerKeys] = MappingProxyType({}),
    ) -> None:
        """Put this plan, made from the folder `source`, in the place of the last one, in one transaction."""
        packed = [
            (shard, layout, pack_keys(keys), pack_keys(keys.values())) for shard, (layout, keys) in former.items()
        ]
        with self._transaction() as connection:
            connection.execute("DELETE FROM former_key")
            connection.executemany("INSERT INTO former_key VALUES (?, ?, ?, ?)", packed)
            connection.execute("DELETE FROM plan_source")
            if source is not None:
                connection.execute("INSERT INTO plan_source (path) VALUES (?)", (os.fsencode(source),))
            connection.execute("DELETE FROM planned_shard")
            connection.executemany(_INSERT_SHARD, records)

    def mark_done(self, name: str, state: State = "done") -> None:
        """Note that a shard is in its place."""
        with self._transaction() as connection:
            connection.execute("UPDATE planned_shard SET state = ? WHERE name = ?", (state, name))

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """The connection through SQLAlchemy, for modules of this folder that keep tables of their own in the ledger."""
        with translating(self.path):
            self._check()
            with self._layer.begin():
                yield self._layer

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection in a transaction, which is undone where the block does not end well."""
        with translating(self.path):
            self._check()
            with self._connection:
                self._connection.execute("BEGIN")
                yield self._connection

    def _check(self) -> None:
        """That SQLite's journal would be made by itself; of a ledger in memory there is nothing to be looked at."""
        if self._is_file:
            check_beside(self.path)

    @cached_property
    def _layer(self) -> Connection:
        from wdsctl.core.catalog.engine import layer_over

        return layer_over(self._connection)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
