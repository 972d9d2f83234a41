"""Splits in the catalog: sets of them by name, their rules, what is excluded, and what that was worked out from."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, delete, func, insert, inspect, select

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.fact_names import EXCLUDES, GROUPS, MARK, OF_SPLITS, RULES, STRATA
from wdsctl.core.catalog.shard_row import Held
from wdsctl.core.json_text import read_json
from wdsctl.core.split_rules import (
    Excludes,
    Rules,
    SplitRule,
    excludes_from,
    named_in,
    plain_excludes,
    rules_of,
    rules_text,
    set_and_name,
)
from wdsctl.core.splitting import Given, SplitShard
from wdsctl.core.splitting_bits import flags_of, part_of

_FIRST_NAMED = 1 << 16  # numbers of splits of named sets: the others come first, whenever they are made

#: What was dealt out in each set.
GivenBySet = dict[str, Given]

#: The samples that each split of a set has, by shard.
Parts = dict[str, dict[int, SplitShard]]


def rules_in(connection: Connection, told: str | None) -> Rules:
    """The rule of every set: as `told`, and of those that are not told whole, what the table of splits says."""
    known = rules_of(told or "{}")
    t = schema.split.c
    rows = connection.execute(select(t.name, t.share, t.by, t.seed).order_by(t.id)).all()
    rules: Rules = {}
    for name, share, by, seed in rows:
        of_set, short = set_and_name(name)
        if of_set in known:
            rules[of_set] = known[of_set]
        else:
            rule = rules.setdefault(of_set, SplitRule({}, by, seed))
            rule.shares[short] = float(share)
    return rules | {name: rule for name, rule in known.items() if name not in rules}


class SplitReader:
    """What a published catalog says of its splits. `reading` gives a connection, and raises in our words."""

    def __init__(self, reading: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._reading = reading

    def rules(self) -> Rules:
        """The rule of every set, by its name."""
        with self._reading() as connection:
            return rules_in(connection, _fact(connection, RULES))

    def facts(self) -> dict[str, str]:
        """All that is kept beside the tables, as it is kept."""
        with self._reading() as connection:
            return _facts(connection)

    def excludes(self) -> Excludes | None:
        """What is excluded, as it was asked for; None where the catalog has never been told."""
        with self._reading() as connection:
            said = _fact(connection, EXCLUDES)
            return None if said is None else excludes_from(read_json(said))

    def mark(self) -> str:
        """Names what splits and excludes were last brought up to date with; empty where that never was needed."""
        with self._reading() as connection:
            return _fact(connection, MARK) or ""

    def given(self) -> GivenBySet:
        """Of sets that are stratified, what each stratum has given, and where groups are."""
        with self._reading() as connection:
            strata: dict[str, dict[str, dict[str, int]]] = read_json(_fact(connection, STRATA) or "{}")
            groups: dict[str, dict[str, str]] = read_json(_fact(connection, GROUPS) or "{}")
        read = {of_set: {name: _words(text) for name, text in mine.items()} for of_set, mine in groups.items()}
        return {of_set: Given(strata.get(of_set, {}), read.get(of_set, {})) for of_set in strata | groups}

    def parts(self, of_set: str) -> Parts:
        """The splits of a set in the order they were named, by their short names."""
        with self._reading() as connection:
            return _parts(connection, schema.split_shard, of_set)

    def former(self, of_set: str) -> Parts:
        """The samples that each split of a set had before they were excluded, or their shard was gone."""
        with self._reading() as connection:
            if not inspect(connection).has_table(schema.former_split.name):
                return {}  # a catalog of schema version 1 to 3
            return _parts(connection, schema.former_split, of_set)

    def excluded(self) -> dict[int, SplitShard]:
        """What is in no split, by shard. A catalog from before there was such a thing has none."""
        t = schema.excluded_shard.c
        with self._reading() as connection:
            if not inspect(connection).has_table(schema.excluded_shard.name):
                return {}
            rows = connection.execute(select(t.shard, t.samples, t.bits).order_by(t.shard))
            return {row.shard: SplitShard(row.shard, row.samples, row.bits) for row in rows}


class SplitTables:
    """The splits of a draft. `facts` are the draft's, which keeps them when it is finished."""

    def __init__(self, connection: Connection, facts: dict[str, str]) -> None:
        self._connection = connection
        self.facts = facts

    def rules(self) -> Rules:
        """The rule of every set, by its name."""
        return rules_in(self._connection, self.facts.get(RULES))

    @property
    def has_excludes(self) -> bool:
        """Whether there are rules that leave samples out of all splits."""
        return bool(read_json(self.facts.get(EXCLUDES, "{}")))

    def keep_rules(self, rules: Mapping[str, SplitRule], excludes: Excludes) -> None:
        """What the sets are made by from now on."""
        self.facts[RULES] = rules_text(rules)
        self.facts[EXCLUDES] = json.dumps(plain_excludes(excludes))

    def keep_given(self, given: GivenBySet) -> None:
        """What each stratum has given, and where groups are: 11 bytes a group."""
        self.facts[STRATA] = json.dumps({of_set: each.strata for of_set, each in given.items()})
        groups = {of_set: each.groups for of_set, each in given.items() if each.groups}
        texts = {of_set: {name: _text(mine) for name, mine in each.items()} for of_set, each in groups.items()}
        if texts or GROUPS in self.facts:
            self.facts[GROUPS] = json.dumps(texts)

    def keep_mark(self, mark: str) -> None:
        """What splits and excludes are now up to date with."""
        self.facts[MARK] = mark

    def begin_set(self, of_set: str, rule: SplitRule) -> None:
        """Forget the splits of a set, and name new, empty ones."""
        self.drop_set(of_set)
        last = self._connection.execute(select(func.max(schema.split.c.id))).scalar() or 0
        first = max(last + 1, _FIRST_NAMED) if of_set else 1
        by = "sample" if rule.kind == "stratum" else rule.kind
        rows = [
            {"id": i, "name": named_in(of_set, name), "share": repr(rule.share(name)), "by": by, "seed": rule.seed}
            for i, name in enumerate(rule.names, first)
        ]
        if rows:
            self._connection.execute(insert(schema.split), rows)
        if RULES in self.facts or not rule.is_counted:
            known = rules_of(self.facts.get(RULES, "{}"))
            self.facts[RULES] = rules_text(known | {of_set: rule})

    def drop_set(self, of_set: str) -> None:
        """Forget the splits of a set, and its rule."""
        for name, number in self._numbers(of_set).items():
            for table in (schema.split_shard, schema.former_split):
                self._connection.execute(delete(table).where(table.c.split == number))
            self._connection.execute(delete(schema.split).where(schema.split.c.name == named_in(of_set, name)))
        if RULES in self.facts:
            known = rules_of(self.facts[RULES])
            known.pop(of_set, None)
            self.facts[RULES] = rules_text(known)

    def add(self, of_set: str, name: str, parts: Iterable[SplitShard]) -> None:
        """Samples that a split has from now on, of shards that it had nothing of."""
        self._insert(schema.split_shard, self._numbers(of_set)[name], parts)

    def former(self, of_set: str) -> Parts:
        """The samples that each split of a set had before they were excluded, or their shard was gone."""
        return _parts(self._connection, schema.former_split, of_set)

    def keep_former(self, of_set: str, former: Parts) -> None:
        """Remember this of a set, in place of what was remembered."""
        for name, number in self._numbers(of_set).items():
            self._connection.execute(delete(schema.former_split).where(schema.former_split.c.split == number))
            self._insert(schema.former_split, number, former.get(name, {}).values())

    def remember_shard(self, shard_id: int, held: Held) -> None:
        """Remember which splits the samples of a shard go back to that is no longer as it was."""
        rows = self._connection.execute(select(schema.split.c.name, schema.split.c.id))
        numbers = {row.name: row.id for row in rows}
        for name in dict.fromkeys((*held.parts, *held.former)):
            both = np.zeros(held.samples, np.bool_)
            for samples, bits in (each[name] for each in (held.parts, held.former) if name in each):
                both |= flags_of(SplitShard(shard_id, samples, bits), held.samples)
            if name in numbers:
                self._insert(schema.former_split, numbers[name], filter(None, [part_of(shard_id, both)]))

    def _insert(self, table: Table, number: int, parts: Iterable[SplitShard]) -> None:
        rows: list[dict[str, Any]] = [
            {"split": number, "shard": part.shard, "samples": part.samples, "bits": part.bits}
            for part in parts
            if part.samples
        ]
        if rows:
            self._connection.execute(insert(table), rows)

    def forget(self, of_set: str, shards: Iterable[int]) -> None:
        """Take all samples of these shards out of the splits of a set."""
        numbers = list(self._numbers(of_set).values())
        t = schema.split_shard.c
        for shard in shards:
            self._connection.execute(delete(schema.split_shard).where(t.shard == shard, t.split.in_(numbers)))

    def exclude(self, parts: Iterable[SplitShard]) -> None:
        """Name what is in no split, in the place of what was named before."""
        self._connection.execute(delete(schema.excluded_shard))
        rows = [{"shard": part.shard, "samples": part.samples, "bits": part.bits} for part in parts if part.samples]
        if rows:
            self._connection.execute(insert(schema.excluded_shard), rows)

    def totals(self, of_set: str, by: str) -> dict[str, int]:
        """How many shards, or samples, each split of a set has, by its short name."""
        of_shard = schema.split_shard.c
        count = func.count(of_shard.shard) if by == "shard" else func.coalesce(func.sum(of_shard.samples), 0)
        query = select(schema.split.c.name, count).join_from(
            schema.split, schema.split_shard, of_shard.split == schema.split.c.id, isouter=True
        )
        rows = self._connection.execute(query.group_by(schema.split.c.id).order_by(schema.split.c.id))
        return {short: total for name, total in rows for mine, short in (set_and_name(name),) if mine == of_set}

    def adopt(self, old: Connection, shard_ids: Iterable[int]) -> None:
        """Take over what an older catalog says beside its splits."""
        self.facts |= _facts(old)
        for t in (schema.excluded_shard, schema.former_split):
            if inspect(old).has_table(t.name):
                for shard in shard_ids:
                    for row in old.execute(select(t).where(t.c.shard == shard)).mappings():
                        self._connection.execute(insert(t), dict(row))

    def _numbers(self, of_set: str) -> dict[str, int]:
        t = schema.split.c
        rows = self._connection.execute(select(t.name, t.id).order_by(t.id)).all()
        return {short: number for name, number in rows for mine, short in (set_and_name(name),) if mine == of_set}


def _parts(connection: Connection, table: Table, of_set: str) -> Parts:
    split = schema.split.c
    query = select(table.c.shard, table.c.samples, table.c.bits).order_by(table.c.shard)
    found: Parts = {}
    for number, name in connection.execute(select(split.id, split.name).order_by(split.id)).all():
        mine, short = set_and_name(name)
        if mine == of_set:
            rows = connection.execute(query.where(table.c.split == number))
            found[short] = {row.shard: SplitShard(row.shard, row.samples, row.bits) for row in rows}
    return found


def _words(text: str) -> NDArray[np.uint64]:
    return np.frombuffer(b64decode(text, validate=True), "<u8").astype(np.uint64)


def _text(words: NDArray[np.uint64]) -> str:
    return b64encode(words.astype("<u8").tobytes()).decode()


def _facts(connection: Connection) -> dict[str, str]:
    return {name: said for name in OF_SPLITS if (said := _fact(connection, name)) is not None}


def _fact(connection: Connection, key: str) -> str | None:
    return connection.execute(select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar()
