"""Stores the results of `validate` in the ledger: findings with their samples, checks of shards, and the quarantine.

A check belongs to one shard, level and reach. The findings of a check of all samples stay until all samples are checked
again. A shard that could not be read has a separate row. Checks of some samples are not stored. `mark` is a digest of
all inputs of the check (size and time of the file, the rules), or empty if they are unknown; a shard with another mark
is checked again. A row names a shard by path and `layout_hash`, so it no longer applies after the shard is rewritten.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Literal, NamedTuple

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.errors import Finding, Severity
from wdsctl.core.json_text import read_json

#: Which samples a check covered: all, or none if the shard could not be read.
CheckReach = Literal["all", "none"]

#: Of one shard, code and part, the samples that findings name. The others are counted, to bound memory and the ledger.
MAX_NAMED_SAMPLES = 1000
#: Of one code in a dataset, the samples that findings name. The following shards name only their first sample.
MAX_NAMED_FINDINGS = 100_000

_MAX_FAULTS_BYTES = 1 << 25  # of the JSON of one finding's faults: 32 KiB for each

_TEMPORARY_PREFIX = "\0"  # no path begins with it; renames go through temporary names, as shards may swap names


class SampleFault(NamedTuple):
    """What is wrong with one sample of a finding. `times`: the number of occurrences in the sample."""

    position: int  # of the sample in the shard
    key: str
    offset: int | None  # bytes
    times: int
    message: str


class LocatedFinding(NamedTuple):
    """A finding of one shard, and the positions of its samples, ascending, from 0; empty if it concerns the shard.

    `covers_shard`: no sample of the shard can be trusted. `faults`: the first `MAX_NAMED_SAMPLES` samples, by position;
    empty if only the first sample is known, which `finding` names.
    """

    finding: Finding
    positions: tuple[int, ...] = ()
    covers_shard: bool = False
    faults: tuple[SampleFault, ...] = ()


class PartToCheck(NamedTuple):
    """One part of one sample, as a level of `validate` checks it."""

    position: int  # of the sample in the shard
    key: str
    part: str
    offset: int  # of the part's first byte in the shard
    size: int  # bytes


@dataclass(slots=True)
class LocatedFindingCollector:
    """Collects the findings of one level in one shard: one finding per code and part, with its samples."""

    shard: str
    _first: dict[tuple[str, str], Finding] = field(default_factory=dict)
    _positions: dict[tuple[str, str], dict[int, None]] = field(default_factory=dict)
    _faults: dict[tuple[str, str], dict[int, SampleFault]] = field(default_factory=dict)
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)  # positions of the samples with an error

    def add(self, code: str, message: str, part: PartToCheck, severity: Severity = "error") -> None:
        kind = (code, part.part)
        if kind not in self._first:
            self._first[kind] = Finding(
                code=code,
                severity=severity,
                message=message,
                shard=self.shard,
                key=part.key,
                part=part.part,
                offset=part.offset,
            )
        if severity == "error":
            self.failed.add(part.position)
        self._positions.setdefault(kind, {})[part.position] = None
        self._counts[kind] = self._counts.get(kind, 0) + 1
        faults = self._faults.setdefault(kind, {})
        if known := faults.get(part.position):
            faults[part.position] = known._replace(times=known.times + 1)
        elif len(faults) < MAX_NAMED_SAMPLES:
            faults[part.position] = SampleFault(part.position, part.key, part.offset, 1, message)

    def to_findings(self) -> tuple[LocatedFinding, ...]:
        return tuple(
            locate_finding(replace(first, count=self._counts[kind]), self._positions[kind], self._faults[kind].values())
            for kind, first in self._first.items()
        )


def locate_finding(
    finding: Finding, positions: Iterable[int], faults: Iterable[SampleFault], *, covers_shard: bool = False
) -> LocatedFinding:
    """Build a finding of samples in any order. Keeps no faults if there is one sample, which the finding names."""
    ascending = tuple(sorted(positions))
    named = tuple(sorted(faults))[:MAX_NAMED_SAMPLES] if len(ascending) > 1 else ()
    return LocatedFinding(finding, ascending, covers_shard, named)


def name_samples(located: LocatedFinding) -> Iterator[Finding]:
    """One finding per named sample, then one that counts the others. Their counts add up to that of `located`."""
    if not located.faults:
        yield located.finding
        return
    for fault in located.faults:
        yield replace(located.finding, key=fault.key, offset=fault.offset, count=fault.times, message=fault.message)
    rest = located.finding.count - sum(fault.times for fault in located.faults)
    if rest > 0:
        message = f"more samples of this shard, after the first {len(located.faults):,}"
        yield replace(located.finding, key="", offset=None, count=rest, message=message)


def located_findings_to_json(found: Iterable[LocatedFinding]) -> str:
    """Findings as JSON for the ledger, which `located_findings_from_json` parses."""
    rows = [[asdict(each.finding), each.positions, each.covers_shard, _pack_faults(each.faults)] for each in found]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=True)


def located_findings_from_json(text: str, *, with_faults: bool = True) -> tuple[LocatedFinding, ...]:
    """Parse findings from the ledger. `with_faults`: False to save time and memory if no sample has to be named."""
    return tuple(
        LocatedFinding(
            Finding(**finding),
            tuple(positions),
            covers_shard,
            _unpack_faults(packed[0]) if packed and with_faults else (),
        )
        for finding, positions, covers_shard, *packed in read_json(text)
    )


def _pack_faults(faults: Sequence[SampleFault]) -> str:
    """Compress faults to about 10 bytes per sample, as a run reads the findings of all shards at once."""
    if not faults:
        return ""
    return b64encode(zlib.compress(json.dumps(faults, separators=(",", ":")).encode(), 6)).decode()


def _unpack_faults(packed: str) -> tuple[SampleFault, ...]:
    """Unpack faults. Raises ValueError if they are malformed; the ledger may come from a store, with small bombs."""
    if not packed:
        return ()
    try:
        data = zlib.decompressobj().decompress(b64decode(packed), _MAX_FAULTS_BYTES)
    except zlib.error as error:
        raise ValueError(f"malformed faults: {error}") from error
    return tuple(SampleFault(*each) for each in read_json(data))


class StoredCheck(NamedTuple):
    shard: str  # path; empty for findings over all shards
    level: str
    reach: CheckReach
    layout_hash: str
    mark: bytes
    findings: str  # JSON


StoredChecks = dict[tuple[str, str, CheckReach], StoredCheck]


def read_checks(ledger: Ledger) -> StoredChecks:
    """All checks, by shard, level and reach. Ignores checks of some samples, which only old versions stored."""
    rows = ledger.rows(f"SELECT {', '.join(StoredCheck._fields)} FROM known WHERE reach IN ('all', 'none')")
    checks = [StoredCheck(*row) for row in rows]
    return {(check.shard, check.level, check.reach): check for check in checks}


def store_checks(ledger: Ledger, checks: Sequence[StoredCheck]) -> None:
    """Replace the checks of the same shard, level and reach, in one transaction.

    A check of all samples replaces those of any reach.
    """
    if not checks:
        return
    with ledger.transaction() as connection:
        connection.executemany(
            "DELETE FROM known WHERE shard = ?1 AND level = ?2 AND (reach = ?3 OR ?3 = 'all')",
            [(check.shard, check.level, check.reach) for check in checks],
        )
        connection.executemany(
            f"INSERT INTO known ({', '.join(StoredCheck._fields)}) VALUES (?, ?, ?, ?, ?, ?)", checks
        )


def expire_checks(ledger: Ledger, level: str, shards: Iterable[str]) -> None:
    """Keep the findings of a level in these shards, but let the next run check the shards again."""
    values = [(shard, level) for shard in shards]
    if values:
        with ledger.transaction() as connection:
            connection.executemany("UPDATE known SET mark = x'' WHERE shard = ? AND level = ?", values)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """One sample of a shard, or the whole shard if `position` is None and `key` empty.

    `position` counts the shard's samples from 0. `code`: of the finding. `run_id`: of the run that found it.
    """

    shard: str
    layout_hash: str
    position: int | None = None
    key: str = ""
    code: str
    run_id: int


_QUARANTINE_COLUMNS = "shard, layout_hash, place, key, code, run_id"


def read_quarantine(ledger: Ledger) -> list[QuarantineEntry]:
    """The quarantine, by shard and position."""
    query = f"SELECT {_QUARANTINE_COLUMNS} FROM quarantine ORDER BY shard, place, code, id"
    rows = ledger.rows(query)
    return [
        QuarantineEntry(shard=shard, layout_hash=layout_hash, position=position, key=key, code=code, run_id=run_id)
        for shard, layout_hash, position, key, code, run_id in rows
    ]


def add_to_quarantine(ledger: Ledger, entries: Iterable[QuarantineEntry]) -> int:
    """Add entries, except those that are in quarantine for the same reason. Returns the number of new entries."""
    known = {_entry_identity(entry) for entry in read_quarantine(ledger)}
    new = {_entry_identity(entry): entry for entry in entries if _entry_identity(entry) not in known}
    if new:
        with ledger.transaction() as connection:
            connection.executemany(
                f"INSERT INTO quarantine ({_QUARANTINE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
                [astuple(entry) for entry in new.values()],
            )
    return len(new)


def delete_quarantine_entries(ledger: Ledger, *, shards: Collection[str] | None = None) -> int:
    """Delete the entries of these shards, or of all shards if None. Returns the number of deleted entries."""
    affected = {entry.shard for entry in read_quarantine(ledger) if shards is None or entry.shard in shards}
    if not affected:
        return 0
    with ledger.transaction() as connection:
        query = "DELETE FROM quarantine WHERE shard = ?"
        return connection.executemany(query, [(shard,) for shard in sorted(affected)]).rowcount


def rename_ledger_shards(ledger: Ledger, new_paths: Mapping[str, str], rename_digest: bytes) -> None:
    """Rename shards in views, checks and the quarantine. Findings of runs keep the names that they were recorded with.

    `new_paths`: old path -> new path. `rename_digest` identifies the operation, which is applied only once: if shards
    swap names, a second application would rename the wrong shards.
    """
    if not new_paths:
        return
    to_temporary = [(_TEMPORARY_PREFIX + new, old) for old, new in new_paths.items()]
    to_new = [(new, _TEMPORARY_PREFIX + new) for new in new_paths.values()]
    with ledger.transaction() as connection:
        if connection.execute("SELECT mark FROM renamed").fetchone() == (rename_digest,):
            return
        connection.execute("DELETE FROM renamed")
        connection.execute("INSERT INTO renamed VALUES (?)", (rename_digest,))
        for table in ("view_shard", "known", "quarantine"):
            rename = f"UPDATE OR REPLACE {table} SET shard = ? WHERE shard = ?"
            connection.executemany(rename, to_temporary)
            if table == "known":  # drop checks of a removed shard that had the new name
                connection.executemany("DELETE FROM known WHERE shard = ?", [(new,) for new in new_paths.values()])
            connection.executemany(rename, to_new)


def _entry_identity(entry: QuarantineEntry) -> tuple[str, str, int | None, str, str]:
    return entry.shard, entry.layout_hash, entry.position, entry.key, entry.code
