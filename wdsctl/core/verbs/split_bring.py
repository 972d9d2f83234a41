"""Updates one set of splits: excluded samples leave it, samples without a split get one, the others stay.

The split of a sample that leaves is remembered, and the sample goes back to it: nothing of train comes to test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.counted import counted, enumerated
from wdsctl.core.dealing import Dealt, Shard, by_sample, by_shard, resolved
from wdsctl.core.errors import StorageError, UsageError
from wdsctl.core.ratios import apportion
from wdsctl.core.split_rules import SplitRule, named_in
from wdsctl.core.splitting import Given, SplitShard
from wdsctl.core.splitting_bits import Flags, flags_of, part_of, scattered
from wdsctl.core.splitting_shares import by_hash
from wdsctl.core.verbs.split_former import add, excluded_before, keep_splits, put, put_back, take_out, without_split
from wdsctl.core.verbs.split_ground import Ground, as_parts
from wdsctl.core.verbs.split_problems import EMPTY, Problem
from wdsctl.core.verbs.split_sort import sort_out

SEEDS = 1000  # that are tried for one that leaves no split empty


@dataclass(slots=True)
class Brought:
    """`former`: by split, the samples that go back to it once they are no longer excluded, or their shard is there.

    `changed`: the shards of which some split has others than before. `unit`: what was counted out, if anything.
    """

    parts: Parts
    former: Parts = field(default_factory=dict)
    unit: Literal["", "shard", "sample"] = ""
    changed: set[int] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    given: Given = field(default_factory=Given)


def bring(
    ground: Ground,
    rule: SplitRule,
    parts: Parts,
    former: Parts,
    excluded: Mapping[int, SplitShard],
    given: Given | None = None,
) -> Brought:
    """The splits of a set as they are to be. `parts`, `former`: as they are; `given`: what they have of strata and
    groups.
    """
    made = Brought(_copied(parts, rule), former=_copied(former, rule), given=given or Given())
    made.changed |= take_out(ground.sizes, made.parts, made.former, excluded)
    made.changed |= put_back(ground.sizes, made.parts, made.former, excluded)
    waiting = _waiting(ground, made.parts, excluded)
    if waiting:
        _deal(ground, rule, made, waiting)
    return made


def assign_all(
    ground: Ground,
    rule: SplitRule,
    excluded: Mapping[int, SplitShard],
    parts: Parts | None = None,
    former: Parts | None = None,
) -> Brought:
    """The splits of a set that is made now. Raises UsageError WDS210.

    Shards that are excluded whole are not dealt; of others all samples are, and the excluded ones taken out: so that
    nothing else moves for their sake. `parts`, `former`: the set that it takes the place of, if there is one. Of that,
    only the excluded samples count: those that were in a split of it are told now where they go back to.
    """
    whole = {shard for shard, part in excluded.items() if part.samples == ground.sizes[shard]}
    rows = [row for row in ground.rows if row.id not in whole]
    groups: set[int] = set()
    if rule.is_counted:
        unit, dealt = deal_all(rows, rule)
        made = Brought(_copied(as_parts(dealt), rule), unit=unit)
    else:
        alone = {} if rule.stratify else excluded  # where samples do not matter to one another
        only = {shard: ~flags_of(part, ground.sizes[shard]) for shard, part in alone.items()}
        done = sort_out(ground, rule, ground.rows if rule.kind == "keys" else rows, only)
        made = Brought(_copied(done.parts, rule), problems=done.problems, given=done.given)
        groups = done.groups
    take_out(ground.sizes, made.parts, made.former, excluded)
    _remember(ground, rule, made, excluded, parts or {}, former or {})
    empty = [name for name, mine in made.parts.items() if not mine]
    if empty and not rule.allow_empty and not made.problems:
        made.problems.append(_empty(rule, empty, groups))
    return made


def _copied(parts: Parts, rule: SplitRule) -> Parts:
    return {name: dict(parts.get(name, {})) for name in rule.names}


def _remember(
    ground: Ground, rule: SplitRule, made: Brought, excluded: Mapping[int, SplitShard], parts: Parts, former: Parts
) -> None:
    """Say of excluded samples that were in a split of the set before where they go back to.

    Where samples are dealt by number they go back to the split that they were in, if the set still has it. By every
    other rule they go where the rule says: a group, say, is in one split alone.
    """
    was = excluded_before(ground.sizes, parts, former, excluded)
    if rule.is_counted or rule.kind == "stratum":
        keep_splits(made.former, {name: mine for name, mine in was.items() if name in made.parts})
        for name in made.parts.keys() & former.keys():
            gone = {shard: part for shard, part in former[name].items() if shard not in ground.sizes}
            made.former.setdefault(name, {}).update(gone)
        return
    waiting = without_split(ground.sizes, made.former, was)
    if not waiting:
        return
    try:
        done = sort_out(ground, rule, [row for row in ground.rows if row.id in waiting], waiting, made.given)
    except StorageError:
        return  # the shard cannot be read now, which may be why it is excluded
    for name, found in done.parts.items():
        for shard, part in found.items():
            add(made.former.setdefault(name, {}), shard, flags_of(part, ground.sizes[shard]))
    made.given = _added(made.given, done.given)


def emptied(of_set: str, rule: SplitRule, before: Parts, made: Brought) -> list[Problem]:
    """What is said where a split loses all that it had."""
    names = [named_in(of_set, name) for name, mine in before.items() if mine and not made.parts.get(name)]
    if not names or rule.allow_empty:
        return []
    return [
        Problem(
            EMPTY,
            f"{enumerated(names)} would be empty: all {'its' if len(names) == 1 else 'their'} samples are excluded",
            "exclude less, divide the dataset otherwise, or say `--allow-empty`",
            len(names),
        )
    ]


def deal_all(rows: Sequence[ShardRow], rule: SplitRule) -> tuple[Literal["shard", "sample"], Dealt]:
    """How shares of shards or samples come out, and by which unit. Raises UsageError WDS210."""
    shards = [Shard(row.id, row.path, row.samples) for row in rows if row.samples]
    by = resolved(rule.by, len(shards), rule.shares)
    total = len(shards) if by == "shard" else sum(shard.samples for shard in shards)
    counts = apportion(total, rule.shares)
    if not rule.allow_empty:
        _check_counts(rule.shares, counts, by, total)
    return by, (by_shard if by == "shard" else by_sample)(shards, rule.shares, rule.seed, {})


def _check_counts(shares: Mapping[str, float], counts: Mapping[str, int], by: str, total: int) -> None:
    empty = [name for name, count in counts.items() if count == 0]
    if not empty:
        return
    raise UsageError(
        f"{enumerated(empty)} would be empty: {counted(total, by)} cannot fill {counted(len(counts), 'split')}",
        where=",".join(f"{name}={share}" for name, share in shares.items()),
        hint="divide it by samples: `--by sample`" if by == "shard" else "give it a larger share, or leave it out",
        code="WDS210",
    )


def _empty(rule: SplitRule, names: Sequence[str], groups: set[int]) -> Problem:
    hints = {
        "balanced": "there are fewer groups than splits: leave some out",
        "group": f"there are few groups: {_other_seed(rule, groups)}",
        "key": "there are few samples: another `--seed` deals them otherwise",
    }
    message = f"{enumerated(names)} would be empty"
    return Problem(EMPTY, message, f"{hints.get(rule.kind, 'leave it out')}, or say `--allow-empty`", len(names))


def _other_seed(rule: SplitRule, groups: set[int]) -> str:
    """A seed by which no split is empty, if one is found soon."""
    hashes = np.array(sorted(groups), np.uint64)
    if rule.fold is None and len(groups) >= len(rule.shares):
        for seed in range(SEEDS):
            if len(np.unique(by_hash(hashes, rule.shares, seed))) == len(rule.shares):
                return f"`--seed {seed}` leaves none empty"
    return "another `--seed` deals them otherwise"


def _waiting(ground: Ground, parts: Parts, excluded: Mapping[int, SplitShard]) -> dict[int, Flags]:
    """By shard, the samples that have no place and are not excluded."""
    waiting: dict[int, Flags] = {}
    for row in ground.rows:
        held = [mine[row.id] for mine in (*parts.values(), excluded) if row.id in mine]
        if sum(part.samples for part in held) >= row.samples:
            continue
        free = np.ones(row.samples, np.bool_)
        for part in held:
            free &= ~flags_of(part, row.samples)
        if free.any():
            waiting[row.id] = free
    return waiting


def _deal(ground: Ground, rule: SplitRule, made: Brought, waiting: Mapping[int, Flags]) -> None:
    rows = [row for row in ground.rows if row.id in waiting]
    if rule.is_counted:
        found = _counted_out(rule, made.parts, rows, waiting)
    else:
        done = sort_out(ground, rule, rows, waiting, made.given)
        made.problems += done.problems
        found = done.parts
        made.given = _added(made.given, done.given)
    for name, mine in found.items():
        for shard, part in mine.items():
            made.changed.add(shard)
            add(made.parts[name], shard, flags_of(part, ground.sizes[shard]))


def _added(before: Given, more: Given) -> Given:
    """Samples of strata are added up; of groups all are named anew."""
    strata = {stratum: dict(known) for stratum, known in before.strata.items()}
    for stratum, counts in more.strata.items():
        known = strata.setdefault(stratum, {})
        for name, count in counts.items():
            known[name] = known.get(name, 0) + count
    return Given(strata, more.groups or before.groups)


def _counted_out(rule: SplitRule, parts: Parts, rows: list[ShardRow], waiting: Mapping[int, Flags]) -> Parts:
    """New shards as ever; of shards that are in a split already, what comes back goes there."""
    if rule.by == "shard":
        back = {row.id: name for row in rows for name, mine in parts.items() if row.id in mine}
        new = [Shard(row.id, row.path, row.samples) for row in rows if row.id not in back]
        totals = {name: len(mine) for name, mine in parts.items()}
        dealt = as_parts(by_shard(new, rule.shares, rule.seed, totals)) if new else {name: {} for name in parts}
        for shard, name in back.items():
            put(dealt[name], shard, part_of(shard, waiting[shard]))
        return {
            name: {shard: _within(part, waiting[shard]) for shard, part in mine.items()} for name, mine in dealt.items()
        }
    shards = [Shard(row.id, row.path, int(waiting[row.id].sum())) for row in rows]
    totals = {name: sum(part.samples for part in mine.values()) for name, mine in parts.items()}
    dealt = as_parts(by_sample(shards, rule.shares, rule.seed, totals))
    return {
        name: {shard: scattered(part, waiting[shard]) for shard, part in mine.items()} for name, mine in dealt.items()
    }


def _within(part: SplitShard, free: Flags) -> SplitShard:
    return part_of(part.shard, flags_of(part, len(free)) & free) or SplitShard(part.shard, 0, b"")
