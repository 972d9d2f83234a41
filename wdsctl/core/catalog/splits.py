"""Splits: the samples of a split in one shard as bits, flags or labels, digests of splits, and the tables in a catalog.

The tables hold sets of splits by name, their rules, what is excluded, and what the assignment depended on.
`SplitReader` reads them from a published catalog, `SplitTables` reads and writes them in a draft.
"""

from __future__ import annotations

import json
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.open_catalog import translate_catalog_errors
from wdsctl.core.catalog.values import (
    SPLIT_DIGEST_FACT,
    SPLIT_EXCLUDES_FACT,
    SPLIT_FACTS,
    SPLIT_GROUPS_FACT,
    SPLIT_RULES_FACT,
    SPLIT_STRATA_FACT,
    SplitMembership,
)
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets.read import ShardIndex
from wdsctl.core.split_rules.excludes import Excludes, excludes_from_plain, excludes_to_plain
from wdsctl.core.split_rules.names import qualified_split_name, split_set_and_name
from wdsctl.core.split_rules.rule import SplitRule, SplitRules, dump_split_rules, load_split_rules

if TYPE_CHECKING:
    from wdsctl.core.catalog.read import Catalog

NO_SPLIT_LABEL = -1  # the label of a sample that is in no split

_FIRST_NAMED_SET_ID = 1 << 16  # ids of the splits of named sets: those of the unnamed set sort before them

_SplitTable = Literal["split_shard", "former_split"]


@dataclass(frozen=True, slots=True)
class SplitShard:
    """The samples of a split in one shard: all of them, or those whose bit is set (lowest bit first)."""

    shard: int
    samples: int
    bits: bytes | None = None


@dataclass(frozen=True, slots=True)
class AssignmentHistory:
    """What a set has assigned: stratum -> split -> samples, and the hashes of the groups of each split."""

    strata: dict[str, dict[str, int]] = field(default_factory=dict)
    groups: dict[str, NDArray[np.uint64]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.strata or self.groups)


SampleFlags = NDArray[np.bool_]
SplitLabels = NDArray[np.int16]

#: The history of each split set.
HistoryBySet = dict[str, AssignmentHistory]

#: The samples that each split of a set has, by shard.
SplitShards = dict[str, dict[int, SplitShard]]


def sample_flags(split_shard: SplitShard | None, sample_count: int) -> SampleFlags:
    """(count,): whether the split has each sample of the shard."""
    if split_shard is None:
        return np.zeros(sample_count, np.bool_)
    if split_shard.bits is None:
        return np.full(sample_count, split_shard.samples > 0)
    return np.unpackbits(np.frombuffer(split_shard.bits, np.uint8), count=sample_count, bitorder="little").astype(
        np.bool_
    )


def shard_from_flags(shard: int, flags: SampleFlags) -> SplitShard | None:
    """The samples whose flag is set; None if there are none."""
    samples = int(np.count_nonzero(flags))
    if not samples:
        return None
    # One bit per sample, lowest first; no bits if the split has the whole shard.
    bits = None if samples == len(flags) else np.packbits(flags, bitorder="little").tobytes()
    return SplitShard(shard, samples, bits)


def split_labels(split_shards: Iterable[SplitShard | None], sample_count: int) -> SplitLabels:
    """(count,): for each sample of a shard the index of the split that has it; the last one if several have."""
    labels = np.full(sample_count, NO_SPLIT_LABEL, np.int16)
    for number, part in enumerate(split_shards):
        if part is None:
            continue
        if part.bits is None and part.samples:
            labels[:] = number
        elif part.samples:
            labels[sample_flags(part, sample_count)] = number
    return labels


def shards_from_labels(shard: int, labels: SplitLabels, names: Iterable[str]) -> dict[str, SplitShard]:
    """The samples of each split in a shard, by label; splits without samples are left out."""
    found = ((name, shard_from_flags(shard, labels == number)) for number, name in enumerate(names))
    return {name: part for name, part in found if part is not None}


def expand_to_shard(split_shard: SplitShard, is_free: SampleFlags) -> SplitShard:
    """Renumber samples that are numbered among the free samples of a shard to numbers among all its samples."""
    flags = np.zeros(len(is_free), np.bool_)
    flags[np.flatnonzero(is_free)[sample_flags(split_shard, int(is_free.sum()))]] = True
    return shard_from_flags(split_shard.shard, flags) or SplitShard(split_shard.shard, 0, b"")


def subtract_samples(split_shard: SplitShard, removed: SplitShard, sample_count: int) -> SplitShard | None:
    """The samples of a shard of `sample_count` samples without those of `removed`."""
    if removed.bits is None and removed.samples:
        return None
    return shard_from_flags(
        split_shard.shard, sample_flags(split_shard, sample_count) & ~sample_flags(removed, sample_count)
    )


def split_digest(offsets: ShardIndex, split_shards: Iterable[SplitShard]) -> str:
    """A digest of shards in order, their sizes and layouts, and the chosen samples, by which plans and traces compare
    data. 32 hex digits.

    Ignores shards that these offsets do not have.
    """
    digest = blake2b(digest_size=16)
    entries = {shard.id: shard for shard in offsets.shards}
    for part in split_shards:
        shard = entries.get(part.shard)
        if shard is not None:
            facts = (shard.id, shard.size, shard.layout_hash, part.samples, len(part.bits or b""))
            digest.update(",".join(map(str, facts)).encode() + b";")
            digest.update(part.bits or b"")
    return digest.hexdigest()


class SplitReader:
    """The splits of one published catalog: `Catalog.split_reader`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @cached_property
    def _ids(self) -> dict[str, int]:
        return dict(self._catalog.rows("SELECT name, id FROM split ORDER BY id"))

    @property
    def names(self) -> list[str]:
        """The splits, in the order in which they were named."""
        return list(self._ids)

    def rules(self) -> SplitRules:
        """The rule of every set, by its name."""
        with translate_catalog_errors(self._catalog.path):
            return _read_rules(self._catalog.connection, self._catalog.fact(SPLIT_RULES_FACT))

    def facts(self) -> dict[str, str]:
        """The facts of splits, as stored."""
        return {name: value for name in SPLIT_FACTS if (value := self._catalog.fact(name)) is not None}

    def excludes(self) -> Excludes | None:
        """What the user excluded; None if the catalog has no such fact."""
        stored = self._catalog.fact(SPLIT_EXCLUDES_FACT)
        return None if stored is None else excludes_from_plain(read_json(stored))

    def source_digest(self) -> str:
        """The digest of what splits and excludes were last computed from; empty if that was never needed."""
        return self._catalog.fact(SPLIT_DIGEST_FACT) or ""

    def assignment_history(self) -> HistoryBySet:
        """For stratified sets, how many samples each stratum contributed, and which groups are in which split."""
        strata: dict[str, dict[str, dict[str, int]]] = read_json(self._catalog.fact(SPLIT_STRATA_FACT) or "{}")
        encoded: dict[str, dict[str, str]] = read_json(self._catalog.fact(SPLIT_GROUPS_FACT) or "{}")
        groups = {
            split_set: {name: _decode_hashes(text) for name, text in splits.items()}
            for split_set, splits in encoded.items()
        }
        return {
            split_set: AssignmentHistory(strata.get(split_set, {}), groups.get(split_set, {}))
            for split_set in strata | groups
        }

    def split_shards(self, split_set: str) -> SplitShards:
        """The splits of a set in the order in which they were named, by their short names."""
        with translate_catalog_errors(self._catalog.path):
            return _read_split_shards(self._catalog.connection, "split_shard", split_set)

    def former_split_shards(self, split_set: str) -> SplitShards:
        """The samples that each split of a set had before they were excluded, or their shard was removed."""
        with translate_catalog_errors(self._catalog.path):
            return _read_split_shards(self._catalog.connection, "former_split", split_set)

    def split_shard(self, name: str, shard_id: int) -> SplitShard | None:
        """The samples of one shard that are in a split; None if there are none."""
        query = "SELECT shard, samples, bits FROM split_shard WHERE split = ? AND shard = ? AND samples > 0"
        rows = self._catalog.rows(query, self._ids.get(name, -1), shard_id)
        return SplitShard(*rows[0]) if rows else None

    def excluded(self) -> dict[int, SplitShard]:
        """The samples that rules or the quarantine keep out of all splits, by shard."""
        rows = self._catalog.rows("SELECT shard, samples, bits FROM excluded_shard ORDER BY shard")
        return {row[0]: SplitShard(*row) for row in rows}


class SplitTables:
    """The splits of a draft. `facts` are the draft's, which stores them when it is finished."""

    def __init__(self, connection: sqlite3.Connection, facts: dict[str, str]) -> None:
        self._connection = connection
        self.facts = facts

    def rules(self) -> SplitRules:
        """The rule of every set, by its name."""
        return _read_rules(self._connection, self.facts.get(SPLIT_RULES_FACT))

    @property
    def has_excludes(self) -> bool:
        """Whether rules keep samples out of all splits."""
        return bool(read_json(self.facts.get(SPLIT_EXCLUDES_FACT, "{}")))

    def store_rules(self, rules: Mapping[str, SplitRule], excludes: Excludes) -> None:
        self.facts[SPLIT_RULES_FACT] = dump_split_rules(rules)
        self.facts[SPLIT_EXCLUDES_FACT] = json.dumps(excludes_to_plain(excludes))

    def store_assignment_history(self, histories: HistoryBySet) -> None:
        """Store what sets have assigned: 11 bytes per group."""
        self.facts[SPLIT_STRATA_FACT] = json.dumps({split_set: each.strata for split_set, each in histories.items()})
        groups = {
            split_set: {name: _encode_hashes(hashes) for name, hashes in each.groups.items()}
            for split_set, each in histories.items()
            if each.groups
        }
        if groups or SPLIT_GROUPS_FACT in self.facts:
            self.facts[SPLIT_GROUPS_FACT] = json.dumps(groups)

    def store_source_digest(self, source_digest: str) -> None:
        """Store what splits and excludes are now computed from."""
        self.facts[SPLIT_DIGEST_FACT] = source_digest

    def begin_set(self, split_set: str, rule: SplitRule, names: Iterable[str] | None = None) -> None:
        """Replace the splits of a set by new, empty ones. `names`: the splits; None for those that the rule names."""
        self.drop_set(split_set)
        self.add_splits(split_set, rule, rule.names if names is None else names)
        if SPLIT_RULES_FACT in self.facts or not rule.is_counted:
            known = load_split_rules(self.facts.get(SPLIT_RULES_FACT, "{}"))
            self.facts[SPLIT_RULES_FACT] = dump_split_rules(known | {split_set: rule})

    def add_splits(self, split_set: str, rule: SplitRule, names: Iterable[str]) -> None:
        """Add empty splits to a set, except those that it has."""
        known = _split_ids(self._connection, split_set)
        [last] = self._connection.execute(
            f"SELECT coalesce(max(id), 0) FROM split WHERE id {'>=' if split_set else '<'} {_FIRST_NAMED_SET_ID}"
        ).fetchone()
        first = max(last + 1, _FIRST_NAMED_SET_ID) if split_set else last + 1
        by = "sample" if rule.kind == "stratum" else rule.kind
        self._connection.executemany(
            "INSERT INTO split (id, name, share, by, seed) VALUES (?, ?, ?, ?, ?)",
            [
                (i, qualified_split_name(split_set, name), repr(rule.share(name)), by, rule.seed)
                for i, name in enumerate((name for name in names if name not in known), first)
            ],
        )

    def drop_set(self, split_set: str) -> None:
        """Delete the splits of a set, and its rule."""
        for split_id in _split_ids(self._connection, split_set).values():
            for table, column in (("split_shard", "split"), ("former_split", "split"), ("split", "id")):
                self._connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (split_id,))
        if SPLIT_RULES_FACT in self.facts:
            known = load_split_rules(self.facts[SPLIT_RULES_FACT])
            known.pop(split_set, None)
            self.facts[SPLIT_RULES_FACT] = dump_split_rules(known)

    def add_split_shards(self, split_set: str, name: str, split_shards: Iterable[SplitShard]) -> None:
        """Add samples of shards of which the split had none."""
        self._insert("split_shard", _split_ids(self._connection, split_set)[name], split_shards)

    def former_split_shards(self, split_set: str) -> SplitShards:
        """The samples that each split of a set had before they were excluded, or their shard was removed."""
        return _read_split_shards(self._connection, "former_split", split_set)

    def store_former(self, split_set: str, former: SplitShards) -> None:
        """Replace what `former_split_shards` returns."""
        for name, split_id in _split_ids(self._connection, split_set).items():
            self._connection.execute("DELETE FROM former_split WHERE split = ?", (split_id,))
            self._insert("former_split", split_id, former.get(name, {}).values())

    def remember_shard(self, shard_id: int, membership: SplitMembership) -> None:
        """Store to which splits the samples of a removed or changed shard go back."""
        ids = dict(self._connection.execute("SELECT name, id FROM split"))
        for name in dict.fromkeys((*membership.splits, *membership.former)):
            flags = np.zeros(membership.samples, np.bool_)
            for samples, bits in (each[name] for each in (membership.splits, membership.former) if name in each):
                flags |= sample_flags(SplitShard(shard_id, samples, bits), membership.samples)
            if name in ids:
                self._insert("former_split", ids[name], filter(None, [shard_from_flags(shard_id, flags)]))

    def remove_shards(self, split_set: str, shards: Iterable[int]) -> None:
        """Remove all samples of these shards from the splits of a set."""
        split_ids = _split_ids(self._connection, split_set).values()
        self._connection.executemany(
            "DELETE FROM split_shard WHERE shard = ? AND split = ?",
            [(shard, split_id) for shard in shards for split_id in split_ids],
        )

    def store_excluded(self, split_shards: Iterable[SplitShard]) -> None:
        """Replace what `SplitReader.excluded` returns."""
        self._connection.execute("DELETE FROM excluded_shard")
        self._connection.executemany(
            "INSERT INTO excluded_shard (shard, samples, bits) VALUES (?, ?, ?)",
            _rows_by_shard(split_shards),
        )

    def count_by_split(self, split_set: str, by: str) -> dict[str, int]:
        """How many shards, or samples, each split of a set has, by its short name."""
        count = "count(shard)" if by == "shard" else "coalesce(sum(samples), 0)"
        counts = self._connection.execute(
            f"SELECT split.name, {count} FROM split LEFT JOIN split_shard ON split_shard.split = split.id "
            "GROUP BY split.id ORDER BY split.id"
        )
        return _of_set(split_set, counts)

    def _insert(self, table: _SplitTable, split_id: int, split_shards: Iterable[SplitShard]) -> None:
        self._connection.executemany(
            f"INSERT INTO {table} (split, shard, samples, bits) VALUES (?, ?, ?, ?)",
            [(split_id, *row) for row in _rows_by_shard(split_shards)],
        )


def _rows_by_shard(split_shards: Iterable[SplitShard]) -> list[tuple[int, int, bytes | None]]:
    """Rows to insert. Workers finish shards in any order, and the bytes of a catalog depend on the order of inserts."""
    rows = [(each.shard, each.samples, each.bits) for each in split_shards if each.samples]
    return sorted(rows, key=lambda row: row[0])


def _read_rules(connection: sqlite3.Connection, stored_rules: str | None) -> SplitRules:
    """The rule of every set: from the fact, and for sets without one from the table of splits."""
    known = load_split_rules(stored_rules or "{}")
    rules: SplitRules = {}
    for name, share, by, seed in connection.execute("SELECT name, share, by, seed FROM split ORDER BY id"):
        split_set, short = split_set_and_name(name)
        if split_set in known:
            rules[split_set] = known[split_set]
        else:
            rule = rules.setdefault(split_set, SplitRule({}, by, seed))
            rule.shares[short] = float(share)
    return rules | {name: rule for name, rule in known.items() if name not in rules}


def _split_ids(connection: sqlite3.Connection, split_set: str) -> dict[str, int]:
    return _of_set(split_set, connection.execute("SELECT name, id FROM split ORDER BY id"))


def _of_set(split_set: str, rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Short name -> value, for the splits of one set."""
    return {
        short: value for name, value in rows for its_set, short in (split_set_and_name(name),) if its_set == split_set
    }


def _read_split_shards(connection: sqlite3.Connection, table: _SplitTable, split_set: str) -> SplitShards:
    query = f"SELECT shard, samples, bits FROM {table} WHERE split = ? ORDER BY shard"
    return {
        name: {row[0]: SplitShard(*row) for row in connection.execute(query, (split_id,))}
        for name, split_id in _split_ids(connection, split_set).items()
    }


def _decode_hashes(text: str) -> NDArray[np.uint64]:
    return np.frombuffer(b64decode(text, validate=True), "<u8").astype(np.uint64)


def _encode_hashes(hashes: NDArray[np.uint64]) -> str:
    return b64encode(hashes.astype("<u8").tobytes()).decode()
