"""Parse plain tar members thousands at a time in numpy, and split their names into key and part.

A block is a candidate if it has the magic. A chain of candidates, each of which leads exactly to the next, proves that
they are headers. `tar_members.py` parses members that are not plain: long names, links, base-256 numbers, headers
without the magic. Names are rows of bytes padded with zeros; the rule of `samples/naming.py` splits them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wdsctl.core import tar_header
from wdsctl.core.array_types import Int64Array
from wdsctl.core.tar_header import TAR_BLOCK_BYTES

ByteRows = NDArray[np.uint8]

_OCTAL = 8 ** np.arange(10, -1, -1, dtype=np.int64)
_LANES, _HALF_LANES = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)


@dataclass(frozen=True, slots=True)
class TarMembers:
    """Regular members in file order.

    `header_offsets`: the first header of each member, which may be a header for a long name.
    """

    header_offsets: Int64Array
    data_offsets: Int64Array
    sizes: Int64Array
    names: ByteRows  # (members, width): the bytes in the tar, padded with zeros


def plain_members(data: bytes, base: int, file_size: int) -> tuple[TarMembers, int] | None:
    """Return the plain members at the start of `data`, and the offset of the next header.

    `base`: the offset of `data` in the file. Returns None if the first member is not plain.
    """
    blocks = np.frombuffer(data, np.uint8, len(data) // TAR_BLOCK_BYTES * TAR_BLOCK_BYTES).reshape(-1, TAR_BLOCK_BYTES)
    rows: Int64Array = np.flatnonzero(blocks[:, tar_header.MAGIC_FIELD[0]] == ord("u"))
    rows = rows[(blocks[rows, 258:262] == np.frombuffer(b"star", np.uint8)).all(axis=1)]
    if len(rows) == 0 or rows[0] != 0:
        return None
    heads = blocks[rows]
    sizes, numeric = parse_size_fields(heads)
    nexts = rows + 1 + (sizes + TAR_BLOCK_BYTES - 1) // TAR_BLOCK_BYTES
    if not (nexts[:-1] == rows[1:]).all():
        chain = _chain(rows, nexts)
        rows, heads, sizes, nexts, numeric = rows[chain], heads[chain], sizes[chain], nexts[chain], numeric[chain]
    kinds = heads[:, tar_header.TYPE_OFFSET]
    pax = kinds == tar_header.PAX_NEXT
    plain = (
        numeric
        & valid_checksums(heads)
        & (heads[:, tar_header.PREFIX_FIELD[0]] == 0)
        & (nexts * TAR_BLOCK_BYTES + base <= file_size)
    )
    plain &= (kinds == ord("0")) | (kinds == 0) | pax
    count = len(plain) if plain.all() else int(plain.argmin())
    # A pax header belongs to its member: never stop between the two, nor accept one that renames or resizes.
    if count and pax[:count].any():
        count = _count_plain_pax(blocks, rows[:count], nexts[:count], pax[:count])
    if count == 0:
        return None
    rows, heads, sizes, nexts, pax = rows[:count], heads[:count], sizes[:count], nexts[:count], pax[:count]
    regular = ~pax
    starts = rows.copy()
    starts[1:][pax[:-1]] = rows[:-1][pax[:-1]]
    members = TarMembers(
        header_offsets=base + starts[regular] * TAR_BLOCK_BYTES,
        data_offsets=base + (rows[regular] + 1) * TAR_BLOCK_BYTES,
        sizes=sizes[regular],
        names=_names(heads[regular]),
    )
    return members, base + int(nexts[-1]) * TAR_BLOCK_BYTES


def parse_size_fields(heads: ByteRows) -> tuple[Int64Array, NDArray[np.bool_]]:
    """Return the size fields, and which of them are plain: eleven octal digits and a terminator."""
    digits = heads[:, tar_header.SIZE_FIELD[0] : tar_header.SIZE_FIELD[1] - 1] - np.uint8(ord("0"))
    end = heads[:, tar_header.SIZE_FIELD[1] - 1]
    numeric: NDArray[np.bool_] = np.logical_and.reduce(digits < 8, axis=1) & ((end == 0) | (end == ord(" ")))
    sizes: Int64Array = np.where(digits < 8, digits, 0).astype(np.int64) @ _OCTAL
    return sizes, numeric


def _chain(rows: Int64Array, nexts: Int64Array) -> Int64Array:
    """Return the positions of the candidates that are headers: the first one leads to them, one by one.

    Other candidates are inside the data of a member.
    """
    position = {row: i for i, row in enumerate(rows.tolist())}
    then = nexts.tolist()
    chain = [0]
    while (i := position.get(then[chain[-1]])) is not None:
        chain.append(i)
    return np.array(chain, dtype=np.int64)


def valid_checksums(heads: ByteRows) -> NDArray[np.bool_]:
    """Return which headers have the right checksum. Words that all headers share, which are most, are summed once."""
    words = heads.view(np.uint64)
    shared = (words == words[0]).all(axis=0)
    lanes = _lanes(words[:, ~shared]).sum(axis=1, dtype=np.uint64) + _lanes(words[0, shared]).sum(dtype=np.uint64)
    field = heads[:, tar_header.CHECKSUM_FIELD[0] : tar_header.CHECKSUM_FIELD[1]]
    lanes -= _lanes(field.view(np.uint64).ravel())
    halves = (lanes & _HALF_LANES) + ((lanes >> np.uint64(16)) & _HALF_LANES)
    total = ((halves + (halves >> np.uint64(32))) & np.uint64(0xFFFFFFFF)).astype(np.int64) + 8 * ord(" ")
    # Every common writer writes six octal digits; `tar_members.py` parses headers with another form.
    digits = field[:, :6] - np.uint8(ord("0"))
    holds: NDArray[np.bool_] = (digits < 8).all(axis=1) & (digits.astype(np.int64) @ _OCTAL[-6:] == total)
    return holds


def _lanes(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bytes of each word over four lanes of 16 bits, which can hold the sums of 64 words.

    Adding lanes takes an eighth of the steps of adding bytes.
    """
    return (words & _LANES) + ((words >> np.uint64(8)) & _LANES)


def _count_plain_pax(blocks: ByteRows, rows: Int64Array, nexts: Int64Array, pax: NDArray[np.bool_]) -> int:
    """Return how many of these headers are plain, up to the first pax header that is not.

    A plain pax header is the only one of its member, has one block of records, and does not rename, resize or make
    sparse.
    """
    count = len(rows)
    if pax[-1]:
        count -= 1
    doubled = np.flatnonzero(pax[: count - 1] & pax[1:count])
    odd = np.flatnonzero(pax[:count] & (nexts[:count] - rows[:count] != 2))
    for positions in (doubled, odd):
        if len(positions):
            count = min(count, int(positions[0]))
    where = np.flatnonzero(pax[:count])
    records = blocks[rows[where] + 1]
    if not records.view(np.uint64)[:, 8:].any():
        records = records[:, :64]  # most hold a time and nothing else, so an eighth of the block is enough to search
    width, data = records.shape[1], records.tobytes()
    hits = [at for word in (b"path=", b"size=", b"GNU.sparse") if (at := data.find(word)) >= 0]
    return min([count, *(int(where[at // width]) for at in hits)])


def _names(heads: ByteRows) -> ByteRows:
    names = heads[:, : tar_header.NAME_FIELD[1]]
    used = np.flatnonzero(names.any(axis=0))
    names = np.ascontiguousarray(names[:, : int(used[-1]) + 1 if len(used) else 1])
    ends = names == 0
    # A name ends at its first zero; a few writers leave other bytes after it.
    if (np.diff(ends.view(np.int8), axis=1) < 0).any():
        names[np.logical_or.accumulate(ends, axis=1)] = 0
    return names


_DOT, _SLASH, _META = ord("."), ord("/"), ord("_")


def name_lengths(names: ByteRows) -> Int64Array:
    """Return the length of each name in bytes."""
    used: Int64Array = (names != 0).sum(axis=1)
    return used


def first_dots(names: ByteRows) -> Int64Array:
    """Return where the key ends in each name: the position of the first dot of the file name.

    The position is 0 if the file name has no dot or begins with one.
    """
    dots = names == _DOT
    slashes = names == _SLASH
    if slashes.any():
        width = names.shape[1]
        start = np.where(slashes.any(axis=1), width - slashes[:, ::-1].argmax(axis=1), 0)
        dots &= np.arange(width) >= start[:, None]
        dots &= (dots.argmax(axis=1) > start)[:, None]
    found: Int64Array = dots.argmax(axis=1)
    return found


def is_meta(names: ByteRows, dots: Int64Array) -> NDArray[np.bool_]:
    """Return which names belong to WebDataset's own members, `__name__...` or, in a tar of `.`, `./__name__...`."""
    meta = np.zeros(len(names), np.bool_)
    for start in (0, 2):
        if names.shape[1] < start + 4:
            break
        begins = (names[:, start] == _META) & (names[:, start + 1] == _META)
        if start:
            begins &= (names[:, 0] == _DOT) & (names[:, 1] == _SLASH)
        for row in np.flatnonzero(begins):
            meta[row] = b"__" in names[row, start + 2 : dots[row]].tobytes()
    return meta


def cut_names(names: ByteRows, starts: Int64Array, ends: Int64Array) -> ByteRows:
    """Cut each row to its own start and end, and pad it with zeros."""
    widths = ends - starts
    across = np.arange(int(widths.max()))
    columns = np.minimum(starts[:, None] + across, names.shape[1] - 1)
    return np.where(across < widths[:, None], np.take_along_axis(names, columns, axis=1), 0).astype(np.uint8)


def rows_to_bytes(matrix: ByteRows) -> list[bytes]:
    """Return the rows as bytes, without their zero padding."""
    rows: list[bytes] = np.ascontiguousarray(matrix).view(f"S{matrix.shape[1]}").ravel().tolist()
    return rows


class PartNames:
    """Assigns numbers to part names, in order of first appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number_of_part(self, name: bytes) -> int:
        """Return the number of a name. Names whose decoded text is equal share one, also if their bytes differ."""
        return self.numbers.setdefault(name.decode("utf-8", "backslashreplace"), len(self.numbers))

    def encode(self, matrix: ByteRows) -> NDArray[np.uint32]:
        """Return the numbers of names in rows of zero-padded bytes. Fast for few distinct names of up to 8 bytes."""
        width = matrix.shape[1]
        if width > 8:
            return np.array([self.number_of_part(name) for name in rows_to_bytes(matrix)], np.uint32)
        words = np.zeros((len(matrix), 8), np.uint8)
        words[:, :width] = matrix
        codes = words.view(np.uint64).ravel()
        numbers = np.empty(len(codes), np.uint32)
        left = np.ones(len(codes), np.bool_)
        while left.any():
            code = codes[int(left.argmax())]
            same = codes == code
            numbers[same] = self.number_of_part(code.tobytes().rstrip(b"\0"))
            left &= ~same
        return numbers

    def to_tuple(self) -> tuple[str, ...]:
        return tuple(self.numbers)
