"""Allocates shards or samples to splits by largest remainder: exact counts, chosen by hash, nothing lost.

`allocate_shards` and `allocate_samples` do the counting. Earlier allocations stay: new shards go where the totals come
nearest to the shares. `allocate_new_shards` runs while `index` writes a catalog. It restores the splits of samples that
moved or came back, and allocates the rest of sets that count shards or samples. Samples that other rules assign may
have to be read, and so may all new samples of a dataset with excludes: wdsctl/core/split/reapply.py does that
afterwards.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.catalog.draft import CatalogDraft
from wdsctl.core.catalog.splits import (
    SampleFlags,
    SplitShard,
    SplitShards,
    expand_to_shard,
    sample_flags,
    shard_from_flags,
)
from wdsctl.core.catalog.values import ShardRow, SplitMembership
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.errors import CatalogError, Finding
from wdsctl.core.hashing import derive_seed, hash_values
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.shards.shard_scan import ShardScan, split_texts
from wdsctl.core.split.assignment import add_samples
from wdsctl.core.split_rules.names import qualified_split_name, split_set_and_name
from wdsctl.core.split_rules.rule import SplitBy, SplitRule
from wdsctl.core.split_rules.shares import allocate_items, allocate_new_items

if TYPE_CHECKING:
    from wdsctl.core.index.merge import MergePlan

SHARE_TOLERANCE = 0.1  # `auto` assigns whole shards if every split gets its share of them up to this fraction
NEW_SAMPLE = -1  # the origin of a sample that the shard did not have before


@dataclass(frozen=True, slots=True)
class ShardToAllocate:
    """A shard or its free samples. The path decides, not the id: a rebuilt catalog allocates in the same way."""

    id: int
    path: str
    samples: int


def resolve_by(by: SplitBy, shards: int, shares: Mapping[str, float]) -> Literal["shard", "sample"]:
    """Resolve `auto`: whole shards, which load fastest, unless they are too few for the shares.

    They are if a split would have a tenth more or less shards than its share, or none.
    """
    if by != "auto":
        return "shard" if by == "shard" else "sample"
    exact = {name: shards * share / sum(shares.values()) for name, share in shares.items()}
    counts = allocate_items(shards, shares)
    fits = all(
        counts[name] and abs(counts[name] - exact[name]) <= (SHARE_TOLERANCE + 1e-9) * exact[name] for name in shares
    )
    return "shard" if fits else "sample"


def allocate_shards(
    shards: Sequence[ShardToAllocate], shares: Mapping[str, float], seed: int, existing: Mapping[str, int]
) -> SplitShards:
    """Assign whole shards. `existing`: shards that each split has."""
    counts = allocate_new_items(len(shards) + sum(existing.values()), existing, shares)
    shuffled = sorted(shards, key=lambda shard: (derive_seed("split", seed, shard.path), shard.path))
    allocated: SplitShards = {}
    for name, count in counts.items():
        chosen, shuffled = sorted(shuffled[:count], key=lambda shard: shard.id), shuffled[count:]
        allocated[name] = {shard.id: SplitShard(shard.id, shard.samples) for shard in chosen if shard.samples}
    return allocated


def allocate_samples(
    shards: Sequence[ShardToAllocate], shares: Mapping[str, float], seed: int, existing: Mapping[str, int]
) -> SplitShards:
    """Assign samples; every shard gives each split its share. `existing`: samples that each split has."""
    total = sum(shard.samples for shard in shards) + sum(existing.values())
    remaining = allocate_new_items(total, existing, shares)
    allocated: SplitShards = {name: {} for name in remaining}
    for shard in shards:
        if shard.samples == 0:
            continue
        counts = allocate_items(shard.samples, remaining)
        draws = hash_values(derive_seed("split", seed, shard.path), np.arange(shard.samples))
        order = np.argsort(draws, kind="stable")
        begin = 0
        for name, count in counts.items():
            chosen = np.zeros(shard.samples, np.bool_)
            chosen[order[begin : begin + count]] = True
            begin += count
            if (part := shard_from_flags(shard.id, chosen)) is not None:
                allocated[name][shard.id] = part
        remaining = {name: remaining[name] - count for name, count in counts.items()}
    return allocated


def allocate_free_samples(
    rows: Sequence[ShardRow], free: Mapping[int, SampleFlags], by: str, rule: SplitRule, existing: Mapping[str, int]
) -> SplitShards:
    """Assign the `free` samples of these shards. `existing`: shards or samples that each split has."""
    shards = [ShardToAllocate(row.id, row.path, int(free[row.id].sum())) for row in rows]
    allocate = allocate_shards if by == "shard" else allocate_samples
    return {
        name: {shard: expand_to_shard(part, free[shard]) for shard, part in parts.items()}
        for name, parts in allocate(shards, rule.shares, rule.seed, existing).items()
    }


def empty_split_finding(location: DatasetLocation, name: str) -> Finding:
    """The finding of a split without samples."""
    command = shell_command_at(location, "split", "8,1,1")
    message = f"split {name!r} has no samples: split the dataset again, for example with {command}"
    return Finding(code="WDS210", severity="warning", message=message)


class SampleOrigins:
    """For shards that were rewritten since the catalog of `generation`: which former sample each sample is.

    `by_path`: by shard, (samples,) the former position of each sample, or NEW_SAMPLE. `grown`: the shards that begin
    with all their former samples. Cost: all keys of each rewritten shard.
    """

    def __init__(self, location: DatasetLocation, generation: int, memberships: Mapping[str, SplitMembership]) -> None:
        self.by_path: dict[str, Int64Array] = {}
        self.grown: set[str] = set()
        self._memberships = memberships
        self._offsets_path = location.offsets_path(generation)
        self._shard_index: dict[str, int] | None = None

    def add_scan(self, path: str, scan: ShardScan) -> None:
        """Find the origins of one shard's samples from its new scan."""
        before = self._memberships.get(path)
        if before is None or not scan.samples or before.layout_hash == scan.layout_hash():
            return
        count = before.samples
        if 0 < count < scan.samples and scan.first_samples(count).layout_hash() == before.layout_hash:
            positions = np.arange(scan.samples, dtype=np.int64)
            self.by_path[path] = np.where(positions < count, positions, NEW_SAMPLE)
            self.grown.add(path)
            return
        offsets, shard = self._open_offsets(path, before)
        if offsets is None:
            return
        first, end = (int(row) for row in offsets.shard_row[shard : shard + 2])
        bounds = offsets.key_start[first : end + 1]
        former = split_texts(offsets.key_text[int(bounds[0]) : int(bounds[-1])].tobytes(), bounds - bounds[0])
        positions_by_key: dict[str, deque[int]] = defaultdict(deque)
        for position, key in enumerate(former):
            positions_by_key[key].append(position)
        candidates = [positions_by_key.get(key) for key in scan.decode_keys()]
        origin = np.array([queue.popleft() if queue else NEW_SAMPLE for queue in candidates], np.int64)
        unclaimed = sorted(position for queue in positions_by_key.values() for position in queue)
        if unclaimed and (origin == NEW_SAMPLE).any():
            _match_by_part_sizes(origin, scan, {position: offsets.parts(first + position) for position in unclaimed})
        self.by_path[path] = origin

    def _open_offsets(self, path: str, before: SplitMembership) -> tuple[Offsets | None, int]:
        """The offsets file that has the former shard, and the shard's index; None if that generation is gone."""
        with suppress(OSError, CatalogError):
            offsets = Offsets(self._offsets_path)
            if self._shard_index is None:
                self._shard_index = {shard.path: i for i, shard in enumerate(offsets.shards)}
            i = self._shard_index.get(path)
            if i is not None and offsets.shards[i].layout_hash == before.layout_hash:
                return offsets, i
        return None, 0


def _match_by_part_sizes(
    origin: Int64Array, scan: ShardScan, unclaimed: Mapping[int, Sequence[tuple[str, int, int]]]
) -> None:
    """Match new samples with unclaimed former ones whose part names and sizes are the same, if each is the only one."""
    former: dict[tuple[tuple[str, int], ...], list[int]] = defaultdict(list)
    for position, parts in unclaimed.items():
        former[tuple((name, size) for name, _, size in parts)].append(position)
    ends = np.cumsum(scan.counts, dtype=np.int64)
    new: dict[tuple[tuple[str, int], ...], list[int]] = defaultdict(list)
    for position in np.flatnonzero(origin == NEW_SAMPLE).tolist():
        span = slice(int(ends[position]) - int(scan.counts[position]), int(ends[position]))
        names = [scan.extensions[number] for number in scan.part_names[span].tolist()]
        new[tuple(zip(names, scan.part_sizes[span].tolist(), strict=True))].append(position)
    for sizes, positions in new.items():
        if len(positions) == len(former.get(sizes, ())) == 1:
            origin[positions[0]] = former[sizes][0]


def allocate_new_shards(
    location: DatasetLocation, draft: CatalogDraft, rows: Sequence[ShardRow], plan: MergePlan, origins: SampleOrigins
) -> list[Finding]:
    """Write the splits of new and rewritten shards. Samples that had a split return to it, new ones are allocated.

    If whole shards are allocated, a shard keeps its split whatever it contains now. If samples are, a sample keeps its
    split as long as the shard has its key, or when the shard comes back unchanged. `plan.rule` is for a catalog that
    has no splits yet. The catalog remembers the samples that a shard has lost. Returns a finding for every split that
    is empty nevertheless.
    """
    stored_rules = draft.splits.rules()
    rules = stored_rules or ({} if plan.rule is None else {"": plan.rule})
    findings = []
    shrunken: set[str] = set()
    renamed = _match_renamed_shards(rows, plan)
    for split_set, rule in rules.items():
        if rule.is_counted or split_set in stored_rules:
            shrunken |= _allocate_set(draft, split_set, rule, rows, plan, origins, renamed)
        if rule.is_counted and not rule.allow_empty:
            totals = draft.splits.count_by_split(split_set, "sample")
            findings += [
                empty_split_finding(location, qualified_split_name(split_set, name))
                for name, count in totals.items()
                if not count
            ]
    for row in rows:
        if row.path in plan.held_by_gone_path:
            draft.forget_former_splits(row.path, row.layout_hash)
        for path in renamed.get(row.path, ()):
            draft.forget_former_splits(path, row.layout_hash)
    for before, _ in plan.changed:
        if before.path in shrunken:
            draft.splits.remember_shard(before.id, plan.held_by_path[before.path])
    return findings


def _match_renamed_shards(rows: Sequence[ShardRow], plan: MergePlan) -> dict[str, dict[str, SplitMembership]]:
    """New shards with the layout, keys included, of removed shards: by new path, the memberships by removed path.

    No match if two new shards have the same layout, or if the removed shards had different splits.
    """
    removed: dict[str, dict[str, SplitMembership]] = {}
    for path, memberships in plan.held_by_gone_path.items():
        for membership in reversed(memberships):  # the latest overrides
            removed.setdefault(membership.layout_hash, {})[path] = membership
    new = [row for row in rows if row.samples and row.path not in plan.held_by_path]
    layouts = Counter(row.layout_hash for row in new)
    renamed = {}
    for row in new:
        matches = removed.get(row.layout_hash, {})
        if matches and row.path not in matches and layouts[row.layout_hash] == 1:
            first, *others = matches.values()
            if all(other.former == first.former for other in others):
                renamed[row.path] = matches
    return renamed


def _allocate_set(
    draft: CatalogDraft,
    split_set: str,
    rule: SplitRule,
    rows: Sequence[ShardRow],
    plan: MergePlan,
    origins: SampleOrigins,
    renamed: Mapping[str, Mapping[str, SplitMembership]],
) -> set[str]:
    """Write the splits of one set. Returns the paths of shards that lost samples of a split."""
    by = resolve_by(rule.by, sum(row.samples > 0 for row in rows), rule.shares) if rule.is_counted else ""
    if not draft.splits.count_by_split(split_set, "shard"):
        draft.splits.begin_set(split_set, replace(rule, by=by) if by else rule)
    names = list(draft.splits.count_by_split(split_set, "shard"))
    split_shards: SplitShards = {name: {} for name in names}
    former_shards: SplitShards = {name: {} for name in names}
    has_excludes = draft.splits.has_excludes
    new: dict[int, SampleFlags] = {}
    shrunken: set[str] = set()
    for row in rows:
        sources = _former_splits(row, split_set, rule, plan, origins, renamed)
        targets = [
            former_shards if source.is_excluded or (source.is_removed and has_excludes) else split_shards
            for source in sources
        ]
        free = _restore_samples(row, sources, targets)
        if by == "shard":
            free &= ~_assign_rest_of_shard(row, sources, targets, free)
        former_count = sum(int(flags.sum()) for each in sources if not each.is_removed for flags in each.flags.values())
        kept_count = former_count if by == "shard" and row.samples else int((~free).sum())
        if kept_count < former_count:
            shrunken.add(row.path)
        if free.any():
            new[row.id] = free
    # With excludes, new samples stay without a split until reapply.py knows whether they are excluded.
    if new and by and not has_excludes:
        existing = {
            name: count + sum(1 if by == "shard" else part.samples for part in split_shards[name].values())
            for name, count in draft.splits.count_by_split(split_set, by).items()
        }
        allocated = allocate_free_samples([row for row in rows if row.id in new], new, by, rule, existing)
        for name, parts in allocated.items():
            for shard, part in parts.items():
                add_samples(split_shards[name], shard, sample_flags(part, len(new[shard])))
    for name, parts in split_shards.items():
        draft.splits.add_split_shards(split_set, name, parts.values())
    if any(former_shards.values()):
        stored = draft.splits.former_split_shards(split_set)
        draft.splits.store_former(split_set, {name: {**stored.get(name, {}), **former_shards[name]} for name in names})
    return shrunken


@dataclass(frozen=True, slots=True)
class _FormerSplits:
    """The former samples of a shard in splits. `flags`: by split, (former samples,). `origin`: (samples,) the former
    position."""

    flags: dict[str, SampleFlags]
    origin: Int64Array
    is_excluded: bool = False
    is_removed: bool = False


def _former_splits(
    row: ShardRow,
    split_set: str,
    rule: SplitRule,
    plan: MergePlan,
    origins: SampleOrigins,
    renamed: Mapping[str, Mapping[str, SplitMembership]],
) -> list[_FormerSplits]:
    """The former splits of a shard's samples: of the same shard, excluded, of a removed shard, or of another path."""

    def flags_of(parts: Mapping[str, tuple[int, bytes | None]], samples: int) -> dict[str, SampleFlags]:
        return {
            short_name: sample_flags(SplitShard(row.id, *part), samples)
            for set_name, short_name, part in ((*split_set_and_name(name), part) for name, part in parts.items())
            if set_name == split_set
        }

    sources = []
    same = np.arange(row.samples)
    if (before := plan.held_by_path.get(row.path)) is not None:
        origin = _sample_origins(row, before, rule, origins)
        sources.append(_FormerSplits(flags_of(before.splits, before.samples), origin))
        sources.append(_FormerSplits(flags_of(before.former, before.samples), origin, is_excluded=True))
    for removed in plan.held_by_gone_path.get(row.path, ()):
        origin = same if removed.layout_hash == row.layout_hash else np.full(row.samples, NEW_SAMPLE)
        sources.append(_FormerSplits(flags_of(removed.former, removed.samples), origin, is_removed=True))
    moved = next(iter(renamed.get(row.path, {}).values()), None)
    if moved is not None and (rule.is_counted or rule.kind == "stratum"):  # other rules decide by path, key or group
        sources.append(_FormerSplits(flags_of(moved.former, moved.samples), same, is_removed=True))
    return sources


def _restore_samples(row: ShardRow, sources: Sequence[_FormerSplits], targets: Sequence[SplitShards]) -> SampleFlags:
    """Return samples to the splits that they had, the first source first. (samples,): those that had none."""
    free = np.ones(row.samples, np.bool_)
    for source, target in zip(sources, targets, strict=True):
        restored = np.zeros(row.samples, np.bool_)
        for name, former_flags in source.flags.items():
            if name in target:
                flags = free & ~restored & _current_flags(former_flags, source.origin)
                add_samples(target[name], row.id, flags)
                restored |= flags
        free &= ~restored
    return free


def _assign_rest_of_shard(
    row: ShardRow, sources: Sequence[_FormerSplits], targets: Sequence[SplitShards], free: SampleFlags
) -> SampleFlags:
    """Assign the free samples of a shard to the split that had most of its samples. Returns the assigned samples.

    Only most of them, because single samples of the shard may have been excluded from another split.
    """
    for source, target in zip(sources, targets, strict=True):
        counts = {name: int(flags.sum()) for name, flags in source.flags.items() if name in target and flags.any()}
        if counts:
            add_samples(target[max(counts, key=counts.__getitem__)], row.id, free)
            return free
    return np.zeros(row.samples, np.bool_)


def _sample_origins(row: ShardRow, before: SplitMembership, rule: SplitRule, origins: SampleOrigins) -> Int64Array:
    """(samples,): the former position of each sample.

    If a value in the sample decides the split, samples are matched only in a shard that only grew: their content is the
    same.
    """
    if before.layout_hash == row.layout_hash:
        return np.arange(row.samples)
    if row.path in origins.by_path and (not rule.value_name or row.path in origins.grown):
        return origins.by_path[row.path]
    return np.full(row.samples, NEW_SAMPLE)


def _current_flags(former_flags: SampleFlags, origin: Int64Array) -> SampleFlags:
    """The flags of former samples, for the current ones."""
    flags = np.zeros(len(origin), np.bool_)
    known = origin != NEW_SAMPLE
    flags[known] = former_flags[origin[known]]
    return flags
