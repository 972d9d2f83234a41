"""Selections of samples in memory, `shard id -> SplitShard`: of splits, of views, and what they have in common.

Bits are one a sample, lowest first; none means the whole shard. Empty parts are left out, so that equal selections are
equal values. Cost: some microseconds a shard, and a bit a sample where a shard is not whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from wdsctl.core.catalog.quick import read_split
from wdsctl.core.catalog.view_reader import KnownShard, StoredView, ViewShard, known_shards, stored_view, stored_views
from wdsctl.core.command_line import command_at
from wdsctl.core.counted import counted
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.fields import did_you_mean
from wdsctl.core.place import Place
from wdsctl.core.splitting import SplitShard
from wdsctl.core.splitting_bits import Flags
from wdsctl.core.splitting_bits import part_of as some_of

Selected = dict[int, SplitShard]

_NAMED = 3  # shards that a message names


@dataclass(frozen=True, slots=True)
class OpenView:
    """A view, found in the present catalog. `changed`: paths of its shards that are not there as they were."""

    stored: StoredView
    selected: Selected
    changed: tuple[str, ...] = ()


def selected(place: Place, name: str) -> Selected:
    """The samples of a view, in id order.

    Raises InputError WDS330 where there is no such view, CatalogError WDS331 where shards of it have changed or are
    gone, and what reading ledger and catalog raises.
    """
    return whole_view(place, name).selected


def whole_view(place: Place, name: str) -> OpenView:
    """The view with its facts; raises what `selected` raises."""
    view = open_view(place, name)
    if view.changed:
        more = ", ..." if len(view.changed) > _NAMED else ""
        raise CatalogError(
            f"the view {name!r} has {counted(len(view.changed), 'shard')} that changed or vanished since it was made: "
            f"{', '.join(view.changed[:_NAMED])}{more}",
            where=place.shown,
            hint=f"{command_at(place, 'view refresh', name)} makes it again from what is there now",
            code="WDS331",
        )
    return view


def open_view(place: Place, name: str, shards: Sequence[KnownShard] | None = None) -> OpenView:
    """The view as far as its shards are still there. `shards`: of the catalog, where they have been read already.

    A shard is known by its path and layout; one that has another path now by its layout alone.
    """
    found = stored_view(place.ledger, name)
    if found is None:
        raise no_such_view(place, name)
    stored, parts = found
    there, changed = matched(parts, known_shards(place.catalog) if shards is None else shards)
    return OpenView(stored, there, changed)


def matched(parts: Iterable[ViewShard], shards: Sequence[KnownShard]) -> tuple[Selected, tuple[str, ...]]:
    """The parts of a view by the ids that its shards have now, and the paths of those that are not there any more."""
    by_path = {shard.path: shard for shard in shards}
    found, left = {}, []
    for part in parts:
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


def of_split(place: Place, name: str) -> Selected:
    """The samples of a split. Raises InputError WDS211 where there is none of this name, or no sample at all."""
    return {part.shard: part for part in read_split(place.catalog, name) if part.samples}


def everything(shards: Iterable[KnownShard]) -> Selected:
    """All samples of these shards."""
    return {shard.id: SplitShard(shard.id, shard.samples) for shard in shards if shard.samples}


def count_of(chosen: Mapping[int, SplitShard]) -> int:
    """How many samples these are."""
    return sum(part.samples for part in chosen.values())


def intersected(one: Mapping[int, SplitShard], other: Mapping[int, SplitShard]) -> Selected:
    """The samples that are in both, in id order."""
    both = (_both(one[shard], other[shard]) for shard in sorted(one.keys() & other.keys()))
    return {part.shard: part for part in both if part.samples}


def part_of(shard: int, flags: Flags) -> SplitShard:
    """The samples of a shard whose flag is set; there may be none."""
    return some_of(shard, flags) or SplitShard(shard, 0, b"")


def hash_of(parts: Iterable[ViewShard]) -> str:
    """Names samples by what their shards hold and which of them are meant: not by paths or ids. 32 hex digits."""
    digest = blake2b(digest_size=16)
    for part in sorted(parts, key=lambda part: (part.layout_hash, part.samples, part.bits or b"")):
        facts = (part.layout_hash, part.samples, -1 if part.bits is None else len(part.bits))
        digest.update(",".join(map(str, facts)).encode() + b";")
        digest.update(part.bits or b"")
    return digest.hexdigest()


def as_view_shards(chosen: Mapping[int, SplitShard], shards: Iterable[KnownShard]) -> list[ViewShard]:
    """The same as a ledger keeps it, by path."""
    kept = (
        ViewShard(shard.path, shard.layout_hash, chosen[shard.id].samples, chosen[shard.id].bits)
        for shard in shards
        if shard.id in chosen
    )
    return sorted(kept, key=lambda part: part.path)


def no_such_view(place: Place, name: str) -> InputError:
    names = [view.name for view in stored_views(place.ledger)]
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return InputError(
        f"the dataset has no view {name!r}; it has {listed or 'none yet'}",
        where=place.shown,
        hint=did_you_mean(name, names) or f"{command_at(place, 'view create', name, '--where', '...')} makes one",
        code="WDS330",
    )


def _both(one: SplitShard, other: SplitShard) -> SplitShard:
    if one.bits is None:
        return other
    if other.bits is None:
        return one
    # Whole numbers of Python count their bits ten times faster than numpy does at the size of a shard.
    both = int.from_bytes(one.bits, "little") & int.from_bytes(other.bits, "little")
    return SplitShard(one.shard, both.bit_count(), both.to_bytes(min(len(one.bits), len(other.bits)), "little"))
