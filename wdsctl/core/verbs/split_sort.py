"""Sorts samples into splits by what they are: their shard's path, their key, a list, a group, a stratum.

Shards are worked on one after another, so that memory does not grow with the number of samples but by the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.counted import counted
from wdsctl.core.key_list import KeyList, read_key_list
from wdsctl.core.key_table import hashes_of
from wdsctl.core.split_patterns import Patterns
from wdsctl.core.split_rules import SplitRule
from wdsctl.core.splitting import Given
from wdsctl.core.splitting_bits import NOWHERE, Flags, Labels
from wdsctl.core.splitting_shares import Words, by_fold, by_hash
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_problems import NOTHING, OVERLAP, Problem, some
from wdsctl.core.verbs.split_read import values_by_shard
from wdsctl.core.verbs.split_strata import balanced, by_stratum
from wdsctl.core.verbs.split_work import FEW_GROUPS, Labelled, Sorted, Work, check_read, do


def sort_out(
    ground: Ground,
    rule: SplitRule,
    rows: Sequence[ShardRow],
    only: Mapping[int, Flags] | None = None,
    given: Given | None = None,
) -> Sorted:
    """The splits of the samples of these shards; of some shards `only` these samples, by the shard's id.

    `given`: what splits have of strata and groups already. Raises UsageError where the rule makes no sense, and what
    reading raises: a sample whose shard cannot be read has no place.
    """
    ways: dict[str, Callable[[Work], Labelled]] = {
        "pattern": _by_pattern,
        "keys": _by_lists,
        "key": _by_key,
        "group": _by_group,
        "stratum": by_stratum,
        "balanced": balanced,
    }
    work = Work(ground, rule, rows, only or {}, given or Given())
    for row, labels in ways[rule.kind](work):
        work.place(row, labels)
    return work.done()


def _by_pattern(work: Work) -> Labelled:
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
                f"{counted(len(idle), 'pattern')} {do(len(idle), 'match', 'matches')} no shard: "
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
                f"{counted(len(twice), 'shard')} {do(len(twice), 'match', 'matches')} patterns of several splits: "
                f"{some(twice, len(twice))}",
                "let every shard match the patterns of one split alone",
                len(twice),
                twice[0],
            ),
        )


def _by_lists(work: Work) -> Labelled:
    folder = work.ground.place.meta
    lists = [(number, name, read_key_list(folder, file)) for number, (name, file) in _numbered(work.rule)]
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
        message = f"{counted(twice, 'sample')} {do(twice)} in the lists of several splits: {some(first_twice, twice)}"
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


def _by_key(work: Work) -> Labelled:
    for rows, index in work.ground.together(work.rows):
        labels = _hashed(work.rule, hashes_of(work.ground.offsets, index))
        ends = np.cumsum([row.samples for row in rows])
        yield from zip(rows, np.split(labels, ends[:-1]), strict=True)


def _by_group(work: Work) -> Labelled:
    for row, found in values_by_shard(work.ground, work.rule.group_by, work.rows, is_told=False):
        check_read(row, found.broken)
        if len(work.groups) < FEW_GROUPS:
            work.groups.update(np.unique(found.hashes[found.hashes != 0]).tolist())
        labels = _hashed(work.rule, found.hashes)
        yield row, np.where(found.hashes == 0, np.int16(NOWHERE), labels)


def _hashed(rule: SplitRule, hashes: Words) -> Labels:
    return by_hash(hashes, rule.shares, rule.seed) if rule.fold is None else by_fold(hashes, rule.fold, rule.seed)
