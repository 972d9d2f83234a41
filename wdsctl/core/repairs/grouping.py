"""Makes whole samples, each under a key of its own, of the members of a shard, in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wdsctl.core.members import Read
from wdsctl.core.naming import split_name
from wdsctl.core.repairs.fixes import Fixes
from wdsctl.core.repairs.salvage import Piece, Salvaged

USUAL = 0.5  # of the samples, from which on their parts are what a sample is to have
_CHUNK = 1 << 20  # bytes compared at a time


@dataclass(slots=True)
class Group:
    """One sample: its members by part, in order. Or, without a key, something between samples."""

    key: str
    parts: dict[str, Piece] = field(default_factory=dict)
    others: list[Piece] = field(default_factory=list)
    new_key: str = ""  # where it has to have another one


def grouped(found: Salvaged, fixes: Fixes) -> list[Group]:
    """Samples in the order in which they first appear. Of a part that a sample has twice, the last one stays.

    A key that comes again with other parts is the rest of its sample; with the same parts it is another one, and gets
    another key. Samples beside damage that lack what most others have are left out, and so is the last one where the
    end is missing: half a sample is none.
    """
    runs, doubtful = _runs(found, fixes)
    whole = _without_halves(runs, doubtful, found, fixes)
    return _merged(whole, fixes)


def names_of(group: Group) -> Iterable[tuple[Piece, str]]:
    """Each member, and the name that it is to have; empty where it keeps its own."""
    yield from ((piece, "") for piece in group.others)
    for part, piece in group.parts.items():
        yield piece, f"{group.new_key}.{part}" if group.new_key else ""


def _runs(found: Salvaged, fixes: Fixes) -> tuple[list[Group], set[int]]:
    """Members side by side with one key; and the numbers of those that stand beside damage."""
    gaps = {gap.before for gap in found.gaps}
    runs: list[Group] = []
    doubtful: set[int] = set()
    last = -1  # the number of the last group with a key
    for number, piece in enumerate(found.pieces):
        if number in gaps:
            doubtful |= {last, -2} if last >= 0 else {-2}
        split = split_name(piece.name.decode("utf-8", "surrogateescape")) if piece.name else None
        if split is None:
            runs.append(Group("", others=[piece]))
            continue
        key, part = split
        if last < 0 or runs[last].key != key:
            runs.append(Group(key))
            last = len(runs) - 1
        if -2 in doubtful:  # the first sample behind the damage
            doubtful = (doubtful - {-2}) | {last}
        group = runs[last]
        before = group.parts.pop(part, None)
        if before is not None:
            is_same = _bytes_are_same(found.read, before, piece)
            fixes.add("duplicate parts left out" if is_same else "duplicate parts left out that differ")
        group.parts[part] = piece
    if len(found.pieces) in gaps and last >= 0:
        doubtful.add(last)
    return runs, doubtful - {-2}


def _bytes_are_same(read: Read, one: Piece, other: Piece) -> bool:
    if one.size != other.size:
        return False
    steps = ((at, min(_CHUNK, one.size - at)) for at in range(0, one.size, _CHUNK))
    return all(read(one.data + at, size) == read(other.data + at, size) for at, size in steps)


def _without_halves(runs: Sequence[Group], doubtful: set[int], found: Salvaged, fixes: Fixes) -> list[Group]:
    keyed = [i for i, group in enumerate(runs) if group.key]
    last = keyed[-1] if keyed else -1
    usual = _usual(runs, doubtful | {last})
    halves = set()
    if found.is_cut and last >= 0:
        name = found.cut_name.decode("utf-8", "surrogateescape")
        is_whole = usual is not None and frozenset(runs[last].parts) >= usual
        if name.startswith(f"{runs[last].key}.") or (not name and not is_whole):
            halves.add(last)
    beside = doubtful | ({last} if found.is_open else set())
    for i in beside:
        have = frozenset(runs[i].parts)
        if (usual is None and i in doubtful) or (usual is not None and have < usual):
            halves.add(i)
    fixes.add("incomplete samples left out", len(halves))
    return [group for i, group in enumerate(runs) if i not in halves]


def _usual(runs: Sequence[Group], doubtful: set[int]) -> frozenset[str] | None:
    """The parts that most samples have, of those that nothing casts a doubt on."""
    counts = Counter(frozenset(group.parts) for i, group in enumerate(runs) if group.key and i not in doubtful)
    if not counts:
        return None
    parts, count = min(counts.items(), key=lambda item: (-item[1], sorted(item[0])))
    return parts if count > USUAL * counts.total() else None


def _merged(runs: Sequence[Group], fixes: Fixes) -> list[Group]:
    """Bring together what belongs together, and tell apart what does not."""
    first: dict[str, Group] = {}
    taken = {group.key for group in runs}
    merged: list[Group] = []
    again: dict[str, list[Group]] = {}
    for group in runs:
        if not group.key:
            merged.append(group)
            continue
        known = next((each for each in again.get(group.key, ()) if not each.parts.keys() & group.parts.keys()), None)
        if known is not None:
            known.parts |= group.parts
            fixes.add("keys regrouped")
            continue
        if group.key in first:
            group.new_key = _free(group.key, taken)
            taken.add(group.new_key)
            fixes.add("duplicate keys renamed")
        first.setdefault(group.key, group)
        again.setdefault(group.key, []).append(group)
        merged.append(group)
    return merged


def _free(key: str, taken: set[str]) -> str:
    number = 2
    while f"{key}_{number}" in taken:
        number += 1
    return f"{key}_{number}"
