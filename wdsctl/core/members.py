"""Walks the members of a tar file: arrays of offsets, sizes and names, and how the file ended.

Plain members are understood thousands at a time (`plain_members.py`); what is not plain (long names, links, numbers in
base 256, headers without the magic) is parsed here, one by one. Small members are read in large sequential windows,
large ones are skipped over. Cost: about 0.5 µs a member on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

from wdsctl.core import tar
from wdsctl.core.plain_members import Members, plain_members
from wdsctl.core.tar import BLOCK, BadHeader, padded

Read = Callable[[int, int], bytes]  # (offset, size) -> exactly that many bytes

WINDOW = 1 << 20  # bytes read at a time while members are small
MOST_PADDING = 1 << 30  # bytes of zeros behind the end mark that are read one after the other
HOP = 4 << 10  # bytes read at a time while they are large
FEW = 4 << 10  # bytes taken one by one before the quick way is tried again; doubled each time in a row
GATHERED = 1 << 10  # members that were taken one by one and are handed on together: arrays of one are dear
LARGE = 64 << 10  # bytes from header to header, on average, from which on skipping beats reading
LONGEST_HEADER = 1 << 20  # bytes; a pax or GNU name header that claims more is damage
LONGEST_NAME = 64 << 10  # bytes; what has a longer one is passed over: file systems end at 4 KiB
LONG_NAME = 4 << 10  # bytes; longer ones get an array of their own, so that one of them does not widen a thousand rows

_SAYS_MORE = frozenset({tar.PAX_NEXT, tar.PAX_GLOBAL, tar.GNU_LONG_NAME, tar.GNU_LONG_LINK})


@dataclass(frozen=True, slots=True)
class Odd:
    """A member that holds no data of its own, or not as it is: a directory, a link, a device, a sparse file. Or one
    whose name has more than LONGEST_NAME bytes, of which `name` is the beginning."""

    offset: int
    name: str
    is_folder: bool = False
    is_too_long: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """How the walk ended. `offset` is where the last good member ends.

    `name` is of the member that was under way, as in the tar; empty where it cannot be known.
    """

    how: Literal["mark", "no mark", "truncated", "bad header", "not a tar", "trailing data"]
    offset: int
    name: bytes = b""
    missing: int = 0  # bytes


def walk(read: Read, size: int, *, window: int = WINDOW, hop: int = HOP) -> Iterator[Members | Odd | Ending]:
    """Every member of a tar of `size` bytes, then one Ending. Memory: a few windows.

    `window` and `hop`: bytes read at a time, multiples of a block. Windows shrink where members that are not plain
    stand between plain ones, so that little is looked at twice.
    """
    at, large = 0, False
    reach, few = window, FEW
    waiting: _Parsed = []
    while at < size:
        block = read(at, min(hop if large else reach, size - at))
        step = None if large else plain_members(block, at, size)
        if step is not None:
            members, then = step
            yield from _as_members(waiting)
            waiting = []
            yield members
            count, few = len(members.size), FEW
            reach = min(window, 2 * reach if then - at > reach // 2 else max(LARGE, 2 * (then - at)))
        else:
            parsed, then, ending = one_by_one(read, block if large else block[:few], at, size)
            waiting += parsed
            if ending is not None or len(waiting) >= GATHERED:
                yield from _as_members(waiting)
                waiting = []
            if ending is not None:
                yield ending if ending.how != "mark" else _after_the_mark(read, ending, size)
                return
            count, few = max(1, len(parsed)), min(window, 2 * few)
        large = (then - at) > LARGE * count
        at = then
    yield from _as_members(waiting)
    yield Ending("no mark", at) if size else Ending("not a tar", 0)


@dataclass(slots=True)
class _Said:
    """What pax and GNU headers say of the member that follows them."""

    name: bytes = b""
    size: int = -1
    is_sparse: bool = False


_Parsed = list[tuple[int, int, int, bytes] | Odd]


def one_by_one(read: Read, window: bytes, base: int, file_size: int) -> tuple[_Parsed, int, Ending | None]:
    """Members whose headers begin in `window`, where the next header is, and the ending if it came.

    A regular member is (first header, data, size, name).
    """
    parsed: _Parsed = []
    at = start = base
    said = _Said()
    while at < base + len(window) or start != at:
        block = window[at - base : at - base + BLOCK]
        if at + BLOCK > file_size:
            return parsed, start, _cut_in_a_header(block, at, start, said, file_size)
        if len(block) < BLOCK:
            block = read(at, BLOCK)
        if not any(block):
            return parsed, start, Ending("mark", start)
        try:
            header = tar.parse_header(block)
            data, length = _extent(read, header, block, at, said, file_size)
            if data + length > file_size:
                name = said.name or (b"" if header.type in _SAYS_MORE else header.name)
                return parsed, start, Ending("truncated", start, name, data + length - file_size)
            if header.type in _SAYS_MORE:
                _extend(said, header, read(data, length))
            else:
                parsed.append(_member(header, said, start, data, length))
        except BadHeader:
            return parsed, start, Ending("bad header", start, said.name) if at else Ending("not a tar", 0)
        is_of_next = header.type in _SAYS_MORE and (header.type != tar.PAX_GLOBAL or at > start)
        at = data + padded(length)
        if is_of_next:
            continue
        if at > file_size:
            return parsed, start, Ending("truncated", file_size, b"", at - file_size)
        start, said = at, _Said()
    return parsed, start, None


def _cut_in_a_header(rest: bytes, at: int, start: int, said: _Said, file_size: int) -> Ending:
    if at == 0:
        return Ending("not a tar", 0)
    if at == start and not any(rest):
        return Ending("no mark", at)  # no name begins with a zero: this is what is left of the mark
    return Ending("truncated", start, said.name, at + BLOCK - file_size)


def _extent(read: Read, header: tar.Header, block: bytes, at: int, said: _Said, file_size: int) -> tuple[int, int]:
    """Where a member's data begins, and how many bytes it has."""
    data = at + BLOCK
    if header.type in _SAYS_MORE:
        if header.size > LONGEST_HEADER:
            raise BadHeader(f"a name header of {header.size} bytes")
        return data, header.size
    # Links and directories carry no data, whatever their size field says.
    length = 0 if header.type in b"123456" else header.size if said.size < 0 else said.size
    goes_on = header.type == tar.GNU_SPARSE and block[tar.SPARSE_GOES_ON]
    while goes_on and data + BLOCK <= file_size:
        goes_on = read(data, BLOCK)[tar.SPARSE_MAP_GOES_ON]
        data += BLOCK
    return data, length


def _extend(said: _Said, header: tar.Header, data: bytes) -> None:
    """Take in one more header that speaks of the next member."""
    if header.type == tar.GNU_LONG_NAME:
        said.name = data.split(b"\0", 1)[0]
    elif header.type == tar.PAX_NEXT:
        records = tar.pax_records(data)
        said.name = records.get(b"path", said.name).split(b"\0", 1)[0]
        said.is_sparse |= any(key.startswith(b"GNU.sparse.") for key in records)
        if b"size" in records:
            if not records[b"size"].isdigit():
                raise BadHeader("a pax size is no number")
            said.size = int(records[b"size"][:20])


def _member(header: tar.Header, said: _Said, start: int, data: int, length: int) -> tuple[int, int, int, bytes] | Odd:
    name = said.name or header.name
    if len(name) > LONGEST_NAME:
        return Odd(start, name[:60].decode("utf-8", "backslashreplace"), is_too_long=True)
    # Before POSIX, a directory was a regular member whose name ends in a slash.
    if header.type in tar.REGULAR and not name.endswith(b"/") and not said.is_sparse:
        return start, data, length, name
    is_folder = header.type == tar.DIRECTORY or name.endswith(b"/")
    return Odd(start, name.decode("utf-8", "backslashreplace"), is_folder)


def _as_members(parsed: _Parsed) -> Iterator[Members | Odd]:
    yield from (item for item in parsed if isinstance(item, Odd))
    rows = [item for item in parsed if not isinstance(item, Odd)]
    for _, group in groupby(enumerate(rows), lambda row: row[0] if len(row[1][3]) > LONG_NAME else -1):
        header, data, size, names = zip(*(row for _, row in group), strict=True)
        width = max(1, *map(len, names))
        matrix = np.frombuffer(b"".join(name.ljust(width, b"\0") for name in names), np.uint8)
        yield Members(
            np.array(header, np.int64),
            np.array(data, np.int64),
            np.array(size, np.int64),
            matrix.reshape(len(names), width),
        )


def _after_the_mark(read: Read, ending: Ending, size: int) -> Ending:
    """Zeros after the end mark are padding; anything else is data that no reader sees (two tars joined by `cat`).

    Of more than MOST_PADDING the end is looked at besides: a hole of a terabyte costs its sender nothing.
    """
    at, reach = ending.offset, LARGE
    stop = min(size, at + MOST_PADDING)
    while at < size:
        if at >= stop:
            at, stop = max(at, size - WINDOW), size
        rest = read(at, min(reach, size - at))
        if rest.count(0) < len(rest):
            return Ending("trailing data", ending.offset)
        at, reach = at + len(rest), WINDOW
    return ending
