"""Repair one tar: plan a fixed copy, and yield its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wdsctl.core.repair.fixes import Fixes
from wdsctl.core.repair.grouping import MemberGroup, group_members, output_names
from wdsctl.core.repair.members import ShardMember
from wdsctl.core.repair.salvage import SalvagedMember, SalvageResult, salvage
from wdsctl.core.shards.tar_members import ReadBytes
from wdsctl.core.tar_header import END_OF_ARCHIVE, TAR_BLOCK_BYTES, build_tar_header, padded_size

_COPY_CHUNK_BYTES = 8 << 20  # bytes per read


def plan_tar(
    read: ReadBytes, size: int, fixes: Fixes, known_members: Sequence[ShardMember] = ()
) -> tuple[SalvageResult, list[MemberGroup]]:
    """Salvage the members of a tar, and group them into samples. `fixes` stays empty if the tar is intact.

    `known_members`: the indexed members. Records those that the copy lacks in `fixes.lost_members`. Raises storage
    errors.
    """
    salvaged = salvage(read, size, fixes)
    if not salvaged.members:
        fixes.remaining_problems.append("the file contains no tar members" if size else "the file is empty")
        fixes.lost_members += [each.name for each in known_members]
        return salvaged, []
    return salvaged, group_members(salvaged, fixes, known_members)


def repaired_tar_chunks(salvaged: SalvageResult, groups: Sequence[MemberGroup]) -> Iterator[bytes]:
    """Yield the bytes of the fixed copy. Members keep their headers unless their name changes."""
    for group in groups:
        for member, name in output_names(group):
            if name:
                yield build_tar_header(name.encode("utf-8", "surrogateescape"), member.size)
                yield from _member_chunks(salvaged, member, member.data_offset)
            else:
                yield from _member_chunks(salvaged, member, member.start)
    yield END_OF_ARCHIVE


def _member_chunks(salvaged: SalvageResult, member: SalvagedMember, start: int) -> Iterator[bytes]:
    """Yield a member from `start` to its end, padded with zeros."""
    stop = member.data_offset + member.size if member.name else member.end
    for offset in range(start, stop, _COPY_CHUNK_BYTES):
        yield salvaged.read(offset, min(_COPY_CHUNK_BYTES, stop - offset))
    yield bytes(padded_size(stop - start) - (stop - start)) if (stop - start) % TAR_BLOCK_BYTES else b""
