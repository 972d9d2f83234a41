"""Which sample of one dataset has the key of which sample of others: computed from their offsets files, and kept.

The file, version 2, little-endian. Bytes 0-7 `WDSJOIN2`; 8-15 u64, the length of the header; then the header, JSON,
with `fingerprint`, `rows`, `members` and `skipped`; then, each at a multiple of 64 bytes, an i8 column of `rows`
numbers for every member, and, where samples are skipped, a u1 column `kept`. A row is one of the primary's offsets
file. The number is one more than the row of the member's offsets file with the same key; 0: there is none, or the row
was not asked for. So what no split has costs no disk: it is a hole in the file. Behind all of it stand checksums by
block (`block_sums.py`).
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.block_sums import BlockSums, seal
from wdsctl.core.columns import digest_of
from wdsctl.core.errors import CatalogError, DatasetError
from wdsctl.core.files import open_own
from wdsctl.core.key_table import KeyTable, KeyTwice
from wdsctl.core.os_errors import translated
from wdsctl.core.shard_index import Ints, ShardIndex

Nonmatch = Literal["error", "skip", "none"]

MAGIC = b"WDSJOIN2"
VERSION = 1
ALIGN = 64
BLOCK = 1 << 18  # rows that are written at once
SMALL = 1 << 20  # bytes: files up to this are read instead of mapped, which would keep a descriptor
NAMED = 5  # keys without a partner that an error names

_ROOM = 256 - 16  # bytes of the header: the columns begin at byte 256


@dataclass(frozen=True, slots=True)
class Side:
    """A split of a dataset in a join. `rows`: of its samples, in the index; `digest` names them (`split_digest`)."""

    name: str
    index: ShardIndex
    rows: Callable[[], Ints]
    digest: str
    nonmatch: Nonmatch = "error"


class JoinIndex:
    """A join that was computed, mapped. `members`: how many rows each of them has.

    Raises ValueError where the file is not one of this fingerprint, or damaged.
    """

    def __init__(self, path: str, fingerprint: str, rows: int, members: Sequence[int]) -> None:
        with translated(path, "read"):
            handle = open_own(path)
            try:
                size = os.fstat(handle).st_size
                data = os.read(handle, size) if size <= SMALL else mmap.mmap(handle, size, prot=mmap.PROT_READ)
            finally:
                os.close(handle)
        header = _header(data)
        if [header.get(key) for key in ("fingerprint", "rows", "members")] != [fingerprint, rows, len(members)]:
            raise ValueError("another join")
        if type(header["skipped"]) is not int or not 0 <= header["skipped"] <= rows:
            raise ValueError("so many cannot be skipped")
        begin, width = 16 + int.from_bytes(data[8:16], "little"), _aligned(8 * rows)
        starts = [begin + i * width for i in range(len(members) + 1)]
        self.skipped: int = header["skipped"]
        if len(data) < (starts[-1] + rows if self.skipped else starts[-1]):
            raise ValueError("it is cut short")
        self._damaged = partial(_damaged, path)
        self._sizes = list(members)
        sums = BlockSums(data, self._damaged)
        sums.check(0, begin)
        if self.skipped:
            sums.check(starts[-1], starts[-1] + rows)
        self._sums, self._begins = sums, starts[:-1]
        self._columns: list[Ints] = [np.frombuffer(data, "<i8", rows, at) for at in starts[:-1]]
        #: (rows,) of the primary: whether it is in the join; None where nothing is skipped.
        self.kept: NDArray[np.bool_] | None = (
            np.frombuffer(data, np.uint8, rows, starts[-1]) == 1 if self.skipped else None
        )

    def partners(self, member: int, rows: Ints) -> Ints:
        """For these rows of the primary the rows of a member, -1 where there is none."""
        starts = self._begins[member] + 8 * rows
        self._sums.check_spans(starts, starts + 8)
        partners: Ints = self._columns[member].take(rows) - 1
        # As unsigned words, less than -1 is more than any row.
        if int((partners + 1).view(np.uint64).max(initial=0)) > self._sizes[member]:
            raise self._damaged()
        return partners


def fingerprint_of(primary: Side, members: Sequence[Side]) -> str:
    """Names all that a join is computed of: shards, keys, splits, and what is to become of the rest. 32 hex digits."""
    sides = [[digest_of(side.index.shards), side.digest, side.nonmatch] for side in (primary, *members)]
    return blake2b(json.dumps([VERSION, sides]).encode(), digest_size=16).hexdigest()


def write_join(path: str, fingerprint: str, primary: Side, members: Sequence[Side]) -> None:
    """Compute a join into a new file. A second and 40 bytes of memory a million keys of the largest side, about.

    Raises DatasetError WDS608 where a member has a key twice, WDS607 where a key has no partner that must have one.
    What one member skips is asked of no other. StorageError and PermissionDenied, of the file.
    """
    count = int(primary.index.shard_row[-1])
    rows = np.sort(primary.rows())
    asked = len(rows)
    kept = np.zeros(count, np.bool_)
    kept[rows] = True
    begin, width = 16 + _ROOM, _aligned(8 * count)
    with translated(path), open(path, "x+b") as file:
        # Those that skip first: who is skipped needs no partner elsewhere.
        for i in sorted(range(len(members)), key=lambda i: members[i].nonmatch != "skip"):
            rows = rows[kept[rows]]
            found = _table(members[i]).find(primary.index, rows)
            if members[i].nonmatch == "skip":
                kept[rows[found < 0]] = False
            elif members[i].nonmatch == "error" and (found < 0).any():
                raise _without_partner(primary, members[i], rows, found)
            _put(file, begin + i * width, rows, found)
        skipped = asked - int(np.count_nonzero(kept))
        end = begin + len(members) * width
        file.truncate(end)
        if skipped:
            file.seek(end)
            file.write(kept.tobytes())
        header = {"fingerprint": fingerprint, "rows": count, "members": len(members), "skipped": skipped}
        file.seek(0)
        file.write(MAGIC + _ROOM.to_bytes(8, "little"))
        file.write(json.dumps(header).encode().ljust(_ROOM))
        seal(file)


def _table(member: Side) -> KeyTable:
    try:
        return KeyTable(member.index, member.rows())
    except KeyTwice as error:
        shards = [member.index.shards[member.index.shard_of(row)].path for row in (error.first, error.second)]
        others = f", and {error.count - 1:,} more keys do" * (error.count > 1)
        raise DatasetError(
            f"the key {member.index.key(error.first)!r} stands twice in a member of a join{others}",
            where=f"dataset {member.name}, shards {' and '.join(dict.fromkeys(shards))}",
            hint="join to a split, or a dataset, in which every key stands once; only the first member may repeat keys",
            code="WDS608",
        ) from error


def _without_partner(primary: Side, member: Side, rows: Ints, found: Ints) -> DatasetError:
    missing = rows[found < 0]
    keys = ", ".join(repr(primary.index.key(row)) for row in missing[:NAMED].tolist())
    more = ", ..." if len(missing) > NAMED else ""
    return DatasetError(
        f"{len(missing):,} of {len(rows):,} samples of {primary.name} have no partner of the same key: {keys}{more}",
        where=f"dataset {member.name}",
        hint="write `nonmatch: skip` at this member to leave them out, or `nonmatch: none` to get None for them",
        code="WDS607",
    )


def _put(file: BinaryIO, begin: int, rows: Ints, found: Ints) -> None:
    """The column of a member, block by block; blocks of which nothing is known stay holes."""
    at = 0
    while at < len(rows):
        first = int(rows[at])
        end = at + int(np.searchsorted(rows[at : at + BLOCK], first + BLOCK))
        block = np.zeros(int(rows[end - 1]) + 1 - first, "<i8")
        block[rows[at:end] - first] = found[at:end] + 1
        file.seek(begin + 8 * first)
        file.write(block.tobytes())
        at = end


def _header(data: bytes | mmap.mmap) -> dict[str, Any]:
    if data[:8] != MAGIC:
        raise ValueError("no join")
    try:
        header = json.loads(data[16 : 16 + int.from_bytes(data[8:16], "little")])
    except RecursionError as error:
        raise ValueError("no header") from error
    if not isinstance(header, dict):
        raise ValueError("no header")  # noqa: TRY004 - what was read is wrong, not what was given
    return header


def _damaged(path: str) -> CatalogError:
    return CatalogError(
        "the file of a join is damaged",
        where=path,
        hint="remove it: it is computed again when the join is next opened",
        code="WDS529",
    )


def _aligned(size: int) -> int:
    return size + -size % ALIGN
