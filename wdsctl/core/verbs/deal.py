"""Deals shards that are new to a catalog out to its splits. What is in a split stays in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wdsctl.core.catalog.catalog import Held, ShardRow
from wdsctl.core.catalog.draft import Draft
from wdsctl.core.command_line import command_at
from wdsctl.core.dataset_yaml import SplitRule
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place
from wdsctl.core.splitting import Shard, SplitShard, by_sample, by_shard, resolved, with_more


def deal_new(
    place: Place,
    draft: Draft,
    rows: Sequence[ShardRow],
    rule: SplitRule,
    held: Mapping[str, Held],
    grown: Mapping[str, int],
) -> list[Finding]:
    """Put these shards into splits. `held`: where those were that had been dealt before, by path.

    A changed shard stays in its split; where samples were dealt one by one, only if none of them moved in the shard.
    Of those that have `grown` (path: samples that are as they were), only what is behind is dealt.
    Returns a finding for every split that is empty all the same.
    """
    filled = [row for row in rows if row.samples]
    by = resolved(rule.by, len(filled), rule.shares)
    if not draft.has_splits:
        draft.replace_splits(rule.shares, by, rule.seed)
    new: list[Shard] = []
    for row in rows:
        before = held.get(row.path)
        if before is not None and by == "shard":
            draft.add_to_split(next(iter(before.parts)), [SplitShard(row.id, row.samples)])
        elif before is not None and before.layout_hash == row.layout_hash:
            for name, (samples, bits) in before.parts.items():
                draft.add_to_split(name, [SplitShard(row.id, samples, bits)])
        elif before is not None and row.path in grown:
            _deal_more(draft, Shard(row.id, row.path, row.samples), rule, before, grown[row.path])
        elif row.samples:
            new.append(Shard(row.id, row.path, row.samples))
    if new:
        deal = by_shard if by == "shard" else by_sample
        for name, parts in deal(new, rule.shares, rule.seed, draft.split_totals(by)).items():
            draft.add_to_split(name, parts)
    empty = [name for name, samples in draft.split_totals("sample").items() if not samples]
    anew = command_at(place, "split", "8,1,1")
    words = f"has no samples: divide the dataset anew, such as by {anew}"
    return [Finding(code="WDS210", severity="warning", message=f"the split {name!r} {words}") for name in empty]


def _deal_more(draft: Draft, shard: Shard, rule: SplitRule, held: Held, count: int) -> None:
    already = draft.split_totals("sample")
    for name, (samples, _) in held.parts.items():
        already[name] = already.get(name, 0) + samples
    rest = Shard(shard.id, shard.path, shard.samples - count)
    more = by_sample([rest], rule.shares, rule.seed, already)
    for name, parts in with_more(shard, held.parts, count, more).items():
        draft.add_to_split(name, parts)
