"""Deals shards that are new to a catalog out to its splits. What was in a split goes back into it.

Here, while the catalog is written, shards are dealt to sets whose shards or samples are counted out. Other sets keep
what they had; what is new to them comes after it (wdsctl/core/verbs/split_settle.py): it may have to be read. So does
all that is new where the dataset excludes samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wdsctl.core.catalog.draft import Draft
from wdsctl.core.catalog.shard_row import Held, ShardRow
from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.command_line import command_at
from wdsctl.core.dealing import Shard, by_sample, by_shard, resolved
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place
from wdsctl.core.plain_members import Ints
from wdsctl.core.split_rules import SplitRule, named_in, set_and_name
from wdsctl.core.splitting import SplitShard
from wdsctl.core.splitting_bits import Flags, flags_of, scattered
from wdsctl.core.verbs.origins import NEW, Origins
from wdsctl.core.verbs.split_former import add

if TYPE_CHECKING:
    from wdsctl.core.verbs.fold import Folding


def deal_new(place: Place, draft: Draft, rows: Sequence[ShardRow], work: Folding, origins: Origins) -> list[Finding]:
    """Put these shards into splits: samples that were in one go back to it, and new ones are dealt.

    A shard stays in its split where shards are dealt, whatever is in it. Where samples are, one stays in its split as
    long as the shard has its key, or comes back as it was. `work.rule` is that of a catalog which has no splits yet.
    What a shard has lost is remembered. Returns a finding for every split that is empty all the same.
    """
    known = draft.splits.rules()
    rules = known or ({} if work.rule is None else {"": work.rule})
    findings = []
    lost: set[str] = set()
    renamed = _renamed(rows, work)
    for of_set, rule in rules.items():
        if rule.is_counted or of_set in known:
            lost |= _deal_set(draft, of_set, rule, rows, work, origins, renamed)
        if rule.is_counted and not rule.allow_empty:
            totals = draft.splits.totals(of_set, "sample")
            findings += [empty_split(place, named_in(of_set, name)) for name, count in totals.items() if not count]
    for row in rows:
        if row.path in work.gone:
            draft.forget_former(row.path, row.layout_hash)
        for path in renamed.get(row.path, ()):
            draft.forget_former(path, row.layout_hash)
    for before, _ in work.changed:
        if before.path in lost:
            draft.splits.remember_shard(before.id, work.held[before.path])
    return findings


def empty_split(place: Place, name: str) -> Finding:
    """The finding of a split that has nothing."""
    words = f"has no samples: divide the dataset anew, such as by {command_at(place, 'split', '8,1,1')}"
    return Finding(code="WDS210", severity="warning", message=f"the split {name!r} {words}")


def _renamed(rows: Sequence[ShardRow], work: Folding) -> dict[str, dict[str, Held]]:
    """New shards that are laid out, keys and all, like one that is gone from another path: by path, what these had.

    None where two new ones are laid out alike, or where those that are gone were divided otherwise.
    """
    gone: dict[str, dict[str, Held]] = {}
    for path, kept in work.gone.items():
        for held in reversed(kept):  # the last that was there wins
            gone.setdefault(held.layout_hash, {})[path] = held
    new = [row for row in rows if row.samples and row.path not in work.held]
    layouts = Counter(row.layout_hash for row in new)
    found = {}
    for row in new:
        alike = gone.get(row.layout_hash, {})
        if alike and row.path not in alike and layouts[row.layout_hash] == 1:
            first, *others = alike.values()
            if all(other.former == first.former for other in others):
                found[row.path] = alike
    return found


def _deal_set(
    draft: Draft,
    of_set: str,
    rule: SplitRule,
    rows: Sequence[ShardRow],
    work: Folding,
    origins: Origins,
    renamed: Mapping[str, Mapping[str, Held]],
) -> set[str]:
    """Put these shards into the splits of a set. Returns the paths of those that have lost what a split had."""
    by = resolved(rule.by, sum(row.samples > 0 for row in rows), rule.shares) if rule.is_counted else ""
    if not draft.splits.totals(of_set, "shard"):
        draft.splits.begin_set(of_set, replace(rule, by=by) if by else rule)
    names = draft.splits.totals(of_set, "shard")
    parts: Parts = {name: {} for name in names}
    former: Parts = {name: {} for name in names}
    excludes = draft.splits.has_excludes
    new: dict[int, Flags] = {}
    lost: set[str] = set()
    for row in rows:
        sources = _sources(row, of_set, rule, work, origins)
        sources += _sources_elsewhere(row, of_set, rule, renamed)
        free = np.ones(row.samples, np.bool_)
        targets = [former if each.is_former or (each.is_gone and excludes) else parts for each in sources]
        for source, target in zip(sources, targets, strict=True):
            free &= ~_given_back(row, source, target, free)
        if by == "shard":
            free &= ~_rest_given(row, sources, targets, free)
        had = sum(int(old.sum()) for source in sources if not source.is_gone for old in source.flags.values())
        kept = had if by == "shard" and row.samples else int((~free).sum())
        if kept < had:
            lost.add(row.path)
        if free.any():
            new[row.id] = free
    # Which of them are excluded is not known yet: until then they are nowhere, and not for a moment in a split.
    if new and by and not excludes:
        _deal_free([row for row in rows if row.id in new], new, by, rule, parts, draft.splits.totals(of_set, by))
    for name, placed in parts.items():
        draft.splits.add(of_set, name, placed.values())
    if any(former.values()):
        known = draft.splits.former(of_set)
        draft.splits.keep_former(of_set, {name: {**known.get(name, {}), **former[name]} for name in names})
    return lost


def _given_back(row: ShardRow, source: _Source, target: Parts, free: Flags) -> Flags:
    """Give the splits the free samples of a shard that they had. Returns those."""
    given = np.zeros(row.samples, np.bool_)
    for name, old in source.flags.items():
        if name in target:
            mine = free & ~given & _carried(old, source.origin)
            add(target[name], row.id, mine)
            given |= mine
    return given


def _rest_given(row: ShardRow, sources: Sequence[_Source], targets: Sequence[Parts], free: Flags) -> Flags:
    """Give what is free of a shard to the split that had most of it: one sample that was excluded from another does not
    speak for all. Returns what was given."""
    for source, target in zip(sources, targets, strict=True):
        had = {name: int(old.sum()) for name, old in source.flags.items() if name in target and old.any()}
        if had:
            add(target[max(had, key=had.__getitem__)], row.id, free)
            return free
    return np.zeros(row.samples, np.bool_)


def _deal_free(
    rows: Sequence[ShardRow],
    new: Mapping[int, Flags],
    by: str,
    rule: SplitRule,
    parts: Parts,
    totals: Mapping[str, int],
) -> None:
    """Deal what is free in these shards out to splits that have `parts`, and `totals` beside them."""
    shards = [Shard(row.id, row.path, int(new[row.id].sum())) for row in rows]
    already = {
        name: totals[name] + (len(mine) if by == "shard" else sum(part.samples for part in mine.values()))
        for name, mine in parts.items()
    }
    deal = by_shard if by == "shard" else by_sample
    for name, dealt in deal(shards, rule.shares, rule.seed, already).items():
        for part in dealt:
            flags = flags_of(scattered(part, new[part.shard]), len(new[part.shard]))
            add(parts[name], part.shard, flags)


@dataclass(frozen=True, slots=True)
class _Source:
    """What splits had of a shard: by name (samples it had,), and for each sample that it has now which it was."""

    flags: dict[str, Flags]
    origin: Ints
    is_former: bool = False
    is_gone: bool = False


def _sources(row: ShardRow, of_set: str, rule: SplitRule, work: Folding, origins: Origins) -> list[_Source]:
    """Where samples of a shard may have been: in a split, out of it for now, or there before the shard was gone."""
    found = []
    if (before := work.held.get(row.path)) is not None:
        origin = _origin(row, before, rule, origins)
        found.append(_Source(_flags(row, before.parts, before.samples, of_set), origin))
        found.append(_Source(_flags(row, before.former, before.samples, of_set), origin, is_former=True))
    for gone in work.gone.get(row.path, ()):
        origin = np.arange(row.samples) if gone.layout_hash == row.layout_hash else np.full(row.samples, NEW)
        found.append(_Source(_flags(row, gone.former, gone.samples, of_set), origin, is_gone=True))
    return found


def _sources_elsewhere(
    row: ShardRow, of_set: str, rule: SplitRule, renamed: Mapping[str, Mapping[str, Held]]
) -> list[_Source]:
    """The same of one that was gone from another path. Where path, key or group say where samples go, nothing."""
    before = next(iter(renamed.get(row.path, {}).values()), None)
    if before is None or not (rule.is_counted or rule.kind == "stratum"):
        return []
    return [_Source(_flags(row, before.former, before.samples, of_set), np.arange(row.samples), is_gone=True)]


def _origin(row: ShardRow, before: Held, rule: SplitRule, origins: Origins) -> Ints:
    """For each sample which one of the shard as it was it is. Samples of groups go by what they hold now, unless they
    are as they were and their raw files alone have another name.
    """
    if before.layout_hash == row.layout_hash:
        return np.arange(row.samples)
    if row.path in origins.found and (not rule.group_by or row.path in origins.grown):
        return origins.found[row.path]
    if row.path in origins.renamed:
        return origins.renamed[row.path]
    return np.full(row.samples, NEW)


def _flags(row: ShardRow, had: Mapping[str, tuple[int, bytes | None]], count: int, of_set: str) -> dict[str, Flags]:
    """What the splits of one set had of a shard of `count` samples, by their short names."""
    named = {short: part for name, part in had.items() for mine, short in (set_and_name(name),) if mine == of_set}
    return {short: flags_of(SplitShard(row.id, *part), count) for short, part in named.items()}


def _carried(old: Flags, origin: Ints) -> Flags:
    """The flags of samples, by which they were."""
    flags = np.zeros(len(origin), np.bool_)
    known = origin != NEW
    flags[known] = old[origin[known]]
    return flags
