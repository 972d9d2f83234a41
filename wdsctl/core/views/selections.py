"""Selections of samples in memory, `shard id -> SplitShard`: of splits and views, and their intersections.

One bit per sample, lowest first; None for the whole shard. Empty shards are left out, so that equal selections are
equal values. Cost: some microseconds per shard, and a bit per sample of a partial shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from wdsctl.core.catalog.ledger import StoredView, ViewShard
from wdsctl.core.catalog.splits import SampleFlags, SplitShard
from wdsctl.core.catalog.splits import shard_from_flags as some_of
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import shell_command_at
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.text import pluralize

SampleSelection = dict[int, SplitShard]

_MAX_NAMED_SHARDS = 3  # shards that a message names


@dataclass(frozen=True, slots=True)
class OpenView:
    """A view, matched with the current catalog. `changed_paths`: its shards that changed or are missing."""

    stored: StoredView
    selection: SampleSelection
    changed_paths: tuple[str, ...] = ()


def read_view_samples(dataset: OpenDataset, name: str) -> SampleSelection:
    """The samples of a view, in id order.

    Raises InputError WDS330 if there is no such view, CatalogError WDS331 if shards of it have changed or are missing,
    and what reading ledger and catalog raises.
    """
    return require_unchanged_view(dataset, name).selection


def require_unchanged_view(dataset: OpenDataset, name: str) -> OpenView:
    """The view with its facts. Raises what `read_view_samples` raises."""
    view = open_view(dataset, name)
    if view.changed_paths:
        more = ", ..." if len(view.changed_paths) > _MAX_NAMED_SHARDS else ""
        raise CatalogError(
            f"the view {name!r} has {pluralize(len(view.changed_paths), 'shard')} that changed or disappeared since "
            f"it was created: {', '.join(view.changed_paths[:_MAX_NAMED_SHARDS])}{more}",
            where=dataset.location.display_path,
            hint=f"run {shell_command_at(dataset.location, 'view refresh', name)} to select from the current shards",
            code="WDS331",
        )
    return view


def open_view(dataset: OpenDataset, name: str) -> OpenView:
    """The view, without shards that changed.

    A shard is identified by path and layout; if its path is gone, by its layout alone.
    """
    found = dataset.ledger.view(name)
    if found is None:
        raise missing_view_error(dataset, name)
    stored, parts = found
    there, changed = match_view_shards(parts, dataset.catalog.shards())
    return OpenView(stored, there, changed)


def match_view_shards(
    view_shards: Iterable[ViewShard], shards: Sequence[ShardRow]
) -> tuple[SampleSelection, tuple[str, ...]]:
    """(the samples of a view by current shard id, the paths of its shards that changed or are missing)"""
    by_path = {shard.path: shard for shard in shards}
    found, left = {}, []
    for part in view_shards:
        shard = by_path.get(part.path)
        if shard is not None and shard.layout_hash == part.layout_hash:
            found[shard.id] = SplitShard(shard.id, part.samples, part.bits)
        else:
            left.append(part)
    if left:
        moved = {shard.layout_hash: shard for shard in reversed(shards) if shard.id not in found}
        for part in list(left):
            there = None if part.path in by_path else moved.pop(part.layout_hash, None)
            if there is not None:
                found[there.id] = SplitShard(there.id, part.samples, part.bits)
                left.remove(part)
    return {number: found[number] for number in sorted(found)}, tuple(part.path for part in left)


def select_split(dataset: OpenDataset, name: str) -> SampleSelection:
    """The samples of a split. Raises InputError WDS211 if there is no such split, or no sample at all."""
    return {part.shard: part for part in dataset.catalog.split(name) if part.samples}


def select_all(shards: Iterable[ShardRow]) -> SampleSelection:
    """All samples of these shards."""
    return {shard.id: SplitShard(shard.id, shard.samples) for shard in shards if shard.samples}


def count_selected(selection: Mapping[int, SplitShard]) -> int:
    """The number of selected samples."""
    return sum(part.samples for part in selection.values())


def intersect_selections(one: Mapping[int, SplitShard], other: Mapping[int, SplitShard]) -> SampleSelection:
    """The samples that are in both, in id order."""
    both = (_intersect_shards(one[shard], other[shard]) for shard in sorted(one.keys() & other.keys()))
    return {part.shard: part for part in both if part.samples}


def shard_selection(shard: int, flags: SampleFlags) -> SplitShard:
    """The samples of a shard whose flag is set; possibly none."""
    return some_of(shard, flags) or SplitShard(shard, 0, b"")


def selection_hash(view_shards: Iterable[ViewShard]) -> str:
    """A hash of samples by layout of their shards and bits, independent of paths and ids. 32 hex digits."""
    digest = blake2b(digest_size=16)
    for part in sorted(view_shards, key=lambda part: (part.layout_hash, part.samples, part.bits or b"")):
        facts = (part.layout_hash, part.samples, -1 if part.bits is None else len(part.bits))
        digest.update(",".join(map(str, facts)).encode() + b";")
        digest.update(part.bits or b"")
    return digest.hexdigest()


def to_view_shards(selection: Mapping[int, SplitShard], shards: Iterable[ShardRow]) -> list[ViewShard]:
    """The selection as a ledger stores it, by path."""
    kept = (
        ViewShard(shard.path, shard.layout_hash, selection[shard.id].samples, selection[shard.id].bits)
        for shard in shards
        if shard.id in selection
    )
    return sorted(kept, key=lambda part: part.path)


def missing_view_error(dataset: OpenDataset, name: str) -> InputError:
    names = [view.name for view in dataset.ledger.views()]
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return InputError(
        f"the dataset has no view {name!r}; it has {listed or 'none yet'}",
        where=dataset.location.display_path,
        hint=did_you_mean(name, names)
        or f"{shell_command_at(dataset.location, 'view create', name, '--where', '...')} makes one",
        code="WDS330",
    )


def _intersect_shards(one: SplitShard, other: SplitShard) -> SplitShard:
    if one.bits is None:
        return other
    if other.bits is None:
        return one
    # Whole numbers of Python count their bits ten times faster than numpy does at the size of a shard.
    both = int.from_bytes(one.bits, "little") & int.from_bytes(other.bits, "little")
    return SplitShard(one.shard, both.bit_count(), both.to_bytes(min(len(one.bits), len(other.bits)), "little"))
