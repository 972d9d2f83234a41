"""Salvage the members of a damaged tar.

If a header only has a wrong checksum, `salvage` corrects the checksum. After other damage, it skips all bytes up to
the next intact header. It includes members after the end-of-archive marker, as in two tars joined by `cat`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from wdsctl.core import tar_header
from wdsctl.core.repair.fixes import Fixes
from wdsctl.core.shards.tar_blocks import TarMembers, rows_to_bytes
from wdsctl.core.shards.tar_members import ArchiveEnd, ReadBytes, SpecialMember, walk_members
from wdsctl.core.shards.tar_search import MEMBER_TYPES, find_headers, is_followed_by_header, is_header
from wdsctl.core.tar_header import END_OF_ARCHIVE, TAR_BLOCK_BYTES, BadTarHeader, padded_size, parse_header

TAR_RECORD_BYTES = 20 * TAR_BLOCK_BYTES  # tar and Python's tarfile pad archives to a multiple of it

_EXTENSION_TYPES = frozenset(b"xgLK")


class SalvagedMember(NamedTuple):
    """One member, from its first header to its padding.

    `name` is empty for a folder or link, which has no data.
    """

    name: bytes
    start: int
    end: int
    data_offset: int = 0
    size: int = 0


class SalvageGap(NamedTuple):
    """A place where members may be missing: before the member with index `next_index`.

    `name`: the name of a missing member, if its header can be read.
    """

    next_index: int
    name: bytes = b""


class ArchiveJoin(NamedTuple):
    """Zeros before the member with index `next_index`: as many as end an archive, followed by another archive.

    Members that were overwritten with zeros look the same.
    """

    next_index: int
    zeros_offset: int
    next_offset: int


@dataclass(slots=True)
class SalvageResult:
    """The members in file order. `read` reads the shard with mended headers.

    `mended_headers`: offsets of headers with a corrected checksum; the error may have been in the name. `joins`:
    possible joins of archives; the parts of the samples around them decide. `is_truncated`: the shard ends within the
    member `truncated_name`. `lacks_end_mark`: the shard ends after a member, without an end-of-archive marker.
    `archive_start`: the start of the current archive, if several are joined.
    """

    read: ReadBytes
    size: int
    members: list[SalvagedMember] = field(default_factory=list)
    gaps: list[SalvageGap] = field(default_factory=list)
    mended_headers: list[int] = field(default_factory=list)
    joins: list[ArchiveJoin] = field(default_factory=list)
    is_truncated: bool = False
    truncated_name: bytes = b""
    lacks_end_mark: bool = False
    archive_start: int = 0


def salvage(read: ReadBytes, size: int, fixes: Fixes) -> SalvageResult:
    """Salvage all members. Raises what `read` raises. Costs a scan, reading the damage, and 200 bytes per member."""
    patches: dict[int, bytes] = {}
    salvaged = SalvageResult(_patch_reads(read, patches), size)
    start: int | None = 0
    while start is not None and start < size:
        ending = _walk_members(salvaged, start)
        end = start + ending.offset
        if ending.kind in ("mark", "no mark"):
            if ending.kind == "no mark":
                _record_missing_end_mark(salvaged, end, fixes)
                fixes.add("end mark added")
            break
        if ending.kind == "truncated":
            _record_truncation(salvaged, ending, end, fixes)
            break
        if ending.kind == "trailing data":
            start = _resume_after_end_mark(salvaged, end, fixes)
        else:
            start = _resume_after_damage(salvaged, end, patches, fixes)
    return salvaged


def _patch_reads(read: ReadBytes, patches: dict[int, bytes]) -> ReadBytes:
    def patched(offset: int, size: int) -> bytes:
        data = read(offset, size)
        headers = [header for header in patches if offset <= header and header + TAR_BLOCK_BYTES <= offset + size]
        if not headers:
            return data
        changed = bytearray(data)
        for header in headers:
            changed[header - offset : header - offset + TAR_BLOCK_BYTES] = patches[header]
        return bytes(changed)

    return patched


def _walk_members(salvaged: SalvageResult, base: int) -> ArchiveEnd:
    """Add all members from offset `base` up to the first damage or end."""
    rows: list[tuple[int, int, int, bytes]] = []
    ending = ArchiveEnd("not a tar", 0)
    for item in walk_members(lambda offset, size: salvaged.read(base + offset, size), salvaged.size - base):
        if isinstance(item, TarMembers):
            columns = (
                item.header_offsets.tolist(),
                item.data_offsets.tolist(),
                item.sizes.tolist(),
                rows_to_bytes(item.names),
            )
            rows += zip(*columns, strict=True)
        elif isinstance(item, SpecialMember):
            rows.append((item.offset, -1, 0, b""))
        else:
            ending = item
    rows.sort()
    stops = [*(row[0] for row in rows), ending.offset][1:]
    for (start, data, size, name), stop in zip(rows, stops, strict=True):
        if data < 0:
            salvaged.members.append(SalvagedMember(b"", base + start, base + stop))
        else:
            salvaged.members.append(
                SalvagedMember(name, base + start, base + data + padded_size(size), base + data, size)
            )
    return ending


def _record_missing_end_mark(salvaged: SalvageResult, end: int, fixes: Fixes) -> None:
    """Record that the shard may have had more members: a shard that was cut off between two members looks the same."""
    salvaged.lacks_end_mark = True
    fixes.remaining_problems.append(
        f"no end-of-archive marker: the shard may be cut off, and have had more members after byte {end:,}"
    )


def _record_truncation(salvaged: SalvageResult, ending: ArchiveEnd, end: int, fixes: Fixes) -> None:
    """Record that the last member lacks data, or only its padding."""
    if end == salvaged.size and salvaged.members and salvaged.members[-1].name:
        _record_missing_end_mark(salvaged, end, fixes)
        fixes.add("padding added")
        return
    salvaged.is_truncated, salvaged.truncated_name = True, ending.name
    name = ending.name.decode("utf-8", "backslashreplace")
    fixes.remaining_problems.append(
        f"the shard is cut off in {name or 'a header'}: its last {salvaged.size - end:,} bytes are left out"
    )
    fixes.add("truncated tail removed")


def _resume_after_end_mark(salvaged: SalvageResult, end: int, fixes: Fixes) -> int | None:
    """Find the next member after the zeros at `end`; None if there is none.

    The zeros end an archive if their number fits an end-of-archive marker. Otherwise they replace members.
    """
    zeros = _find_bad_header(salvaged, end)  # extension headers may precede the zeros
    next_header = next(find_headers(salvaged.read, salvaged.size, zeros), None)
    if next_header is None and zeros == end:
        fixes.add("trailing bytes removed", salvaged.size - end)
        return None
    if next_header is not None and _is_archive_end(salvaged, end, next_header):
        salvaged.archive_start = next_header
        salvaged.joins.append(ArchiveJoin(len(salvaged.members), end, next_header))
        return next_header
    salvaged.gaps.append(SalvageGap(len(salvaged.members)))
    record_zeros(zeros, (salvaged.size if next_header is None else next_header) - end, fixes)
    return next_header


def record_zeros(zeros_offset: int, size: int, fixes: Fixes) -> None:
    fixes.remaining_problems.append(f"zeros in place of a header at byte {zeros_offset:,}: {size:,} bytes are left out")
    fixes.add("damaged bytes removed")


def _is_archive_end(salvaged: SalvageResult, end: int, next_offset: int) -> bool:
    """Whether the bytes are zeros: two blocks, or as many as fill the last record.

    Members that were overwritten with zeros may leave as many.
    """
    is_filled = (
        len(END_OF_ARCHIVE) < next_offset - end < len(END_OF_ARCHIVE) + TAR_RECORD_BYTES
        and (next_offset - salvaged.archive_start) % TAR_RECORD_BYTES == 0
    )
    is_mark = next_offset - end == len(END_OF_ARCHIVE) or is_filled
    return is_mark and all(
        not any(salvaged.read(offset, min(TAR_RECORD_BYTES, next_offset - offset)))
        for offset in range(end, next_offset, TAR_RECORD_BYTES)
    )


def _resume_after_damage(salvaged: SalvageResult, start: int, patches: dict[int, bytes], fixes: Fixes) -> int | None:
    """Mend the header of the member at `start`, or find the next intact header. Return where to continue."""
    bad = _find_bad_header(salvaged, start)
    mended = _mend_header(salvaged, bad)
    if mended is not None:
        patches[bad] = mended
        salvaged.mended_headers.append(bad)
        fixes.add("checksums recomputed")
        return start
    next_header = next(find_headers(salvaged.read, salvaged.size, start + TAR_BLOCK_BYTES), None)
    salvaged.gaps.append(SalvageGap(len(salvaged.members), _read_name(salvaged, bad)))
    if next_header is None:
        if salvaged.members:  # without members, the caller reports that there are none
            lost = f"{salvaged.size - start:,} bytes are left out"
            fixes.remaining_problems.append(f"no intact header follows byte {start:,}: {lost}")
        fixes.add("damaged bytes removed")
        return None
    fixes.remaining_problems.append(
        f"a header at byte {bad:,} is beyond repair: {next_header - start:,} bytes are left out"
    )
    fixes.add("damaged bytes removed")
    return next_header


def _find_bad_header(salvaged: SalvageResult, start: int) -> int:
    """Return the offset of the invalid header: the first of a member, or one after extension headers."""
    offset = start
    while offset + TAR_BLOCK_BYTES <= salvaged.size:
        try:
            header = parse_header(salvaged.read(offset, TAR_BLOCK_BYTES))
        except BadTarHeader:
            return offset
        if header.type not in _EXTENSION_TYPES:
            return offset
        offset += TAR_BLOCK_BYTES + padded_size(header.size)
    return start


def _mend_header(salvaged: SalvageResult, offset: int) -> bytes | None:
    """Return the header with a correct checksum; None if any other field is implausible.

    A plausible header has a printable name, a known type, and a size that leads to another header or to the end.
    Damaged numbers that samples do not need (mode, owner, time) become zero: Python's tarfile stops at invalid ones.
    """
    if offset + TAR_BLOCK_BYTES > salvaged.size:
        return None
    block = salvaged.read(offset, TAR_BLOCK_BYTES)
    fields = bytearray(block)
    for start, stop in tar_header.UNREAD_NUMBER_FIELDS:
        if not _is_tar_number(block[start:stop]):
            fields[start:stop] = b"0" * (stop - start - 1) + b"\0"
    first, last = tar_header.CHECKSUM_FIELD
    total = sum(fields[:first]) + sum(fields[last:]) + 8 * ord(" ")
    fields[first:last] = b"%06o\0 " % total
    mended = bytes(fields)
    try:
        header = parse_header(mended)
    except BadTarHeader:
        return None
    is_plausible = header.type in MEMBER_TYPES and _is_printable_name(header.name) and not is_header(block)
    length = 0 if header.type in b"123456" else header.size
    return (
        mended
        if is_plausible
        and is_followed_by_header(salvaged.read, salvaged.size, offset + TAR_BLOCK_BYTES + padded_size(length))
        else None
    )


def _is_tar_number(field: bytes) -> bool:
    """Whether Python's tarfile, too, reads a number in the field: octal text, or base 256 after 0x80 or 0xFF."""
    if field[0] in (0x80, 0xFF):
        return True
    return not field.split(b"\0", 1)[0].strip().strip(b"01234567")


def _is_printable_name(name: bytes) -> bool:
    try:
        return bool(name) and name.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _read_name(salvaged: SalvageResult, offset: int) -> bytes:
    if offset + TAR_BLOCK_BYTES > salvaged.size:
        return b""
    name = salvaged.read(offset, TAR_BLOCK_BYTES)[slice(*tar_header.NAME_FIELD)].split(b"\0", 1)[0]
    return name if _is_printable_name(name) else b""
