"""Sorts samples into splits by what they are: their shard's path, their key, a list, a group, a stratum.

Shards are worked on one after another, so that memory does not grow with the number of samples but by the bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wdsctl.core.catalog.catalog import ShardRow
from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.counted import counted
from wdsctl.core.errors import StorageError, UsageError
from wdsctl.core.key_list import KeyList, read_key_list
from wdsctl.core.key_table import hashes_of
from wdsctl.core.keys import derive
from wdsctl.core.split_patterns import Patterns
from wdsctl.core.split_rules import NONE, SplitRule
from wdsctl.core.splitting_bits import NOWHERE, Flags, Labels, parts_of
from wdsctl.core.splitting_shares import Words, by_fold, by_hash, by_stratum, strata_of
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_problems import GAP, NO_VALUE, NOTHING, OVERLAP, Problem, some
from wdsctl.core.verbs.split_read import values_by_shard

MOST_STRATA = 100_000
FEW_GROUPS = 1000  # of which a seed may be looked for that leaves no split empty
MOST_NAMED = 100_000  # shards with samples that have no place, of which the first few are named

Labelled = Iterator[tuple[ShardRow, Labels]]


@dataclass(slots=True)
class Sorted:
    """`strata`: stratum -> split -> samples, of what was sorted now. `groups`: their hashes, where they are few."""

    parts: Parts
    problems: list[Problem] = field(default_factory=list)
    strata: dict[str, dict[str, int]] = field(default_factory=dict)
    groups: set[int] = field(default_factory=set)


def sort_out(
    ground: Ground,
    rule: SplitRule,
    rows: Sequence[ShardRow],
    only: Mapping[int, Flags] | None = None,
    strata: Mapping[str, Mapping[str, int]] | None = None,
) -> Sorted:
    """The splits of the samples of these shards; of some shards `only` these samples, by the shard's id.

    `strata`: what splits have of each stratum already. Raises UsageError where the rule makes no sense, and what
    reading raises: a sample whose shard cannot be read has no place.
    """
    ways: dict[str, Callable[[_Work], Labelled]] = {
        "pattern": _by_pattern,
        "keys": _by_lists,
        "key": _by_key,
        "group": _by_group,
        "stratum": _by_stratum,
    }
    work = _Work(ground, rule, rows, only or {}, strata or {})
    for row, labels in ways[rule.kind](work):
        work.place(row, labels)
    return work.done()


@dataclass(slots=True)
class _Work:
    """One sorting under way. `gaps`, `overlaps`: how many samples, and the first of them."""

    ground: Ground
    rule: SplitRule
    rows: Sequence[ShardRow]
    only: Mapping[int, Flags]
    before: Mapping[str, Mapping[str, int]]
    parts: Parts = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    strata: dict[str, dict[str, int]] = field(default_factory=dict)
    groups: set[int] = field(default_factory=set)
    gaps: int = 0
    first_gap: list[tuple[ShardRow, int]] = field(default_factory=list)

    def place(self, row: ShardRow, labels: Labels) -> None:
        """Put the samples of a shard where they belong; without a place, into the rest, or nowhere."""
        names = self.rule.names
        mine = self.only.get(row.id)
        if self.rule.rest and self.rule.rest != NONE:
            labels = np.where(labels == NOWHERE, np.int16(names.index(self.rule.rest)), labels)
        lost = (labels == NOWHERE) if mine is None else (labels == NOWHERE) & mine
        if lost.any():
            self.gaps += int(lost.sum())
            if len(self.first_gap) < MOST_NAMED:
                self.first_gap.append((row, int(np.argmax(lost))))
        if mine is not None:
            labels = np.where(mine, labels, np.int16(NOWHERE))
        for name, part in parts_of(row.id, labels, names).items():
            self.parts.setdefault(name, {})[row.id] = part

    def _gap(self) -> Problem:
        """What is said of samples without a place."""
        elsewhere = "`--rest train`, or nowhere: `--rest none`"
        named = sorted(self.first_gap, key=lambda pair: pair[0].path)[:3]  # whichever worker was first
        is_whole = self.rule.kind == "pattern"
        first = some([row.path if is_whole else self.ground.key(row, place) for row, place in named], len(named))
        if self.rule.kind == "pattern":
            what = f"{_do(self.gaps, 'match', 'matches')} no pattern"
        elif self.rule.kind == "keys":
            what = f"{_do(self.gaps)} in no list"
        else:
            what = f"{_do(self.gaps, 'have', 'has')} no {self.rule.group_by}"
            elsewhere = f"{elsewhere}; or check the name of the value"
        code = GAP if self.rule.kind in ("pattern", "keys") else NO_VALUE
        message = f"{counted(self.gaps, 'sample')} {what}: {first}"
        return Problem(code, message, f"say where they go: {elsewhere}", self.gaps)

    def done(self) -> Sorted:
        if self.gaps and self.rule.rest != NONE:
            self.problems.append(self._gap())
        ordered = {name: self.parts.get(name, {}) for name in self.rule.names}
        return Sorted(ordered, self.problems, self.strata, self.groups if len(self.groups) < FEW_GROUPS else set())


def _by_pattern(work: _Work) -> Labelled:
    owned = [(number, each) for number, name in enumerate(work.rule.patterns) for each in work.rule.patterns[name]]
    table = Patterns([pattern for _, pattern in owned])
    paths = [row.path for row in work.ground.rows]
    found = {path: table.find(path) for path in paths}
    used = {place for places in found.values() for place in places}
    idle = [pattern for place, (_, pattern) in enumerate(owned) if place not in used]
    if idle and not work.rule.allow_empty:
        example = f"; shards are named such as {paths[0]}" if paths else ""
        work.problems.append(
            Problem(
                NOTHING,
                f"{counted(len(idle), 'pattern')} {_do(len(idle), 'match', 'matches')} no shard: "
                f"{some(idle, len(idle))}",
                f"patterns are of whole paths below the root{example}; `--allow-empty` lets it be",
                len(idle),
            )
        )
    twice: list[str] = []
    for row in work.rows:
        hits = list({owned[place][0] for place in found[row.path]})
        if len(hits) > 1:
            twice.append(row.path)
        else:  # one that two splits want is nobody's, and no gap either: it is told apart
            yield row, np.full(row.samples, hits[0] if hits else NOWHERE, np.int16)
    if twice:
        work.problems.insert(
            0,
            Problem(
                OVERLAP,
                f"{counted(len(twice), 'shard')} {_do(len(twice), 'match', 'matches')} patterns of several splits: "
                f"{some(twice, len(twice))}",
                "let every shard match the patterns of one split alone",
                len(twice),
                twice[0],
            ),
        )


def _by_lists(work: _Work) -> Labelled:
    folder = work.ground.place.meta
    lists = [(number, name, read_key_list(os.path.join(folder, file))) for number, (name, file) in _numbered(work.rule)]
    seen = {name: np.zeros(len(listed.key_start), np.bool_) for _, name, listed in lists}
    twice, first_twice = 0, []
    for rows, index in work.ground.together(work.rows):
        labels, overlaps = _listed(work.ground, lists, index, seen)
        twice += int(overlaps.sum())
        ends = np.cumsum([row.samples for row in rows])
        for row, mine, both in zip(rows, np.split(labels, ends[:-1]), np.split(overlaps, ends[:-1]), strict=True):
            if both.any():
                first_twice.append(work.ground.key(row, int(np.argmax(both))))
            yield row, mine
    if twice:
        message = f"{counted(twice, 'sample')} {_do(twice)} in the lists of several splits: {some(first_twice, twice)}"
        hint = "let every key be in one list alone"
        work.problems.insert(0, Problem(OVERLAP, message, hint, twice))
    if not work.rule.allow_empty and len(work.rows) == len(work.ground.rows):
        work.problems += [problem for _, name, listed in lists for problem in _unfound(name, listed, seen[name])]


def _numbered(rule: SplitRule) -> Iterable[tuple[int, tuple[str, str]]]:
    return ((rule.names.index(name), (name, file)) for name, file in rule.keys.items())


def _listed(
    ground: Ground,
    lists: Sequence[tuple[int, str, KeyList]],
    index: np.ndarray[tuple[int], np.dtype[np.int64]],
    seen: Mapping[str, Flags],
) -> tuple[Labels, Flags]:
    """(samples,): whose list has each, and whether several do."""
    labels = np.full(len(index), NOWHERE, np.int16)
    overlaps = np.zeros(len(index), np.bool_)
    for number, name, listed in lists:
        found = listed.find(ground.offsets, index)
        mine = found >= 0
        seen[name][found[mine]] = True
        overlaps |= mine & (labels != NOWHERE)
        labels[mine] = number
    return labels, overlaps


def _unfound(name: str, listed: KeyList, seen: Flags) -> list[Problem]:
    count, first = listed.unfound(seen)
    if not count:
        return []
    message = f"{counted(count, 'key')} of the list of {name} {'is' if count == 1 else 'are'} not in the dataset"
    return [Problem(NOTHING, f"{message}: {some(first, count)}", "`--allow-empty` passes them over", count)]


def _by_key(work: _Work) -> Labelled:
    for rows, index in work.ground.together(work.rows):
        labels = _hashed(work.rule, hashes_of(work.ground.offsets, index))
        ends = np.cumsum([row.samples for row in rows])
        yield from zip(rows, np.split(labels, ends[:-1]), strict=True)


def _by_group(work: _Work) -> Labelled:
    for row, found in values_by_shard(work.ground, work.rule.group_by, work.rows, is_told=False):
        _check_read(row, found.broken)
        if len(work.groups) < FEW_GROUPS:
            work.groups.update(np.unique(found.hashes[found.hashes != 0]).tolist())
        labels = _hashed(work.rule, found.hashes)
        yield row, np.where(found.hashes == 0, np.int16(NOWHERE), labels)


def _hashed(rule: SplitRule, hashes: Words) -> Labels:
    return by_hash(hashes, rule.shares, rule.seed) if rule.fold is None else by_fold(hashes, rule.fold, rule.seed)


def _by_stratum(work: _Work) -> Labelled:
    """Two passes over the values, which the first leaves behind: how many there are, and who goes where."""
    spec, ground = work.rule.stratify, work.ground
    counts: dict[int, int] = {}
    texts: dict[int, str] = {0: ""}
    held: dict[int, Words] = {}
    for row, found in values_by_shard(ground, spec, work.rows, is_told=True):
        _check_read(row, found.broken)
        texts |= found.texts
        if not ground.keeps:
            held[row.id] = found.hashes
        numbers, times = np.unique(_only(work, row, found.hashes), return_counts=True)
        for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
            counts[number] = counts.get(number, 0) + count
        if len(counts) > MOST_STRATA:
            raise UsageError(
                f"{spec} has more than {MOST_STRATA:,} different values: these are no strata",
                hint=f"to keep samples of one value together: `--group-by {spec}`",
            )
    numbers_of = {text: number for number, text in texts.items()}
    already = {numbers_of[text]: known for text, known in work.before.items() if text in numbers_of}
    strata = strata_of(counts, already, work.rule.shares)
    names = tuple(work.rule.shares)
    work.strata = {texts[number]: dict(zip(names, stratum.left, strict=True)) for number, stratum in strata.items()}
    for row in sorted(work.rows, key=lambda row: row.path):
        hashes = held[row.id] if row.id in held else _again(ground, spec, row)
        key = derive("stratum", work.rule.seed, row.path)
        mine = work.only.get(row.id)
        labels = np.full(row.samples, NOWHERE, np.int16)
        places = slice(None) if mine is None else mine
        labels[places] = by_stratum(hashes[places], strata, key)
        if mine is not None:
            labels[~mine] = 0  # whatever: `place` leaves them where they are
        yield row, labels


def _again(ground: Ground, spec: str, row: ShardRow) -> Words:
    [(_, found)] = values_by_shard(ground, spec, [row], is_told=True)
    _check_read(row, found.broken)
    return found.hashes


def _only(work: _Work, row: ShardRow, hashes: Words) -> Words:
    mine = work.only.get(row.id)
    return hashes if mine is None else hashes[mine]


def _do(count: int, many: str = "are", one: str = "is") -> str:
    return one if count == 1 else many


def _check_read(row: ShardRow, broken: str) -> None:
    if broken:
        raise StorageError(
            f"a shard cannot be read, so its samples have no place: {broken}",
            where=row.path,
            hint="mend it, or leave it out of all splits: `--exclude-shard`",
        )
