"""`ledger.sqlite`: the history of commands with their findings, the plan of shards made from a raw folder, and views.

A view is a name, a definition, and the samples of each shard: memory and time of a row per shard. A damaged ledger is
renamed, and a new one created. Trainings read views, so this file imports only the standard library.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, fields
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, Literal, NamedTuple

from wdsctl.core.catalog.ledger_file import (
    connect_ledger,
    has_ledger,
    translate_ledger_errors,
    translate_view_errors,
)
from wdsctl.core.errors import CatalogError, Finding
from wdsctl.core.file_limits import MAX_HELD_RATIO
from wdsctl.core.files import make_folder, set_aside
from wdsctl.core.json_text import read_json
from wdsctl.core.sqlite_file import check_side_files
from wdsctl.core.text import printable_path

#: `planned`: not written yet. `done`: as recorded. `outdated`: must be rewritten.
ShardState = Literal["planned", "done", "outdated"]

_VIEW_COLUMNS = "name, expression, created_at, generation, samples, hash"


class ShardRecord(NamedTuple):
    """One row of `planned_shard`. `keys` is packed (`unpack_record_keys`); the rest is as in `PlannedShard`."""

    name: str
    ordinal: int
    samples: int
    size_bytes: int
    digest: str
    keys: bytes
    marks: bytes
    state: ShardState


_RUN_COLUMNS = ("id", "uuid", "command", "argv", "version", "started_at", "finished_at", "status", "details")

#: The columns of a finding, by its fields.
_FINDING = {each.name: "byte_offset" if each.name == "offset" else f'"{each.name}"' for each in fields(Finding)}
_INSERT_FINDING = f"INSERT INTO finding (run_id, {', '.join(_FINDING.values())}) VALUES (?{', ?' * len(_FINDING)})"
_INSERT_SHARD = (
    f"INSERT INTO planned_shard ({', '.join(ShardRecord._fields)}) VALUES (?{', ?' * (len(ShardRecord._fields) - 1)})"
)

RunStatus = Literal["ok", "partial", "failed", "interrupted"]


class Ledger:
    """One open ledger, or an empty one without a file, which cannot be written.

    `notes`: messages for the user about how it was opened. `is_damaged`: the file is not readable as a ledger, so this
    one is empty.
    """

    def __init__(
        self,
        path: str,
        connection: sqlite3.Connection | None,
        notes: tuple[str, ...] = (),
        *,
        is_damaged: bool = False,
    ) -> None:
        self.path = path
        self.notes = notes
        self.is_damaged = is_damaged
        self._connection = connection

    @classmethod
    def open(cls, path: str) -> Ledger:
        """Open the ledger, or create it with its folder. Reads the whole file, to check it.

        A file that is damaged or not a ledger is renamed to `ledger.sqlite.damaged-N`, and a new ledger created. Raises
        CatalogError WDS303 if the ledger is from a newer wdsctl, StorageError and PermissionDenied.
        """
        make_folder(os.path.dirname(path))
        with translate_ledger_errors(path):
            try:
                return cls(path, connect_ledger(path, "rwc"))
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                notes = (f"the ledger was damaged: moved it to {set_aside(path, 'damaged')}, and started a new one",)
            return cls(path, connect_ledger(path, "rwc"), notes)

    @classmethod
    def open_for_reading(cls, path: str) -> Ledger:
        """Open the ledger without creating it or writing rows. A missing or damaged ledger reads as empty.

        Reads the whole file, to check it. Raises as `open` does.
        """
        if not has_ledger(path):
            return cls(path, None)
        with translate_ledger_errors(path):
            try:
                return cls(path, connect_ledger(path, "rw"))
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                return cls(path, None, is_damaged=True)

    @classmethod
    def open_for_views(cls, path: str) -> Ledger:
        """Open the ledger to read views. Checks only the schema, not the pages, to be fast. A missing one is empty.

        Raises CatalogError: WDS302 if the ledger is damaged, WDS303 if it is too new, WDS304 if it is locked.
        """
        if not has_ledger(path):
            return cls(path, None)
        with translate_view_errors(path):
            return cls(path, connect_ledger(path, "rw", checks_pages=False))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def begin_run(
        self,
        command: str,
        argv: Sequence[str],
        *,
        version: str,
        details: Mapping[str, Any] | None = None,
        token: str = "",
    ) -> int:
        """Record that a command begins. Returns the run's id. `details` must be JSON; `finish_run` replaces them.

        `token`: 32 hexadecimal digits. If the ledger has a run with this token, that run goes on: it keeps its start
        and its details.
        """
        query = "INSERT INTO run (uuid, command, argv, version, started_at, details) VALUES (?, ?, ?, ?, ?, ?)"
        stored = None if details is None else json.dumps(dict(details))
        run_uuid = str(uuid.UUID(hex=token, version=4) if token else uuid.uuid4())
        values = (run_uuid, command, json.dumps(list(argv), ensure_ascii=True), version, _now(), stored)
        with self.transaction() as connection:
            row = connection.execute("SELECT id FROM run WHERE uuid = ?", (run_uuid,)).fetchone()
            if row is None:
                return int(connection.execute(query, values).lastrowid or 0)
            connection.execute("UPDATE run SET finished_at = NULL, status = NULL WHERE id = ?", row)
            return int(row[0])

    def finish_run(self, run_id: int, status: RunStatus, details: Mapping[str, Any] | None = None) -> None:
        """Record how a run ended. `details` must be JSON."""
        query = "UPDATE run SET finished_at = ?, status = ?, details = ? WHERE id = ?"
        with self.transaction() as connection:
            connection.execute(query, (_now(), status, json.dumps(dict(details or {})), run_id))

    def runs(self, limit: int = 0, *, run_id: int | None = None) -> list[dict[str, Any]]:
        """The last `limit` runs (0: all), or the one with this id; the oldest first, `argv` and `details` parsed."""
        query = f"SELECT {', '.join(_RUN_COLUMNS)} FROM run WHERE ?1 IS NULL OR id = ?1 ORDER BY id DESC LIMIT ?2"
        rows = [dict(zip(_RUN_COLUMNS, row, strict=True)) for row in self.rows(query, run_id, limit or -1)]
        return [
            {**row, "argv": _parse_json(row["argv"], []), "details": _parse_json(row["details"], {})}
            for row in reversed(rows)
        ]

    def count_runs(self) -> int:
        return sum(count for (count,) in self.rows("SELECT count(*) FROM run"))

    def add_findings(self, run_id: int, findings: Iterable[Finding]) -> None:
        rows = [(run_id, *astuple(found)) for found in findings]
        if rows:
            with self.transaction() as connection:
                connection.executemany(_INSERT_FINDING, rows)

    def findings(self, run_id: int) -> list[Finding]:
        """The findings of a run, in the order in which they were stored."""
        query = f"SELECT {', '.join(_FINDING.values())} FROM finding WHERE run_id = ? ORDER BY id"
        return [Finding(**dict(zip(_FINDING, row, strict=True))) for row in self.rows(query, run_id)]

    def planned_shards(self) -> list[ShardRecord]:
        """The plan of the last `prepare` from a raw folder, in order; empty if there was none."""
        query = f"SELECT {', '.join(ShardRecord._fields)} FROM planned_shard ORDER BY ordinal"
        return [ShardRecord(*row) for row in self.rows(query)]

    def plan_source(self) -> str | None:
        """The raw folder of the plan; None if it is not known."""
        # In a damaged file, the index of the table may have other values than the table, whose types are checked.
        paths = (path for (path,) in self.rows("SELECT path FROM plan_source") if isinstance(path, bytes | str))
        return next(map(os.fsdecode, paths), None)

    def replace_plan(self, records: Sequence[ShardRecord], source: str | None = None) -> None:
        """Replace the plan by `records`, made from the folder `source`, in one transaction."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM plan_source")
            if source is not None:
                connection.execute("INSERT INTO plan_source (path) VALUES (?)", (os.fsencode(source),))
            connection.execute("DELETE FROM planned_shard")
            connection.executemany(_INSERT_SHARD, records)

    def set_shard_state(self, name: str, state: ShardState = "done") -> None:
        """Record the state of a shard."""
        with self.transaction() as connection:
            connection.execute("UPDATE planned_shard SET state = ? WHERE name = ?", (state, name))

    def views(self) -> list[StoredView]:
        """All views, by name."""
        with translate_view_errors(self.path):
            return [StoredView(*row) for row in self._rows(f"SELECT {_VIEW_COLUMNS} FROM view ORDER BY name")]

    def view(self, name: str) -> tuple[StoredView, list[ViewShard]] | None:
        """A view with its shards, by path; None if no view has this name."""
        shards = "SELECT shard, layout_hash, samples, bits FROM view_shard WHERE view = ? ORDER BY shard"
        with translate_view_errors(self.path), self._snapshot():
            for row in self._rows(f"SELECT {_VIEW_COLUMNS} FROM view WHERE name = ?", name):
                return StoredView(*row), [ViewShard(*each) for each in self._rows(shards, name)]
        return None

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; none if the ledger is empty."""
        with translate_ledger_errors(self.path):
            return self._rows(query, *values)

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        if self._connection is None:
            return []
        check_side_files(self.path)
        return self._connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection in a transaction, which is rolled back if the block raises."""
        with translate_ledger_errors(self.path), self._snapshot():
            if self._connection is None:
                raise sqlite3.OperationalError("unable to open the ledger, which was opened for reading")
            yield self._connection

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """What the block reads is of one moment."""
        if self._connection is None:
            yield
            return
        check_side_files(self.path)
        with self._connection:
            self._connection.execute("BEGIN")
            yield


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _parse_json(text: str | None, default: Any) -> Any:
    """The parsed text, or `default` if it is invalid: one damaged row must not hide the others."""
    try:
        value = read_json(text or "null")
    except ValueError:
        return default
    return value if isinstance(value, type(default)) else default


MIN_KEYS_BYTES = 1 << 20  # come out of any packed keys


def pack_keys(keys: Iterable[str]) -> bytes:
    """Compress keys, separated by zero bytes, which no file name contains."""
    return zlib.compress("\0".join(keys).encode(), 1)


def unpack_record_keys(record: ShardRecord) -> list[str]:
    """The keys of a planned shard. Raises CatalogError WDS302 if they are damaged: the ledger may come from a store."""
    limit = max(MIN_KEYS_BYTES, MAX_HELD_RATIO * len(record.keys))
    unpacker = zlib.decompressobj()
    try:
        keys = unpacker.decompress(record.keys, limit).decode()
        are_whole = unpacker.eof and keys.count("\0") + 1 == max(1, record.samples)
    except (zlib.error, ValueError):
        are_whole = False
    if not are_whole:
        raise CatalogError(
            "the plan in the ledger is damaged: the keys of a shard cannot be read",
            where=printable_path(record.name),
            hint="move `.wdsctl/ledger.sqlite` elsewhere, and run the same command again",
            code="WDS302",
        )
    return keys.split("\0")


class StoredView(NamedTuple):
    """`definition`: the conditions that select samples, as JSON. `generation`: of the catalog they were applied to."""

    name: str
    definition: str
    created_at: str
    generation: int
    samples: int
    hash: str


class ViewShard(NamedTuple):
    """A view's samples of one shard: all if `bits` is None, else those whose bit is set, lowest first."""

    path: str
    layout_hash: str
    samples: int
    bits: bytes | None


def store_view(ledger: Ledger, view: StoredView, shards: Sequence[ViewShard], *, replace: bool) -> bool:
    """Store a view with its shards, in one transaction. Returns False if the name is taken and `replace` is not set."""
    with ledger.transaction() as connection:
        is_known = connection.execute("SELECT 1 FROM view WHERE name = ?", (view.name,)).fetchone() is not None
        if is_known and not replace:
            return False
        connection.execute("DELETE FROM view_shard WHERE view = ?", (view.name,))
        connection.execute("DELETE FROM view WHERE name = ?", (view.name,))
        connection.execute(f"INSERT INTO view ({_VIEW_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", view)
        connection.executemany(
            "INSERT INTO view_shard (view, shard, layout_hash, samples, bits) VALUES (?, ?, ?, ?, ?)",
            [(view.name, *shard) for shard in shards],
        )
    return True


def drop_view(ledger: Ledger, name: str) -> bool:
    """Delete a view. Returns False if no view has this name."""
    with ledger.transaction() as connection:
        connection.execute("DELETE FROM view_shard WHERE view = ?", (name,))
        return connection.execute("DELETE FROM view WHERE name = ?", (name,)).rowcount > 0
