"""Plain members of a tar file, understood thousands at a time in numpy.

A block is a candidate if it has the magic, and a chain of candidates each of which leads exactly to the next is proof.
What is not plain (long names, links, numbers in base 256, headers without the magic) is left to `members.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wdsctl.core import tar
from wdsctl.core.tar import BLOCK

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_OCTAL = 8 ** np.arange(10, -1, -1, dtype=np.int64)
_LANES, _HALF_LANES = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)


@dataclass(frozen=True, slots=True)
class Members:
    """Regular members in file order. `header` is where a member's first header begins, long-name headers included."""

    header: Ints
    data: Ints
    size: Ints
    names: Bytes  # (members, width): as in the tar, padded with zeros


def plain_members(data: bytes, base: int, file_size: int) -> tuple[Members, int] | None:
    """The plain members from the start of `data` on, and where the next header is. None if the first is not plain."""
    blocks = np.frombuffer(data, np.uint8, len(data) // BLOCK * BLOCK).reshape(-1, BLOCK)
    rows = _candidates(blocks)
    if len(rows) == 0 or rows[0] != 0:
        return None
    heads = blocks[rows]
    sizes, numeric = sizes_of(heads)
    nexts = rows + 1 + (sizes + BLOCK - 1) // BLOCK
    if not (nexts[:-1] == rows[1:]).all():
        chain = _chain(rows, nexts)
        rows, heads, sizes, nexts, numeric = rows[chain], heads[chain], sizes[chain], nexts[chain], numeric[chain]
    kinds = heads[:, tar.TYPE]
    pax = kinds == tar.PAX_NEXT
    plain = numeric & sums_hold(heads) & (heads[:, tar.PREFIX[0]] == 0) & (nexts * BLOCK + base <= file_size)
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


def sizes_of(heads: Bytes) -> tuple[Ints, NDArray[np.bool_]]:
    """The size fields, and which of them are plain: eleven octal digits and an end."""
    digits = heads[:, tar.SIZE[0] : tar.SIZE[1] - 1] - np.uint8(ord("0"))
    end = heads[:, tar.SIZE[1] - 1]
    numeric: NDArray[np.bool_] = np.logical_and.reduce(digits < 8, axis=1) & ((end == 0) | (end == ord(" ")))
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


def sums_hold(heads: Bytes) -> NDArray[np.bool_]:
    """Whether each header's checksum fits. Words that all of these headers share, most of them, are summed once."""
    words = heads.view(np.uint64)
    shared = (words == words[0]).all(axis=0)
    lanes = _lanes(words[:, ~shared]).sum(axis=1, dtype=np.uint64) + _lanes(words[0, shared]).sum(dtype=np.uint64)
    field = heads[:, tar.CHECKSUM[0] : tar.CHECKSUM[1]]
    lanes -= _lanes(field.view(np.uint64).ravel())
    halves = (lanes & _HALF_LANES) + ((lanes >> np.uint64(16)) & _HALF_LANES)
    total = ((halves + (halves >> np.uint64(32))) & np.uint64(0xFFFFFFFF)).astype(np.int64) + 8 * ord(" ")
    # Six octal digits, as every common writer has it; the others go the long way round.
    digits = field[:, :6] - np.uint8(ord("0"))
    holds: NDArray[np.bool_] = (digits < 8).all(axis=1) & (digits.astype(np.int64) @ _OCTAL[-6:] == total)
    return holds


def _lanes(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The bytes of each word in four lanes of 16 bits, which hold the sums of 64 words: eight times fewer steps."""
    return (words & _LANES) + ((words >> np.uint64(8)) & _LANES)


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
