"""Makes whole samples, each under a key of its own, of the members of a shard, in their order."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wdsctl.core.members import Read
from wdsctl.core.naming import split_name
from wdsctl.core.repairs.fixes import Fixes
from wdsctl.core.repairs.indexed import Member, is_of_this, misnamed, missing
from wdsctl.core.repairs.salvage import Join, Piece, Salvaged, zeros_left_out
from wdsctl.core.tar_header import END

USUAL = 0.5  # of the samples, from which on their parts are what a sample is to have
_CHUNK = 1 << 20  # bytes compared at a time
_ZEROS = 16  # bytes at the end of a member's data that are zeros where zeros behind it may be damage


@dataclass(slots=True)
class Group:
    """One sample: its members by part, in order. Or, without a key, something between samples."""

    key: str
    parts: dict[str, Piece] = field(default_factory=dict)
    others: list[Piece] = field(default_factory=list)
    new_key: str = ""  # where it has to have another one


def grouped(found: Salvaged, fixes: Fixes, known: Sequence[Member] = ()) -> list[Group]:
    """Samples in the order in which they first appear. Of a part that a sample has twice, the last one stays.

    A key that comes again with other parts is the rest of its sample; with the same parts it is another one, and gets
    another key. Half a sample is none, and is left out: one that lacks a part that it had when it was indexed, as
    `known` tells; of others those that stand beside damage, or before an end that is missing, and lack what most have.
    What is left out, and what was indexed and is not there, is named in `fixes.lost`.
    """
    members = [_member(piece) for piece in found.pieces]
    there = [each for each in members if each is not None]
    if known and not is_of_this(known, there):
        fixes.left.append("this is not the shard that was indexed, so the catalog cannot tell what is missing from it")
        known = ()
    if fixes.counts["trailing bytes left out"] and not known:
        fixes.left.append(
            "the bytes after the end of the archive are not intact members: damaged ones, or unrelated data"
        )
    runs, of = _runs(found, members, fixes)
    gone = missing(known, there)
    halves, usual = _halves(runs, of, found, fixes, known, gone)
    fixes.add("incomplete samples left out", len(halves))
    out = {piece.data for i in halves for piece in runs[i].parts.values()}
    lost = [*gone, *(each for each in there if each.data in out)]
    names = [each.name for each in sorted(lost, key=lambda each: each.data)]
    seen = [*(gap.name for gap in found.gaps), found.cut_name]  # in headers that can be read still
    names += [name.decode("utf-8", "backslashreplace") for name in seen if name]
    indexed = {each.key for each in known}
    keys = {i: key for i in sorted(halves) if (key := _as_known(runs[i].key)) not in indexed}
    names += [f"{key}.{part}" for i, key in keys.items() for part in sorted(usual - runs[i].parts.keys())]
    fixes.lost += list(dict.fromkeys(names))
    return _merged([group for i, group in enumerate(runs) if i not in halves], fixes)


def names_of(group: Group) -> Iterable[tuple[Piece, str]]:
    """Each member, and the name that it is to have; empty where it keeps its own."""
    yield from ((piece, "") for piece in group.others)
    for part, piece in group.parts.items():
        yield piece, f"{group.new_key}.{part}" if group.new_key else ""


def _member(piece: Piece) -> Member | None:
    """Named as the catalog names it; None where it is of no sample."""
    split = split_name(piece.name.decode("utf-8", "backslashreplace")) if piece.name else None
    return None if split is None else Member(*split, piece.data, piece.size)


def _runs(found: Salvaged, members: Sequence[Member | None], fixes: Fixes) -> tuple[list[Group], list[int]]:
    """Members side by side with one key; and of each piece its group, -1 where it is of no sample."""
    runs: list[Group] = []
    of: list[int] = []
    last = -1  # the number of the last group with a key
    for piece, member in zip(found.pieces, members, strict=True):
        split = split_name(piece.name.decode("utf-8", "surrogateescape")) if member is not None else None
        if split is None:
            runs.append(Group("", others=[piece]))
            of.append(-1)
            continue
        key, part = split
        if last < 0 or runs[last].key != key:
            runs.append(Group(key))
            last = len(runs) - 1
        of.append(last)
        group = runs[last]
        before = group.parts.pop(part, None)
        if before is not None:
            is_same = _bytes_are_same(found.read, before, piece)
            fixes.add("duplicate parts left out" if is_same else "duplicate parts left out that differ")
            if not is_same:
                fixes.lost.append(before.name.decode("utf-8", "backslashreplace"))
        group.parts[part] = piece
    return runs, of


def _bytes_are_same(read: Read, one: Piece, other: Piece) -> bool:
    if one.size != other.size:
        return False
    steps = ((at, min(_CHUNK, one.size - at)) for at in range(0, one.size, _CHUNK))
    return all(read(one.data + at, size) == read(other.data + at, size) for at, size in steps)


def _halves(
    runs: Sequence[Group],
    of: Sequence[int],
    found: Salvaged,
    fixes: Fixes,
    known: Sequence[Member],
    gone: Sequence[Member],
) -> tuple[set[int], frozenset[str]]:
    """The numbers of the samples of which only a part is there, and the parts that most samples have, if most have the
    same. What seems to join archives and is damage is told.
    """
    keyed = [i for i, group in enumerate(runs) if group.key]
    last = keyed[-1:]
    beside = {i for gap in found.gaps for i in _neighbours(of, gap.before)}
    joined = {join: _neighbours(of, join.before) for join in found.joins}
    touched = {i for at in found.mended for i in _around(of, found, at)}
    in_doubt = touched.union(beside).union(*joined.values(), last)
    usual = _usual(runs, in_doubt)
    keys = {i: _as_known(runs[i].key) for i in keyed}
    indexed = {each.key for each in known}
    lacking: dict[str, set[str]] = {}
    for each in gone:
        lacking.setdefault(each.key, set()).add(each.part)
    foreign = misnamed(known, [each for each in map(_member, found.pieces) if each is not None])

    def lacks(i: int) -> bool:
        """Whether a sample that nobody indexed lacks what most others have."""
        return keys[i] not in indexed and usual is not None and frozenset(runs[i].parts) < usual

    halves = {i for i in keyed if lacking.get(keys[i], set()) - runs[i].parts.keys()}
    halves |= {i for i in keyed if any(piece.data in foreign for piece in runs[i].parts.values())}
    for join, sides in joined.items():
        if any(join.zeros < each.data <= join.then for each in gone) or any(map(lacks, sides)):
            zeros_left_out(join.zeros, join.then - join.zeros, fixes)
            halves |= {i for i in sides if lacks(i)}
        else:
            fixes.add("archives joined")
            fixes.left += _doubts(join, found, usual) if not known else ()
    halves |= {i for i in touched.union(beside, last if found.is_open else ()) if lacks(i)}
    if usual is None:
        halves |= {i for i in beside if keys[i] not in indexed}
    if found.is_cut:
        name = found.cut_name.decode("utf-8", "surrogateescape")
        is_whole = {i for i in last if usual is not None and frozenset(runs[i].parts) >= usual}
        is_of_it = {i for i in last if name.startswith(f"{runs[i].key}.") or (not name and i not in is_whole)}
        halves |= {i for i in is_of_it if keys[i] not in indexed}
    return halves, usual or frozenset()


def _as_known(key: str) -> str:
    """A key as the catalog has it."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _neighbours(of: Sequence[int], before: int) -> set[int]:
    """The samples on both sides of the piece of this number's beginning."""
    left = next((of[i] for i in range(before - 1, -1, -1) if of[i] >= 0), -1)
    right = next((of[i] for i in range(before, len(of)) if of[i] >= 0), -1)
    return {left, right} - {-1}


def _around(of: Sequence[int], found: Salvaged, header: int) -> set[int]:
    """The sample of the member that has this header, and those on both sides of it."""
    number = bisect_right([piece.start for piece in found.pieces], header) - 1
    return _neighbours(of, number) | _neighbours(of, number + 1)


def _doubts(join: Join, found: Salvaged, usual: frozenset[str] | None) -> list[str]:
    """Why what lies between two archives may be members that are gone, though no sample is incomplete."""
    before = found.pieces[join.before - 1] if join.before else None
    where = f"zeros at byte {join.zeros:,}, where two archives seem to be joined"
    reaches_back = before is not None and before.size >= _ZEROS
    if before and reaches_back and not any(found.read(before.data + before.size - _ZEROS, _ZEROS)):
        name = before.name.decode("utf-8", "backslashreplace")
        return [f"{where}, reach back into {name}: a member behind it may be missing"]
    if usual is not None and len(usual) == 1 and join.then - join.zeros == len(END):
        return [f"{where}, may have been a sample of one small part"]
    return []


def _usual(runs: Sequence[Group], doubtful: set[int]) -> frozenset[str] | None:
    """The parts that most samples have, of those that nothing casts a doubt on."""
    counts = Counter(frozenset(group.parts) for i, group in enumerate(runs) if group.key and i not in doubtful)
    if not counts:
        return None
    parts, count = min(counts.items(), key=lambda item: (-item[1], sorted(item[0])))
    return parts if count > USUAL * counts.total() else None


def _merged(runs: Sequence[Group], fixes: Fixes) -> list[Group]:
    """Bring together what belongs together, and tell apart what does not."""
    taken = {group.key for group in runs}
    merged: list[Group] = []
    again: dict[str, list[Group]] = {}
    full: dict[tuple[str, str], int] = {}
    numbers: dict[str, int] = {}
    for group in runs:
        if not group.key:
            merged.append(group)
            continue
        alike = again.setdefault(group.key, [])
        known = _without_these(alike, group, full) if alike else None
        if known is not None:
            known.parts |= group.parts
            fixes.add("keys regrouped")
            continue
        if alike:
            group.new_key = _free(group.key, taken, numbers)
            taken.add(group.new_key)
            fixes.add("duplicate keys renamed")
        alike.append(group)
        merged.append(group)
    return merged


def _without_these(alike: Sequence[Group], group: Group, full: dict[tuple[str, str], int]) -> Group | None:
    """The first of the groups of one key that has none of the parts of another one.

    `full`: by key and part, how many of the first groups have it. Groups never lose a part, so those are not looked at
    again: a shard may have a million members of one key.
    """
    begin = 0
    for part in group.parts:
        at = full.get((group.key, part), 0)
        while at < len(alike) and part in alike[at].parts:
            at += 1
        full[group.key, part] = at
        begin = max(begin, at)
    return next((alike[i] for i in range(begin, len(alike)) if not alike[i].parts.keys() & group.parts.keys()), None)


def _free(key: str, taken: set[str], numbers: dict[str, int]) -> str:
    """A key that nobody has. `numbers`: by key, the last number that was tried: keys are never given back."""
    number = numbers.get(key, 1) + 1
    while f"{key}_{number}" in taken:
        number += 1
    numbers[key] = number
    return f"{key}_{number}"
