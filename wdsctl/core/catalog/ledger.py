"""`ledger.sqlite`: what changes often. Runs, their findings, and the plan of shards that come from a raw folder.

It is a journal: a damaged one is set aside and begun anew.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, Literal

from sqlalchemy import Connection, inspect, select

from wdsctl.core.catalog.ledger_file import (
    connect,
    connect_for_reading,
    connect_to_nothing,
    is_sound,
    translating,
)
from wdsctl.core.catalog.ledger_schema import finding, plan_source, planned_shard, run
from wdsctl.core.files import set_aside
from wdsctl.core.findings import Finding
from wdsctl.core.os_errors import translated
from wdsctl.core.shard_record import ShardRecord, State

Status = Literal["ok", "partial", "failed", "interrupted"]


class Ledger:
    """One open ledger. `notes` says what the user should know about how it was opened."""

    def __init__(self, path: str, connection: Connection, notes: tuple[str, ...] = ()) -> None:
        self.path = path
        self.notes = notes
        self._connection = connection

    @classmethod
    def open(cls, path: str) -> Ledger:
        """Open or create it, with its folder.

        One that is damaged or not ours is renamed to `ledger.sqlite.damaged-N`, and a new one is begun. Raises
        CatalogError WDS303 if it is from a newer wdsctl, StorageError and PermissionDenied.
        """
        with translated(path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
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
            return cls(path, connect_for_reading(path) if is_there else connect_to_nothing())

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def begin_run(
        self, command: str, argv: Sequence[str], *, version: str, details: Mapping[str, Any] | None = None
    ) -> int:
        """Note that a command begins. Returns the run's id. `details` must be JSON; `finish_run` puts others there."""
        with self.transaction() as connection:
            result = connection.execute(
                run.insert().values(
                    uuid=str(uuid.uuid4()),
                    command=command,
                    argv=json.dumps(list(argv), ensure_ascii=True),
                    version=version,
                    started_at=_now(),
                    details=None if details is None else json.dumps(dict(details)),
                )
            )
            return result.lastrowid

    def finish_run(self, run_id: int, status: Status, details: Mapping[str, Any] | None = None) -> None:
        """Note how a run ended. `details` must be JSON."""
        with self.transaction() as connection:
            connection.execute(
                run.update()
                .where(run.c.id == run_id)
                .values(finished_at=_now(), status=status, details=json.dumps(dict(details or {})))
            )

    def runs(self) -> list[dict[str, Any]]:
        """Every run, the oldest first, with `argv` and `details` as values."""
        with self.transaction() as connection:
            rows = connection.execute(select(run).order_by(run.c.id)).mappings().all()
        return [{**row, "argv": json.loads(row["argv"]), "details": json.loads(row["details"] or "{}")} for row in rows]

    def add_findings(self, run_id: int, findings: Iterable[Finding]) -> None:
        rows = [{"run_id": run_id, **asdict(found)} for found in findings]
        if rows:
            with self.transaction() as connection:
                connection.execute(finding.insert(), rows)

    def findings(self, run_id: int) -> list[Finding]:
        """What a run found, in the order it was noted."""
        names = [field.name for field in fields(Finding)]
        columns = [finding.c[name] for name in names]
        with self.transaction() as connection:
            rows = connection.execute(select(*columns).where(finding.c.run_id == run_id).order_by(finding.c.id)).all()
        return [Finding(**dict(zip(names, row, strict=True))) for row in rows]

    def planned_shards(self) -> list[ShardRecord]:
        """The plan of the last `prepare` from a raw folder, in order; empty if there was none."""
        columns = [planned_shard.c[name] for name in ShardRecord._fields]
        with self.transaction() as connection:
            rows = connection.execute(select(*columns).order_by(planned_shard.c.ordinal)).all()
        return [ShardRecord(*row) for row in rows]

    def plan_source(self) -> str | None:
        """The folder that the plan was made from; None where that is not known."""
        with self.transaction() as connection:
            if not inspect(connection).has_table(plan_source.name):  # a ledger of schema version 1, opened by `peek`
                return None
            path = connection.execute(select(plan_source.c.path)).scalar()
        return None if path is None else os.fsdecode(path)

    def replace_plan(self, records: Sequence[ShardRecord], source: str | None = None) -> None:
        """Put this plan, made from the folder `source`, in the place of the last one, in one transaction."""
        with self.transaction() as connection:
            connection.execute(plan_source.delete())
            if source is not None:
                connection.execute(plan_source.insert(), {"path": os.fsencode(source)})
            connection.execute(planned_shard.delete())
            if records:
                connection.execute(planned_shard.insert(), [record._asdict() for record in records])

    def mark_done(self, name: str, state: State = "done") -> None:
        """Note that a shard is in its place."""
        with self.transaction() as connection:
            connection.execute(planned_shard.update().where(planned_shard.c.name == name).values(state=state))

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """The connection, for modules of this folder that keep tables of their own in the ledger."""
        with translating(self.path), self._connection.begin():
            yield self._connection


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
