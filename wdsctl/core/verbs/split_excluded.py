"""Works out which samples are in no split: by pattern, by key, by what `validate` found, and by its quarantine."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import numpy as np

from wdsctl.core.braces import expanded
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_quarantine import Quarantined, quarantined
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.checks.placed import Placed
from wdsctl.core.command_line import command_at
from wdsctl.core.counted import counted
from wdsctl.core.errors import InputError
from wdsctl.core.key_list import KeyList, key_list, read_key_list
from wdsctl.core.place import Place
from wdsctl.core.split_patterns import Patterns, shard_and_key
from wdsctl.core.split_rules import Excludes, SplitRule, plain_excludes, rules_text
from wdsctl.core.splitting import SplitShard
from wdsctl.core.splitting_bits import Flags, flags_of, part_of
from wdsctl.core.verbs.split_codes import OF_CATALOG, OF_PARTS, Known, known_by, known_of_catalog
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_problems import NOTHING, Problem, some


@dataclass(frozen=True, slots=True)
class Noted:
    """What the ledger says: the quarantine, and what is known by the codes that are excluded.

    `known` is None where nobody has validated the dataset, or no code was asked for.
    """

    quarantine: tuple[Quarantined, ...] = ()
    known: Known | None = None


@dataclass(slots=True)
class Excluded:
    """`parts`: by shard. `notes`: what the user should know."""

    parts: dict[int, SplitShard]
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def samples(self) -> int:
        return sum(part.samples for part in self.parts.values())


def noted(place: Place, codes: Sequence[str]) -> Noted:
    """What the ledger says, the findings only where they are wanted."""
    if not os.path.exists(place.ledger):
        return Noted()
    with Ledger.peek(place.ledger) as ledger:
        return Noted(tuple(quarantined(ledger)), known_by(ledger, codes) if codes else None)


def mark_of(place: Place, generation: int, rules: Mapping[str, SplitRule], excludes: Excludes, said: Noted) -> str:
    """Names all that splits and excludes follow from: while it is the same, nothing is to be done."""
    files = [os.path.join(place.meta, file) for rule in rules.values() for file in rule.keys.values()]
    files += [os.path.join(place.meta, file) for file in excludes.key_files]
    told: list[Any] = [
        generation,
        rules_text(dict(sorted(rules.items()))),
        plain_excludes(excludes),
        list(map(_stamp, files)),
    ]
    told += [[asdict(row) | {"run_id": 0} for row in said.quarantine]]
    told += [None if said.known is None else list(said.known.found.items())]
    told += [_stamp(place.dataset_yaml)] if OF_PARTS in excludes.codes else []  # which parts a sample needs
    return blake2b(json.dumps(told, default=asdict).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def excluded_by(
    ground: Ground, excludes: Excludes, said: Noted, before: Mapping[int, SplitShard] = MappingProxyType({})
) -> Excluded:
    """The samples that are in no split. Raises what reading lists of keys raises.

    `before`: those that are in none now, by shard. They stay so where the ledger that knew them by their codes is gone.
    """
    work = _Work(ground)
    work.shards(excludes.shards)
    work.samples(excludes.samples)
    if excludes.keys:
        work.keys(key_list(excludes.keys), "", "key")
    for file in excludes.key_files:
        work.keys(read_key_list(ground.place.meta, file), f" of {file}", "key")
    work.codes(excludes.codes, said.known, before)
    work.quarantine(said.quarantine)
    return work.done()


def excluded_by_user(ground: Ground, excludes: Excludes) -> Excluded:
    """The same for what a user has just named: it must be there to be found."""
    said = noted(ground.place, excludes.codes)
    if set(excludes.codes) - OF_CATALOG and said.known is None:
        raise InputError(
            "the dataset has not been validated, so no findings are known",
            where=ground.place.shown,
            hint=command_at(ground.place, "validate"),
        )
    return excluded_by(ground, excludes, said)


class _Work:
    """Excludes under way: flags by shard."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._flags: dict[int, Flags] = {}
        self._idle: list[str] = []
        self._problems: list[Problem] = []
        self._notes: list[str] = []

    def of(self, row: ShardRow) -> Flags:
        if row.id not in self._flags:
            self._flags[row.id] = np.zeros(row.samples, np.bool_)
        return self._flags[row.id]

    def shards(self, patterns: Sequence[str]) -> None:
        """All shards that match."""
        table, used = Patterns(patterns), set()
        for row in self._ground.rows:
            found = table.find(row.path)
            if found:
                self.of(row)[:] = True
                used.update(found)
        self._idle += [pattern for place, pattern in enumerate(patterns) if place not in used]

    def samples(self, names: Iterable[str]) -> None:
        """Samples as SHARD/KEY; braces stand for several."""
        wanted: dict[str, set[str]] = {}
        for name in (each for text in names for each in expanded(text)):
            shard, key = shard_and_key(name, self._ground.by_path)
            wanted.setdefault(shard, set()).add(key)
        for path, keys in wanted.items():
            row = self._ground.by_path.get(path)
            found = self.keys_of(row, keys) if row is not None else set()
            self._idle += [f"{path}/{key}" for key in sorted(keys - found)]

    def keys_of(self, row: ShardRow, keys: set[str]) -> set[str]:
        """The samples of one shard that have one of these keys; returns the keys that there are."""
        first, offsets = self._ground.first_row(row), self._ground.offsets
        found = set()
        for place in range(row.samples):
            key = offsets.key(first + place)
            if key in keys:
                self.of(row)[place] = True
                found.add(key)
        return found

    def keys(self, listed: KeyList, of_what: str, noun: str) -> None:
        """All samples whose key is in a list."""
        seen = np.zeros(len(listed.key_start), np.bool_)
        for rows, index in self._ground.together(self._ground.rows):
            found = listed.find(self._ground.offsets, index)
            hits = found >= 0
            seen[found[hits]] = True
            ends = np.cumsum([row.samples for row in rows])
            for row, mine in zip(rows, np.split(hits, ends[:-1]), strict=True):
                if mine.any():
                    self.of(row)[mine] = True
        count, first = listed.unfound(seen)
        if count:
            is_are = "is" if count == 1 else "are"
            message = f"{counted(count, noun)}{of_what} to exclude {is_are} not in the dataset: {some(first, count)}"
            self._problems.append(Problem(NOTHING, message, "`--allow-empty` passes them over", count))

    def codes(self, codes: Sequence[str], known: Known | None, before: Mapping[int, SplitShard]) -> None:
        """The samples that findings with these codes are about, or the shard where that cannot be told."""
        used: set[str] = set()
        whole: set[int] = set()
        for row in self._ground.rows:
            for placed in known.of(row) if known else ():
                used.add(placed.finding.code)
                if self.placed(row, placed):
                    whole.add(row.id)
        for code in sorted(OF_CATALOG.intersection(codes)):
            for row, flags in known_of_catalog(self._ground, code):
                used.add(code)
                self.of(row)[flags] = True
        if whole:
            shards = counted(len(whole), "shard")
            self._notes.append(f"{shards} excluded whole: the findings do not name each sample that they are about")
        self.unseen(set(codes) - OF_CATALOG, known, before)
        idle = [code for code in codes if code not in used]
        if idle:
            message = f"no sample or shard is known to exclude by {some(idle, len(idle))}"
            hint = f"{command_at(self._ground.place, 'validate', '--level', 'all')} looks for all that there is to find"
            self._problems.append(Problem(NOTHING, message, f"{hint}; `--allow-empty` passes it over", len(idle)))

    def placed(self, row: ShardRow, placed: Placed) -> bool:
        """Whether all of the shard goes."""
        flags, finding = self.of(row), placed.finding
        places = [place for place in placed.places if place < row.samples]
        if places and not placed.is_whole:
            flags[places] = True
        elif not (finding.key and finding.count == 1 and self.keys_of(row, {finding.key})):
            flags[:] = True
            return True
        return False

    def unseen(self, codes: Collection[str], known: Known | None, before: Mapping[int, SplitShard]) -> None:
        """What is not known, for nobody has looked."""
        said = " and ".join(sorted(codes))
        if codes and known is None:
            for row in self._ground.rows:
                if row.id in before:
                    self.of(row)[flags_of(before[row.id], row.samples)] = True
            again = command_at(self._ground.place, "validate", "--level", "all")
            words = "what was excluded stays so" if before else "so nothing is excluded by it"
            self._notes.append(f"nobody knows which samples have {said}, {words} until {again} has looked")
        elif count := known.unseen(self._ground.rows) if known else 0:
            again = command_at(self._ground.place, "validate", "--level", ",".join(known.levels if known else ()))
            shards = f"{counted(count, 'shard')} not validated for {said} since {'it' if count == 1 else 'they'}"
            self._notes.append(f"{shards} came or changed: {again} does")

    def quarantine(self, rows: Iterable[Quarantined]) -> None:
        """What is in quarantine, as long as its shard is as it was."""
        by_key: dict[str, set[str]] = {}
        for each in rows:
            row = self._ground.by_path.get(each.shard)
            if row is None or row.layout_hash != each.layout_hash:
                continue
            if each.place is not None:
                if each.place < row.samples:
                    self.of(row)[each.place] = True
            elif each.key:
                by_key.setdefault(each.shard, set()).add(each.key)
            else:
                self.of(row)[:] = True
        for path, keys in by_key.items():
            self.keys_of(self._ground.by_path[path], keys)

    def done(self) -> Excluded:
        if self._idle:
            message = f"nothing to exclude is there by the name of {some(self._idle, len(self._idle))}"
            hint = "patterns and names are of whole paths below the root; `--allow-empty` passes them over"
            self._problems.append(Problem(NOTHING, message, hint, len(self._idle)))
        found = {shard: part_of(shard, flags) for shard, flags in sorted(self._flags.items())}
        parts = {shard: part for shard, part in found.items() if part is not None}
        return Excluded(parts, self._problems, self._notes)


def _stamp(path: str) -> list[int]:
    try:
        stat = os.stat(path)
    except OSError:
        return []
    return [stat.st_size, stat.st_mtime_ns]
