"""Walk the members of a tar file: arrays of offsets, sizes and names, and how the file ended.

`tar_blocks.py` parses plain members thousands at a time. This file parses the others one by one: long names, links,
base-256 numbers, headers without the magic. It reads small members in large sequential windows and skips large ones.
Cost: about 0.5 µs a member on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from wdsctl.core import tar_header
from wdsctl.core.shards.tar_blocks import TarMembers, plain_members
from wdsctl.core.tar_header import TAR_BLOCK_BYTES, BadTarHeader, padded_size

ReadBytes = Callable[[int, int], bytes]  # (offset, size) -> exactly that many bytes

WINDOW_BYTES = 1 << 20  # bytes read at a time while members are small
MAX_PADDING_BYTES = 1 << 30  # bytes of zeros after the end-of-archive marker that are read in sequence
HEADER_READ_BYTES = 4 << 10  # bytes read at a time while members are large
SINGLE_PARSE_BYTES = 4 << 10  # bytes parsed one by one before `plain_members` is tried again; doubles each time
MAX_PENDING_MEMBERS = 1 << 10  # members parsed one by one that are yielded together: arrays of one are slow
MIN_SKIPPED_MEMBER_BYTES = 64 << 10  # mean bytes from header to header; skipping more is faster than reading them
MAX_EXTENDED_HEADER_BYTES = 1 << 20  # bytes; a pax or GNU name header that claims more is damaged
MAX_NAME_BYTES = 64 << 10  # bytes; members with longer names are skipped: file systems allow 4 KiB
LONG_NAME_BYTES = 4 << 10  # bytes; a longer name gets an array of its own, so that it does not widen a thousand rows

_EXTENDED_HEADER_TYPES = frozenset(
    {tar_header.PAX_NEXT, tar_header.PAX_GLOBAL, tar_header.GNU_LONG_NAME, tar_header.GNU_LONG_LINK}
)


@dataclass(frozen=True, slots=True)
class SpecialMember:
    """A member without usable data: a directory, a link, a device, a sparse file.

    With `is_too_long`, a member whose name has more than `MAX_NAME_BYTES` bytes; `name` is the beginning of it.
    """

    offset: int
    name: str
    is_folder: bool = False
    is_too_long: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveEnd:
    """How the walk ended. `offset` is where the last good member ends.

    `name`: the member that was cut off or damaged, as in the tar; empty if unknown.
    """

    kind: Literal["mark", "no mark", "truncated", "bad header", "not a tar", "trailing data"]
    offset: int
    name: bytes = b""
    missing_bytes: int = 0  # bytes that a truncated member still needs


def walk_members(
    read: ReadBytes, size: int, *, window: int = WINDOW_BYTES, header_read_bytes: int = HEADER_READ_BYTES
) -> Iterator[TarMembers | SpecialMember | ArchiveEnd]:
    """Yield every member of a tar of `size` bytes, then one ArchiveEnd. Memory: a few windows.

    `window` and `header_read_bytes`: bytes read at a time, multiples of a block. Windows shrink where other members
    stand between plain ones, so that few bytes are parsed twice.
    """
    at, large = 0, False
    reach, few = window, SINGLE_PARSE_BYTES
    waiting: _ParsedMembers = []
    while at < size:
        block = read(at, min(header_read_bytes if large else reach, size - at))
        step = None if large else plain_members(block, at, size)
        if step is not None:
            members, then = step
            yield from _group_members(waiting)
            waiting = []
            yield members
            count, few = len(members.sizes), SINGLE_PARSE_BYTES
            reach = min(window, 2 * reach if then - at > reach // 2 else max(MIN_SKIPPED_MEMBER_BYTES, 2 * (then - at)))
        else:
            parsed, then, ending = parse_one_by_one(read, block if large else block[:few], at, size)
            waiting += parsed
            if ending is not None or len(waiting) >= MAX_PENDING_MEMBERS:
                yield from _group_members(waiting)
                waiting = []
            if ending is not None:
                yield ending if ending.kind != "mark" else _check_trailing_data(read, ending, size)
                return
            count, few = max(1, len(parsed)), min(window, 2 * few)
        large = (then - at) > MIN_SKIPPED_MEMBER_BYTES * count
        at = then
    yield from _group_members(waiting)
    yield ArchiveEnd("no mark", at) if size else ArchiveEnd("not a tar", 0)


@dataclass(slots=True)
class _ExtendedHeader:
    """Facts from pax and GNU headers about the member that follows them."""

    name: bytes = b""
    size: int = -1
    is_sparse: bool = False


_ParsedMembers = list[tuple[int, int, int, bytes] | SpecialMember]


def parse_one_by_one(
    read: ReadBytes, window: bytes, base: int, file_size: int
) -> tuple[_ParsedMembers, int, ArchiveEnd | None]:
    """Return the members whose headers begin in `window`, the offset of the next header, and the end if reached.

    A regular member is (first header, data, size, name).
    """
    parsed: _ParsedMembers = []
    at = start = base
    extended = _ExtendedHeader()
    while at < base + len(window) or start != at:
        block = window[at - base : at - base + TAR_BLOCK_BYTES]
        if at + TAR_BLOCK_BYTES > file_size:
            return parsed, start, _end_inside_header(block, at, start, extended, file_size)
        if len(block) < TAR_BLOCK_BYTES:
            block = read(at, TAR_BLOCK_BYTES)
        if not any(block):
            return parsed, start, ArchiveEnd("mark", start)
        try:
            header = tar_header.parse_header(block)
            data, length = _extent(read, header, block, at, extended, file_size)
            if data + length > file_size:
                name = extended.name or (b"" if header.type in _EXTENDED_HEADER_TYPES else header.name)
                return parsed, start, ArchiveEnd("truncated", start, name, data + length - file_size)
            if header.type in _EXTENDED_HEADER_TYPES:
                _read_extended_header(extended, header, read(data, length))
            else:
                parsed.append(_member(header, extended, start, data, length))
        except BadTarHeader:
            return parsed, start, ArchiveEnd("bad header", start, extended.name) if at else ArchiveEnd("not a tar", 0)
        is_of_next = header.type in _EXTENDED_HEADER_TYPES and (header.type != tar_header.PAX_GLOBAL or at > start)
        at = data + padded_size(length)
        if is_of_next:
            continue
        if at > file_size:
            return parsed, start, ArchiveEnd("truncated", file_size, b"", at - file_size)
        start, extended = at, _ExtendedHeader()
    return parsed, start, None


def _end_inside_header(rest: bytes, at: int, start: int, extended: _ExtendedHeader, file_size: int) -> ArchiveEnd:
    if at == 0:
        return ArchiveEnd("not a tar", 0)
    if at == start and not any(rest):
        return ArchiveEnd("no mark", at)  # no name begins with a zero: these bytes are a cut marker
    return ArchiveEnd("truncated", start, extended.name, at + TAR_BLOCK_BYTES - file_size)


def _extent(
    read: ReadBytes, header: tar_header.TarHeader, block: bytes, at: int, extended: _ExtendedHeader, file_size: int
) -> tuple[int, int]:
    """Return where a member's data begins, and its size in bytes."""
    data = at + TAR_BLOCK_BYTES
    if header.type in _EXTENDED_HEADER_TYPES:
        if header.size > MAX_EXTENDED_HEADER_BYTES:
            raise BadTarHeader(f"a name header of {header.size} bytes")
        return data, header.size
    # Links and directories have no data, whatever their size field states.
    length = 0 if header.type in b"123456" else header.size if extended.size < 0 else extended.size
    continues = header.type == tar_header.GNU_SPARSE and block[tar_header.SPARSE_CONTINUES_OFFSET]
    while continues and data + TAR_BLOCK_BYTES <= file_size:
        continues = read(data, TAR_BLOCK_BYTES)[tar_header.SPARSE_MAP_CONTINUES_OFFSET]
        data += TAR_BLOCK_BYTES
    return data, length


def _read_extended_header(extended: _ExtendedHeader, header: tar_header.TarHeader, data: bytes) -> None:
    """Add what one more header says about the next member."""
    if header.type == tar_header.GNU_LONG_NAME:
        extended.name = data.split(b"\0", 1)[0]
    elif header.type == tar_header.PAX_NEXT:
        records = tar_header.pax_records(data)
        extended.name = records.get(b"path", extended.name).split(b"\0", 1)[0]
        extended.is_sparse |= any(key.startswith(b"GNU.sparse.") for key in records)
        if b"size" in records:
            if not records[b"size"].isdigit():
                raise BadTarHeader("a pax size is not a number")
            extended.size = int(records[b"size"][:20])


def _member(
    header: tar_header.TarHeader, extended: _ExtendedHeader, start: int, data: int, length: int
) -> tuple[int, int, int, bytes] | SpecialMember:
    name = extended.name or header.name
    if len(name) > MAX_NAME_BYTES:
        return SpecialMember(start, name[:60].decode("utf-8", "backslashreplace"), is_too_long=True)
    # Before POSIX, a directory was a regular member whose name ends in a slash.
    if header.type in tar_header.REGULAR_TYPES and not name.endswith(b"/") and not extended.is_sparse:
        return start, data, length, name
    is_folder = header.type == tar_header.DIRECTORY_TYPE or name.endswith(b"/")
    return SpecialMember(start, name.decode("utf-8", "backslashreplace"), is_folder)


def _group_members(parsed: _ParsedMembers) -> Iterator[TarMembers | SpecialMember]:
    yield from (item for item in parsed if isinstance(item, SpecialMember))
    rows = [item for item in parsed if not isinstance(item, SpecialMember)]
    for _, group in groupby(enumerate(rows), lambda row: row[0] if len(row[1][3]) > LONG_NAME_BYTES else -1):
        header, data, size, names = zip(*(row for _, row in group), strict=True)
        width = max(1, *map(len, names))
        matrix = np.frombuffer(b"".join(name.ljust(width, b"\0") for name in names), np.uint8)
        yield TarMembers(
            np.array(header, np.int64),
            np.array(data, np.int64),
            np.array(size, np.int64),
            matrix.reshape(len(names), width),
        )


def _check_trailing_data(read: ReadBytes, ending: ArchiveEnd, size: int) -> ArchiveEnd:
    """Return the end "trailing data" if bytes other than zeros follow the end-of-archive marker, else `ending`.

    Zeros are padding. Readers do not see other data there, such as the second of two tars joined by `cat`. If the
    padding has more than `MAX_PADDING_BYTES`, only that many and the last window are read: a sparse file with a hole
    of a terabyte is cheap to make and slow to read.
    """
    at, reach = ending.offset, MIN_SKIPPED_MEMBER_BYTES
    stop = min(size, at + MAX_PADDING_BYTES)
    while at < size:
        if at >= stop:
            at, stop = max(at, size - WINDOW_BYTES), size
        rest = read(at, min(reach, size - at))
        if rest.count(0) < len(rest):
            return ArchiveEnd("trailing data", ending.offset)
        at, reach = at + len(rest), WINDOW_BYTES
    return ending
