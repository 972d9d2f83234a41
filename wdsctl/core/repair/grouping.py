"""Group the members of a shard into complete samples with unique keys, in the order of the shard."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wdsctl.core.repair.fixes import Fixes
from wdsctl.core.repair.members import ShardMember, find_misnamed, find_missing, is_same_shard
from wdsctl.core.repair.salvage import ArchiveJoin, SalvagedMember, SalvageResult, record_zeros
from wdsctl.core.samples.naming import split_name
from wdsctl.core.shards.tar_members import ReadBytes
from wdsctl.core.tar_header import END_OF_ARCHIVE

USUAL_SHARE = 0.5  # if more samples than this share have the same parts, others without them are incomplete
_COMPARE_CHUNK_BYTES = 1 << 20  # bytes per comparison
_TRAILING_ZERO_BYTES = 16  # if so many bytes at the end of a member are zeros, zeros after it may be damage


@dataclass(slots=True)
class MemberGroup:
    """One sample: its members by part, in order. A group without a key holds members outside of samples."""

    key: str
    parts: dict[str, SalvagedMember] = field(default_factory=dict)
    other_members: list[SalvagedMember] = field(default_factory=list)
    new_key: str = ""  # if `key` is not unique


def group_members(
    salvaged: SalvageResult, fixes: Fixes, known_members: Sequence[ShardMember] = ()
) -> list[MemberGroup]:
    """Group members into samples, in the order of their first members. If a part repeats, the last one counts.

    A repeated key with other parts continues its sample; with the same parts, it starts another sample with a new
    key. Leaves out incomplete samples: indexed ones that lack a part of `known_members`, and others that lack parts
    of most samples and are next to damage or a missing end. `fixes.lost_members` names all members that are left out
    or missing.
    """
    members = [_shard_member(each) for each in salvaged.members]
    present = [each for each in members if each is not None]
    if known_members and not is_same_shard(known_members, present):
        fixes.remaining_problems.append(
            "the shard changed after it was indexed, so the catalog does not show which members are missing"
        )
        known_members = ()
    if fixes.counts["trailing bytes removed"] and not known_members:
        fixes.remaining_problems.append(
            "the bytes after the end of the archive are not intact members: damaged ones, or unrelated data"
        )
    groups, group_of_member = _adjacent_groups(salvaged, members, fixes)
    missing = find_missing(known_members, present)
    incomplete, usual = _find_incomplete(groups, group_of_member, salvaged, fixes, known_members, missing)
    fixes.add("incomplete samples removed", len(incomplete))
    omitted = {member.data_offset for i in incomplete for member in groups[i].parts.values()}
    lost = [*missing, *(each for each in present if each.data_offset in omitted)]
    names = [each.name for each in sorted(lost, key=lambda each: each.data_offset)]
    damaged = [*(gap.name for gap in salvaged.gaps), salvaged.truncated_name]  # if their headers can be read
    names += [name.decode("utf-8", "backslashreplace") for name in damaged if name]
    indexed = {each.key for each in known_members}
    keys = {i: key for i in sorted(incomplete) if (key := _catalog_key(groups[i].key)) not in indexed}
    names += [f"{key}.{part}" for i, key in keys.items() for part in sorted(usual - groups[i].parts.keys())]
    fixes.lost_members += list(dict.fromkeys(names))
    return _merge_groups([group for i, group in enumerate(groups) if i not in incomplete], fixes)


def output_names(group: MemberGroup) -> Iterable[tuple[SalvagedMember, str]]:
    """Yield the members of a group, each with its new name; empty if the name does not change."""
    yield from ((member, "") for member in group.other_members)
    for part, member in group.parts.items():
        yield member, f"{group.new_key}.{part}" if group.new_key else ""


def _shard_member(member: SalvagedMember) -> ShardMember | None:
    """Return the member under its name in the catalog; None if it is not part of a sample."""
    split = split_name(member.name.decode("utf-8", "backslashreplace")) if member.name else None
    return None if split is None else ShardMember(*split, member.data_offset, member.size)


def _adjacent_groups(
    salvaged: SalvageResult, members: Sequence[ShardMember | None], fixes: Fixes
) -> tuple[list[MemberGroup], list[int]]:
    """Group neighbouring members with the same key. Return the groups, and the group of each member; -1 for none."""
    groups: list[MemberGroup] = []
    group_of_member: list[int] = []
    last = -1  # index of the last group with a key
    for salvaged_member, member in zip(salvaged.members, members, strict=True):
        split = split_name(salvaged_member.name.decode("utf-8", "surrogateescape")) if member is not None else None
        if split is None:
            groups.append(MemberGroup("", other_members=[salvaged_member]))
            group_of_member.append(-1)
            continue
        key, part = split
        if last < 0 or groups[last].key != key:
            groups.append(MemberGroup(key))
            last = len(groups) - 1
        group_of_member.append(last)
        parts = groups[last].parts
        duplicate = parts.pop(part, None)
        if duplicate is not None:
            is_same = _has_same_bytes(salvaged.read, duplicate, salvaged_member)
            fixes.add("duplicate parts removed" if is_same else "differing duplicate parts removed")
            if not is_same:
                fixes.lost_members.append(duplicate.name.decode("utf-8", "backslashreplace"))
        parts[part] = salvaged_member
    return groups, group_of_member


def _has_same_bytes(read: ReadBytes, one: SalvagedMember, other: SalvagedMember) -> bool:
    if one.size != other.size:
        return False
    chunks = ((i, min(_COMPARE_CHUNK_BYTES, one.size - i)) for i in range(0, one.size, _COMPARE_CHUNK_BYTES))
    return all(read(one.data_offset + i, size) == read(other.data_offset + i, size) for i, size in chunks)


def _find_incomplete(
    groups: Sequence[MemberGroup],
    group_of_member: Sequence[int],
    salvaged: SalvageResult,
    fixes: Fixes,
    known_members: Sequence[ShardMember],
    missing_members: Sequence[ShardMember],
) -> tuple[set[int], frozenset[str]]:
    """Find incomplete samples: their indices, and the parts that most samples have; empty if most samples differ.

    Also decides which zeros join two archives and which are damage, and records both in `fixes`.
    """
    keyed = [i for i, group in enumerate(groups) if group.key]
    last = keyed[-1:]
    near_gaps = {i for gap in salvaged.gaps for i in _neighbour_groups(group_of_member, gap.next_index)}
    joined = {join: _neighbour_groups(group_of_member, join.next_index) for join in salvaged.joins}
    near_mended = {
        i for header in salvaged.mended_headers for i in _groups_near_header(group_of_member, salvaged, header)
    }
    doubtful = near_mended.union(near_gaps).union(*joined.values(), last)
    usual = _usual_parts(groups, doubtful)
    keys = {i: _catalog_key(groups[i].key) for i in keyed}
    indexed = {each.key for each in known_members}
    lacking: dict[str, set[str]] = {}
    for each in missing_members:
        lacking.setdefault(each.key, set()).add(each.part)
    misnamed = find_misnamed(known_members, [each for each in map(_shard_member, salvaged.members) if each is not None])

    def lacks(i: int) -> bool:
        """Whether a sample that was not indexed lacks parts that most others have."""
        return keys[i] not in indexed and usual is not None and frozenset(groups[i].parts) < usual

    incomplete = {i for i in keyed if lacking.get(keys[i], set()) - groups[i].parts.keys()}
    incomplete |= {i for i in keyed if any(member.data_offset in misnamed for member in groups[i].parts.values())}
    for join, sides in joined.items():
        if any(join.zeros_offset < each.data_offset <= join.next_offset for each in missing_members) or any(
            map(lacks, sides)
        ):
            record_zeros(join.zeros_offset, join.next_offset - join.zeros_offset, fixes)
            incomplete |= {i for i in sides if lacks(i)}
        else:
            fixes.add("archives joined")
            fixes.remaining_problems += _describe_doubts(join, salvaged, usual) if not known_members else ()
    incomplete |= {i for i in near_mended.union(near_gaps, last if salvaged.lacks_end_mark else ()) if lacks(i)}
    if usual is None:
        incomplete |= {i for i in near_gaps if keys[i] not in indexed}
    if salvaged.is_truncated:
        name = salvaged.truncated_name.decode("utf-8", "surrogateescape")
        complete = {i for i in last if usual is not None and frozenset(groups[i].parts) >= usual}
        truncated = {i for i in last if name.startswith(f"{groups[i].key}.") or (not name and i not in complete)}
        incomplete |= {i for i in truncated if keys[i] not in indexed}
    return incomplete, usual or frozenset()


def _catalog_key(key: str) -> str:
    """Return the key as the catalog spells it."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _neighbour_groups(group_of_member: Sequence[int], before: int) -> set[int]:
    """Return the samples before and after the start of a member, given by its index."""
    left = next((group_of_member[i] for i in range(before - 1, -1, -1) if group_of_member[i] >= 0), -1)
    right = next((group_of_member[i] for i in range(before, len(group_of_member)) if group_of_member[i] >= 0), -1)
    return {left, right} - {-1}


def _groups_near_header(group_of_member: Sequence[int], salvaged: SalvageResult, header_offset: int) -> set[int]:
    """Return the sample of the member with this header, and its neighbours."""
    index = bisect_right([member.start for member in salvaged.members], header_offset) - 1
    return _neighbour_groups(group_of_member, index) | _neighbour_groups(group_of_member, index + 1)


def _describe_doubts(join: ArchiveJoin, salvaged: SalvageResult, usual: frozenset[str] | None) -> list[str]:
    """Describe why the zeros between two archives may hide lost members, though no sample is incomplete."""
    before = salvaged.members[join.next_index - 1] if join.next_index else None
    where = f"zeros at byte {join.zeros_offset:,}, where two archives seem to be joined"
    reaches_back = before is not None and before.size >= _TRAILING_ZERO_BYTES
    if (
        before
        and reaches_back
        and not any(salvaged.read(before.data_offset + before.size - _TRAILING_ZERO_BYTES, _TRAILING_ZERO_BYTES))
    ):
        name = before.name.decode("utf-8", "backslashreplace")
        return [f"{where}, begin within {name}: a member after {name} may be missing"]
    if usual is not None and len(usual) == 1 and join.next_offset - join.zeros_offset == len(END_OF_ARCHIVE):
        return [f"{where}, may be the remains of a sample with one small part"]
    return []


def _usual_parts(groups: Sequence[MemberGroup], doubtful: set[int]) -> frozenset[str] | None:
    """Return the parts that more than half of the undoubted samples have; None if there is no such set."""
    counts = Counter(frozenset(group.parts) for i, group in enumerate(groups) if group.key and i not in doubtful)
    if not counts:
        return None
    parts, count = min(counts.items(), key=lambda item: (-item[1], sorted(item[0])))
    return parts if count > USUAL_SHARE * counts.total() else None


def _merge_groups(groups: Sequence[MemberGroup], fixes: Fixes) -> list[MemberGroup]:
    """Merge fragments of the same sample, and give other groups with the same key new keys."""
    used_keys = {group.key for group in groups}
    merged: list[MemberGroup] = []
    groups_by_key: dict[str, list[MemberGroup]] = {}
    first_full: dict[tuple[str, str], int] = {}
    last_numbers: dict[str, int] = {}
    for group in groups:
        if not group.key:
            merged.append(group)
            continue
        same_key_groups = groups_by_key.setdefault(group.key, [])
        fragment = _first_without_parts(same_key_groups, group, first_full) if same_key_groups else None
        if fragment is not None:
            fragment.parts |= group.parts
            fixes.add("keys regrouped")
            continue
        if same_key_groups:
            group.new_key = _unused_key(group.key, used_keys, last_numbers)
            used_keys.add(group.new_key)
            fixes.add("duplicate keys renamed")
        same_key_groups.append(group)
        merged.append(group)
    return merged


def _first_without_parts(
    same_key_groups: Sequence[MemberGroup], group: MemberGroup, first_full: dict[tuple[str, str], int]
) -> MemberGroup | None:
    """Find the first of the groups with the same key that has none of the parts of `group`.

    `first_full`: for each key and part, the number of first groups that have the part. The search skips them, since
    groups never lose parts: a shard may have a million members with the same key.
    """
    begin = 0
    for part in group.parts:
        full = first_full.get((group.key, part), 0)
        while full < len(same_key_groups) and part in same_key_groups[full].parts:
            full += 1
        first_full[group.key, part] = full
        begin = max(begin, full)
    return next(
        (
            same_key_groups[i]
            for i in range(begin, len(same_key_groups))
            if not same_key_groups[i].parts.keys() & group.parts.keys()
        ),
        None,
    )


def _unused_key(key: str, used_keys: set[str], last_numbers: dict[str, int]) -> str:
    """Return an unused key. `last_numbers`: the last number assigned for each key."""
    number = last_numbers.get(key, 1) + 1
    while f"{key}_{number}" in used_keys:
        number += 1
    last_numbers[key] = number
    return f"{key}_{number}"
