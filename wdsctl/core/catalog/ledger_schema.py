"""The tables of `ledger.sqlite`, schema version 2: version 1 has no `plan_source`."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, MetaData, Table, Text

APPLICATION_ID = 0x5744534C  # "WDSL"
VERSION = 2

metadata = MetaData()

#: One row a command that ran. `status` is null while it runs, and for ever if it was killed.
run = Table(
    "run",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("uuid", Text, nullable=False, unique=True),
    Column("command", Text, nullable=False),
    Column("argv", Text, nullable=False),  # JSON list
    Column("version", Text, nullable=False),
    Column("started_at", Text, nullable=False),  # UTC, ISO 8601
    Column("finished_at", Text),
    Column("status", Text),
    Column("details", Text),  # JSON object
)

finding = Table(
    "finding",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", Integer, ForeignKey("run.id"), nullable=False, index=True),
    Column("code", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("shard", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("part", Text, nullable=False),
    Column("byte_offset", Integer, key="offset"),
    Column("count", Integer, nullable=False),
    Column("message", Text, nullable=False),
)

planned_shard = Table(
    "planned_shard",
    metadata,
    Column("name", Text, primary_key=True),
    Column("ordinal", Integer, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("digest", Text, nullable=False),
    Column("keys", LargeBinary, nullable=False),
    Column("marks", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
)

#: At most one row: where the plan's samples come from.
plan_source = Table(
    "plan_source",
    metadata,
    Column("path", LargeBinary, primary_key=True),  # resolved; bytes, since a path need not be UTF-8
)
