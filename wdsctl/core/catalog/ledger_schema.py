"""The tables of `ledger.sqlite`, schema version 5.

Version 1 has the first three alone, version 2 `plan_source` too, version 3 no `known`, version 4 no `former_key`.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, MetaData, Table, Text

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

#: One row a shard with samples that were renamed in the raw folder, until the catalog has their new keys.
former_key = Table(
    "former_key",
    metadata,
    Column("shard", Text, primary_key=True),  # its path
    Column("layout_hash", Text, nullable=False),  # of the shard in the catalog that has the old keys
    Column("keys", LargeBinary, nullable=False),  # packed like those of `planned_shard`: new ones
    Column("former", LargeBinary, nullable=False),  # the old ones, in the same order
)

#: One row a named selection of samples. `hash` names the samples that it has, whatever the catalog they are found in.
view = Table(
    "view",
    metadata,
    Column("name", Text, primary_key=True),
    Column("expression", Text, nullable=False),
    Column("created_at", Text, nullable=False),  # UTC, ISO 8601
    Column("generation", Integer, nullable=False),  # of the catalog that it was made from
    Column("samples", Integer, nullable=False),
    Column("hash", Text, nullable=False),
)

#: Which samples of which shard a view has. By path and layout, not by id: a catalog may be made anew.
view_shard = Table(
    "view_shard",
    metadata,
    Column("view", Text, primary_key=True),
    Column("shard", Text, primary_key=True),  # its path
    Column("layout_hash", Text, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("bits", LargeBinary),  # one bit a sample, lowest first; null means the whole shard
    sqlite_with_rowid=False,
)

#: What was validated, how, and with what result: see `ledger_checks.py`.
known = Table(
    "known",
    metadata,
    Column("shard", Text, primary_key=True),
    Column("level", Text, primary_key=True),
    Column("reach", Text, primary_key=True),  # how many of its samples were looked at: all, some or none
    Column("layout_hash", Text, nullable=False),  # of the shard when it was looked at
    Column("mark", LargeBinary, nullable=False),
    Column("findings", Text, nullable=False),  # JSON list
    sqlite_with_rowid=False,
)

#: What `validate --quarantine` keeps out of all splits: a whole shard where `key` is empty and `place` null.
quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("shard", Text, nullable=False),
    Column("layout_hash", Text, nullable=False),
    Column("place", Integer),  # of the sample in the shard, from 0
    Column("key", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("run_id", Integer, nullable=False),
)

#: At most one row: the renaming that was carried over last. A run that was killed before its catalog was published does
#: it once more, and names may have gone from one shard to another.
renamed = Table("renamed", metadata, Column("mark", LargeBinary, nullable=False))
