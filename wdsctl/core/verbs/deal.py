"""Deals shards that are new to a catalog out to its splits. What is in a split stays in it.

Here, while the catalog is written, shards are dealt to sets whose shards or samples are counted out. Other sets keep
what has not changed; what is new to them comes after it (wdsctl/core/verbs/split_settle.py): it may have to be read. So
does all that is new where the dataset excludes samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wdsctl.core.catalog.draft import Draft
from wdsctl.core.catalog.shard_row import Held, ShardRow
from wdsctl.core.command_line import command_at
from wdsctl.core.dealing import Shard, by_sample, by_shard, resolved, with_more
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place
from wdsctl.core.split_rules import SplitRule, named_in, set_and_name
from wdsctl.core.splitting import SplitShard


def deal_new(
    place: Place,
    draft: Draft,
    rows: Sequence[ShardRow],
    rule: SplitRule | None,
    held: Mapping[str, Held],
    grown: Mapping[str, int],
) -> list[Finding]:
    """Put these shards into splits. `held`: where those were that had been dealt before, by path.

    `rule` is that of a catalog which has no splits yet. A changed shard stays in its split; where samples were dealt
    one by one, only if none of them moved in the shard. Of those that have `grown` (path: samples that are as they
    were), only what is behind is dealt. Returns a finding for every split that is empty all the same.
    """
    known = draft.splits.rules()
    rules = known or ({} if rule is None else {"": rule})
    findings = []
    for of_set, mine in rules.items():
        if mine.is_counted:
            findings += _deal_set(place, draft, of_set, mine, rows, held, grown)
        elif of_set in known:
            _keep_set(draft, of_set, mine, rows, held, grown)
    return findings


def _keep_set(
    draft: Draft,
    of_set: str,
    rule: SplitRule,
    rows: Sequence[ShardRow],
    held: Mapping[str, Held],
    grown: Mapping[str, int],
) -> None:
    """Leave those samples of a set where they were whose shard has not changed up to them."""
    if not draft.splits.totals(of_set, "shard"):
        draft.splits.begin_set(of_set, rule)
    for row in rows:
        before = held.get(row.path)
        if before is not None and before.layout_hash == row.layout_hash:
            for name, (samples, bits) in _in_set(before, of_set).items():
                draft.splits.add(of_set, name, [SplitShard(row.id, samples, bits)])
        elif before is not None and row.path in grown:
            shard = Shard(row.id, row.path, row.samples)
            for name, parts in with_more(shard, _in_set(before, of_set), grown[row.path], {}).items():
                draft.splits.add(of_set, name, parts)


def _deal_set(
    place: Place,
    draft: Draft,
    of_set: str,
    rule: SplitRule,
    rows: Sequence[ShardRow],
    held: Mapping[str, Held],
    grown: Mapping[str, int],
) -> list[Finding]:
    filled = [row for row in rows if row.samples]
    by = resolved(rule.by, len(filled), rule.shares)
    if not draft.splits.totals(of_set, "shard"):
        draft.splits.begin_set(of_set, replace(rule, by=by))
    new: list[Shard] = []
    for row in rows:
        before = held.get(row.path)
        parts = _in_set(before, of_set)
        if before is not None and parts and by == "shard":
            draft.splits.add(of_set, next(iter(parts)), [SplitShard(row.id, row.samples)])
        elif before is not None and before.layout_hash == row.layout_hash:
            for name, (samples, bits) in parts.items():
                draft.splits.add(of_set, name, [SplitShard(row.id, samples, bits)])
        elif before is not None and parts and row.path in grown:
            _deal_more(draft, of_set, Shard(row.id, row.path, row.samples), rule, parts, grown[row.path])
        elif row.samples:
            new.append(Shard(row.id, row.path, row.samples))
    # Which of them are excluded is not known yet: until then they are nowhere, and not for a moment in a split.
    if new and not draft.splits.has_excludes:
        deal = by_shard if by == "shard" else by_sample
        for name, dealt in deal(new, rule.shares, rule.seed, draft.splits.totals(of_set, by)).items():
            draft.splits.add(of_set, name, dealt)
    totals = draft.splits.totals(of_set, "sample")
    return (
        []
        if rule.allow_empty
        else [empty_split(place, named_in(of_set, name)) for name, samples in totals.items() if not samples]
    )


def empty_split(place: Place, name: str) -> Finding:
    """The finding of a split that has nothing."""
    words = f"has no samples: divide the dataset anew, such as by {command_at(place, 'split', '8,1,1')}"
    return Finding(code="WDS210", severity="warning", message=f"the split {name!r} {words}")


def _in_set(held: Held | None, of_set: str) -> dict[str, tuple[int, bytes | None]]:
    """What splits of one set had of a shard, by their short names."""
    named = {} if held is None else held.parts
    return {short: part for name, part in named.items() for mine, short in (set_and_name(name),) if mine == of_set}


def _deal_more(
    draft: Draft,
    of_set: str,
    shard: Shard,
    rule: SplitRule,
    held: Mapping[str, tuple[int, bytes | None]],
    count: int,
) -> None:
    already = draft.splits.totals(of_set, "sample")
    for name, (samples, _) in held.items():
        already[name] = already.get(name, 0) + samples
    rest = Shard(shard.id, shard.path, shard.samples - count)
    more = by_sample([rest], rule.shares, rule.seed, already)
    for name, parts in with_more(shard, held, count, more).items():
        draft.splits.add(of_set, name, parts)
