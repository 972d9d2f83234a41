"""Finds every member of a damaged tar that can still be found.

A header whose checksum alone is wrong is mended. Where a header cannot be, what lies before the next good one is left
out. What stands behind the end mark, as when two tars were joined by `cat`, is taken in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from wdsctl.core import tar
from wdsctl.core.header_search import TYPES, headers, is_header, leads_on
from wdsctl.core.member_names import strings
from wdsctl.core.members import Ending, Odd, Read, walk
from wdsctl.core.plain_members import Members
from wdsctl.core.repairs.fixes import Fixes
from wdsctl.core.tar import BLOCK, BadHeader, padded, parse_header
from wdsctl.core.tar_header import END

RECORD = 20 * BLOCK  # what tar and Python's tarfile write at a time: their archives are multiples of it

_SAYS_MORE = frozenset(b"xgLK")


class Piece(NamedTuple):
    """One member, from its first header to its padding. `name` is empty of what holds no data (a folder, a link)."""

    name: bytes
    start: int
    end: int
    data: int = 0
    size: int = 0


class Gap(NamedTuple):
    """Members may be missing before the piece of this number. `name`: of one of them, if that can be read still."""

    before: int
    name: bytes = b""


class Join(NamedTuple):
    """Zeros from one byte to another before the piece of this number: as many as end an archive, another one follows.

    Members of which nothing but zeros is left look the same.
    """

    before: int
    zeros: int
    then: int


@dataclass(slots=True)
class Salvaged:
    """`pieces` in file order, to be read through `read`, which sees headers as they are mended.

    `mended`: where headers got another checksum; what was wrong with them may have been the name. `joins`: where
    archives seem to be joined; who knows what samples have decides. `is_cut`: whether the end is missing, and the last
    sample with it, unless the member under way (`cut_name`) is of another one. `is_open`: the archive ends at a
    member's border, without a mark.
    """

    read: Read
    size: int
    pieces: list[Piece] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    mended: list[int] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)
    is_cut: bool = False
    cut_name: bytes = b""
    is_open: bool = False
    begin: int = 0  # of the archive under way, where several are joined


def salvage(read: Read, size: int, fixes: Fixes) -> Salvaged:
    """Raises what `read` raises. Cost: a scan, and a read of what is damaged. Memory: 200 bytes a member."""
    patches: dict[int, bytes] = {}
    found = Salvaged(_patched(read, patches), size)
    at = 0
    while at < size:
        ending = _walked(found, at)
        end = at + ending.offset
        if ending.how in ("mark", "no mark"):
            found.is_open = ending.how == "no mark"
            fixes.add("end mark added", int(found.is_open))
            break
        if ending.how == "truncated":
            _truncated(found, ending, end, fixes)
            break
        if ending.how == "trailing data":
            then = _after_the_mark(found, end, fixes)
        else:
            then = _after_damage(found, end, patches, fixes)
        if then is None:
            break
        at = then
    return found


def _patched(read: Read, patches: dict[int, bytes]) -> Read:
    def patched(offset: int, size: int) -> bytes:
        data = read(offset, size)
        hit = [at for at in patches if offset <= at and at + BLOCK <= offset + size]
        if not hit:
            return data
        changed = bytearray(data)
        for at in hit:
            changed[at - offset : at - offset + BLOCK] = patches[at]
        return bytes(changed)

    return patched


def _walked(found: Salvaged, base: int) -> Ending:
    """Take in all members from `base` on, up to where the walk ends."""
    rows: list[tuple[int, int, int, bytes]] = []
    ending = Ending("not a tar", 0)
    for item in walk(lambda at, size: found.read(base + at, size), found.size - base):
        if isinstance(item, Members):
            columns = (item.header.tolist(), item.data.tolist(), item.size.tolist(), strings(item.names))
            rows += zip(*columns, strict=True)
        elif isinstance(item, Odd):
            rows.append((item.offset, -1, 0, b""))
        else:
            ending = item
    rows.sort()
    stops = [*(row[0] for row in rows), ending.offset][1:]
    for (start, data, size, name), stop in zip(rows, stops, strict=True):
        if data < 0:
            found.pieces.append(Piece(b"", base + start, base + stop))
        else:
            found.pieces.append(Piece(name, base + start, base + data + padded(size), base + data, size))
    return ending


def _truncated(found: Salvaged, ending: Ending, end: int, fixes: Fixes) -> None:
    """The last member lacks data; or, where it lacks padding alone, nothing."""
    if end == found.size and found.pieces and found.pieces[-1].name:
        fixes.add("padding added")
        found.is_open = True
        return
    found.is_cut, found.cut_name = True, ending.name
    name = ending.name.decode("utf-8", "backslashreplace")
    fixes.left.append(f"the shard is cut off in {name or 'a header'}: its last {found.size - end:,} bytes are left out")
    fixes.add("tail cut")


def _after_the_mark(found: Salvaged, end: int, fixes: Fixes) -> int | None:
    """Where members are behind the zeros at `end`; None where there are none.

    Zeros that are no more and no less than what ends an archive end one. Others stand where members were.
    """
    zeros = _bad_block(found, end)  # they may stand for a header that others have said more of
    then = next(headers(found.read, found.size, zeros), None)
    if then is None and zeros == end:
        fixes.add("trailing bytes left out", found.size - end)
        return None
    if then is not None and _ends_an_archive(found, end, then):
        found.begin = then
        found.joins.append(Join(len(found.pieces), end, then))
        return then
    found.gaps.append(Gap(len(found.pieces)))
    zeros_left_out(zeros, (found.size if then is None else then) - end, fixes)
    return then


def zeros_left_out(zeros: int, size: int, fixes: Fixes) -> None:
    fixes.left.append(f"zeros at byte {zeros:,} in place of a header: {size:,} bytes are left out")
    fixes.add("damage left out")


def _ends_an_archive(found: Salvaged, end: int, then: int) -> bool:
    """Two blocks of zeros, or as many as fill up the last record. Members that were zeroed may have left as many."""
    is_filled = len(END) < then - end < len(END) + RECORD and (then - found.begin) % RECORD == 0
    is_mark = then - end == len(END) or is_filled
    return is_mark and all(not any(found.read(at, min(RECORD, then - at))) for at in range(end, then, RECORD))


def _after_damage(found: Salvaged, start: int, patches: dict[int, bytes], fixes: Fixes) -> int | None:
    """Mend the header of the member that begins at `start`, or find where the next good one is."""
    bad = _bad_block(found, start)
    mended = _mended(found, bad)
    if mended is not None:
        patches[bad] = mended
        found.mended.append(bad)
        fixes.add("checksums recomputed")
        return start
    then = next(headers(found.read, found.size, start + BLOCK), None)
    found.gaps.append(Gap(len(found.pieces), _name_in(found, bad)))
    if then is None:
        if found.pieces:  # otherwise nothing is left at all, which whoever asked will say
            lost = f"{found.size - start:,} bytes are left out"
            fixes.left.append(f"no intact header follows byte {start:,}: {lost}")
        fixes.add("damage left out")
        return None
    fixes.left.append(f"a header at byte {bad:,} is beyond repair: {then - start:,} bytes are left out")
    fixes.add("damage left out")
    return then


def _bad_block(found: Salvaged, start: int) -> int:
    """Where the header is that does not parse: the first of a member, or one behind headers that name it."""
    at = start
    while at + BLOCK <= found.size:
        try:
            header = parse_header(found.read(at, BLOCK))
        except BadHeader:
            return at
        if header.type not in _SAYS_MORE:
            return at
        at += BLOCK + padded(header.size)
    return start


def _mended(found: Salvaged, at: int) -> bytes | None:
    """The header with the checksum that it should have, if all else about it makes sense: a name, a known type, and a
    size that leads to another header or to the end."""
    if at + BLOCK > found.size:
        return None
    block = found.read(at, BLOCK)
    first, last = tar.CHECKSUM
    total = sum(block[:first]) + sum(block[last:]) + 8 * ord(" ")
    mended = block[:first] + b"%06o\0 " % total + block[last:]
    try:
        header = parse_header(mended)
    except BadHeader:
        return None
    is_sane = header.type in TYPES and _is_name(header.name) and not is_header(block)
    length = 0 if header.type in b"123456" else header.size
    return mended if is_sane and leads_on(found.read, found.size, at + BLOCK + padded(length)) else None


def _is_name(name: bytes) -> bool:
    try:
        return bool(name) and name.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _name_in(found: Salvaged, at: int) -> bytes:
    if at + BLOCK > found.size:
        return b""
    name = found.read(at, BLOCK)[slice(*tar.NAME)].split(b"\0", 1)[0]
    return name if _is_name(name) else b""
