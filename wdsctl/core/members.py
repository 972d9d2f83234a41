"""Walks the members of a tar file: arrays of offsets, sizes and names, and how the file ended.

Plain members are understood thousands at a time in numpy: a block is a candidate if it has the magic, and a chain of
candidates each of which leads exactly to the next is proof. What is not plain (long names, links, numbers in base 256,
headers without the magic) is parsed one by one. Small members are read in large sequential windows, large ones are
skipped over. Cost: about 0.5 µs a member on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wdsctl.core import tar
from wdsctl.core.tar import BLOCK, BadHeader, padded

Read = Callable[[int, int], bytes]  # (offset, size) -> exactly that many bytes
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

WINDOW = 1 << 20  # bytes read at a time while members are small
HOP = 4 << 10  # bytes read at a time while they are large
LARGE = 64 << 10  # bytes from header to header, on average, from which on skipping beats reading
LONGEST_NAME = 1 << 20  # bytes; a pax or GNU name header that claims more is damage

_OCTAL = 8 ** np.arange(10, -1, -1, dtype=np.int64)
_LANES = np.uint64(0x00FF00FF00FF00FF)


@dataclass(frozen=True, slots=True)
class Members:
    """Regular members in file order. `header` is where a member's first header begins, long-name headers included."""

    header: Ints
    data: Ints
    size: Ints
    names: Bytes  # (members, width): UTF-8, padded with zeros


@dataclass(frozen=True, slots=True)
class Odd:
    """A member that holds no data of its own: a directory, a link, a device."""

    offset: int
    name: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How the walk ended. `offset` is where the last good member ends, `name` the member that was under way."""

    how: Literal["mark", "no mark", "truncated", "bad header", "not a tar", "trailing data"]
    offset: int
    name: str = ""
    missing: int = 0  # bytes


def walk(read: Read, size: int) -> Iterator[Members | Odd | Ending]:
    """Every member of a tar of `size` bytes, then one Ending. Memory: a few windows."""
    at, large = 0, False
    while True:
        block = read(at, min(WINDOW if not large else HOP, size - at))
        step = None if large else _plain(block, at, size)
        if step is not None:
            members, then = step
            yield members
            large = (then - at) > LARGE * len(members.size)
            at = then
            continue
        parsed, then, ending = _one_by_one(read, block, at, size)
        yield from _as_members(parsed)
        if ending is not None:
            yield ending if ending.how != "mark" else _after_the_mark(read, ending, size)
            return
        large = (then - at) > LARGE * max(1, len(parsed))
        at = then


# -- many at a time -------------------------------------------------------------------------------------------------


def _plain(data: bytes, base: int, file_size: int) -> tuple[Members, int] | None:
    """The plain members from the start of `data` on, and where the next header is. None if the first is not plain."""
    blocks = np.frombuffer(data, np.uint8, len(data) // BLOCK * BLOCK).reshape(-1, BLOCK)
    rows = _candidates(blocks)
    if len(rows) == 0 or rows[0] != 0:
        return None
    heads = blocks[rows]
    sizes, numeric = _sizes(heads)
    nexts = rows + 1 + (sizes + BLOCK - 1) // BLOCK
    if not (nexts[:-1] == rows[1:]).all():
        chain = _chain(rows, nexts)
        rows, heads, sizes, nexts, numeric = rows[chain], heads[chain], sizes[chain], nexts[chain], numeric[chain]
    kinds = heads[:, tar.TYPE]
    pax = kinds == tar.PAX_NEXT
    plain = numeric & _sums_hold(heads) & (heads[:, tar.PREFIX[0]] == 0) & (nexts * BLOCK + base <= file_size)
    plain &= (kinds == ord("0")) | (kinds == 0) | pax
    count = len(plain) if plain.all() else int(plain.argmin())
    # A pax header goes with its member: never stop between the two, and never let one pass that renames or resizes.
    if count and pax[:count].any():
        count = _pax_prefix(blocks, rows[:count], nexts[:count], pax[:count])
    if count == 0:
        return None
    rows, heads, sizes, nexts, pax = rows[:count], heads[:count], sizes[:count], nexts[:count], pax[:count]
    regular = ~pax
    starts = rows.copy()
    starts[1:][pax[:-1]] = rows[:-1][pax[:-1]]
    members = Members(
        header=base + starts[regular] * BLOCK,
        data=base + (rows[regular] + 1) * BLOCK,
        size=sizes[regular],
        names=_names(heads[regular]),
    )
    return members, base + int(nexts[-1]) * BLOCK


def _candidates(blocks: Bytes) -> Ints:
    rows: Ints = np.flatnonzero(blocks[:, tar.MAGIC[0]] == ord("u"))
    named: NDArray[np.bool_] = (blocks[rows, 258:262] == np.frombuffer(b"star", np.uint8)).all(axis=1)
    return rows[named]


def _sizes(heads: Bytes) -> tuple[Ints, NDArray[np.bool_]]:
    """The size fields, and which of them are plain: eleven octal digits and an end."""
    digits = heads[:, tar.SIZE[0] : tar.SIZE[1] - 1] - np.uint8(ord("0"))
    numeric: NDArray[np.bool_] = np.logical_and.reduce(digits < 8, axis=1)
    sizes: Ints = np.where(digits < 8, digits, 0).astype(np.int64) @ _OCTAL
    return sizes, numeric


def _chain(rows: Ints, nexts: Ints) -> Ints:
    """Which candidates are headers: those that the first leads to, one by one. Others lie inside a member's data."""
    place = {row: i for i, row in enumerate(rows.tolist())}
    then = nexts.tolist()
    chain = [0]
    while (i := place.get(then[chain[-1]])) is not None:
        chain.append(i)
    return np.array(chain, dtype=np.int64)


def _sums_hold(heads: Bytes) -> NDArray[np.bool_]:
    """Whether each header's checksum fits. Bytes are summed in four lanes of 16 bits: eight times fewer steps."""
    words = heads.view(np.uint64)
    lanes = ((words & _LANES) + ((words >> np.uint64(8)) & _LANES)).sum(axis=1, dtype=np.uint64)
    total = sum(((lanes >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64) for shift in (0, 16, 32, 48))
    field = heads[:, tar.CHECKSUM[0] : tar.CHECKSUM[1]]
    total = total - field.sum(axis=1, dtype=np.int64) + 8 * ord(" ")
    # Six octal digits, as every common writer has it; the others go the long way round.
    digits = field[:, :6] - np.uint8(ord("0"))
    holds: NDArray[np.bool_] = (digits < 8).all(axis=1) & (digits.astype(np.int64) @ _OCTAL[-6:] == total)
    return holds


def _pax_prefix(blocks: Bytes, rows: Ints, nexts: Ints, pax: NDArray[np.bool_]) -> int:
    """How many of these headers are plain, their pax headers looked into: none may rename, resize or make sparse."""
    count = len(rows)
    if pax[-1]:
        count -= 1
    doubled = np.flatnonzero(pax[: count - 1] & pax[1:count])
    odd = np.flatnonzero(pax[:count] & (nexts[:count] - rows[:count] != 2))
    for places in (doubled, odd):
        if len(places):
            count = min(count, int(places[0]))
    where = np.flatnonzero(pax[:count])
    records = blocks[rows[where] + 1]
    if not records.view(np.uint64)[:, 8:].any():
        records = records[:, :64]  # most carry a time and nothing else: eight times less to search
    width, data = records.shape[1], records.tobytes()
    hits = [at for word in (b"path=", b"size=", b"GNU.sparse") if (at := data.find(word)) >= 0]
    return min([count, *(int(where[at // width]) for at in hits)])


def _names(heads: Bytes) -> Bytes:
    names = heads[:, : tar.NAME[1]]
    used = np.flatnonzero(names.any(axis=0))
    names = np.ascontiguousarray(names[:, : int(used[-1]) + 1 if len(used) else 1])
    ends = names == 0
    # A name ends at its first zero; a few writers leave rubbish behind it.
    if (np.diff(ends.view(np.int8), axis=1) < 0).any():
        names[np.logical_or.accumulate(ends, axis=1)] = 0
    return names


# -- one by one -----------------------------------------------------------------------------------------------------

_Parsed = list[tuple[int, int, int, bytes] | Odd]


def _one_by_one(read: Read, window: bytes, base: int, file_size: int) -> tuple[_Parsed, int, Ending | None]:
    """Members whose headers begin in `window`, where the next header is, and the ending if it came."""
    parsed: _Parsed = []
    at, start = base, base
    name, size = b"", -1  # what a pax or GNU header says of the next member
    while at < base + len(window) or start != at:
        block = window[at - base : at - base + BLOCK]
        if len(block) < BLOCK:
            block = read(at, min(BLOCK, file_size - at))
        if len(block) < BLOCK:
            return parsed, start, Ending("no mark" if not block and at == start else "truncated", start, "", 0)
        if not any(block):
            return parsed, start, Ending("mark", start) if at else Ending("mark", 0)
        try:
            header = tar.parse_header(block)
            data, length = at + BLOCK, header.size if size < 0 else size
            long = header.type in (tar.PAX_NEXT, tar.PAX_GLOBAL, tar.GNU_LONG_NAME, tar.GNU_LONG_LINK)
            length = header.size if long else _data_length(header, length)
            if long and length > LONGEST_NAME:
                raise BadHeader(f"a name header of {length} bytes")
            if data + length > file_size:
                shown = (name or header.name).decode("utf-8", "backslashreplace")
                return parsed, start, Ending("truncated", start, shown, data + length - file_size)
            if long:
                name, size = _extended(header, read(data, length), name, size)
            else:
                _append(parsed, header, name or header.name, start, data, length)
        except BadHeader:
            return parsed, start, Ending("bad header" if start else "not a tar", start)
        at = data + padded(length)
        if not long:
            start, name, size = at, b"", -1
            if at >= file_size:
                return parsed, min(at, file_size), Ending("no mark", min(at, file_size))
    return parsed, start, None


def _data_length(header: tar.Header, length: int) -> int:
    """Links and directories carry no data, whatever their size field says."""
    return 0 if header.type in b"123456" else length


def _extended(header: tar.Header, data: bytes, name: bytes, size: int) -> tuple[bytes, int]:
    """The name and size for the next member, after one more header that speaks of it."""
    if header.type == tar.GNU_LONG_NAME:
        return data.split(b"\0", 1)[0], size
    if header.type == tar.PAX_NEXT:
        records = tar.pax_records(data)
        try:
            return records.get(b"path", name), int(records.get(b"size", size))
        except ValueError as error:
            raise BadHeader("a pax size is no number") from error
    return name, size


def _append(parsed: _Parsed, header: tar.Header, name: bytes, start: int, data: int, length: int) -> None:
    # Before POSIX, a directory was a regular member whose name ends in a slash.
    if header.type in tar.REGULAR and not name.endswith(b"/"):
        parsed.append((start, data, length, name))
    else:
        parsed.append(Odd(start, name.decode("utf-8", "backslashreplace")))


def _as_members(parsed: _Parsed) -> Iterator[Members | Odd]:
    yield from (item for item in parsed if isinstance(item, Odd))
    rows = [item for item in parsed if not isinstance(item, Odd)]
    if rows:
        header, data, size, names = zip(*rows, strict=True)
        width = max(1, *map(len, names))
        matrix = np.frombuffer(b"".join(name.ljust(width, b"\0") for name in names), np.uint8)
        yield Members(
            np.array(header, np.int64),
            np.array(data, np.int64),
            np.array(size, np.int64),
            matrix.reshape(len(rows), width),
        )


def _after_the_mark(read: Read, ending: Ending, size: int) -> Ending:
    """Zeros after the end mark are padding; anything else is data that no reader sees (two tars joined by `cat`)."""
    rest = read(ending.offset, min(64 << 10, size - ending.offset))
    return Ending("trailing data", ending.offset, "", 0) if any(rest) else ending
