"""Compute joins, which pair samples of several datasets by key, from their offsets files, and cache them in files.

The file format, version 1, little-endian:

- Bytes 0-7: `WDSJOIN1`. Bytes 8-15: u64, the length of the header.
- The header: JSON with `fingerprint`, `rows`, `members` and `skipped`.
- For every member, an i8 column of `rows` numbers. If samples are skipped, also a u1 column `kept`. Each column begins
  at a multiple of 64 bytes.
- Checksums by block (`block_checksums.py`).

A row is a row of the primary's offsets file. Its number in a column is one more than the row of the member's offsets
file with the same key. 0: no sample has the key, or the row is not in the joined split. Such rows cost no disk space
where they leave a hole in the file.

Files lie beside the catalog of the primary, or in the user's cache if that folder cannot be written. They are named
`NAME-FINGERPRINT.bin`: NAME is a hash of the datasets' names and `nonmatch` settings, FINGERPRINT of their contents.
A changed dataset gets a new file, and the three most recently used files of each name are kept. A process that has
mapped an older file can still use it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.columns.column_file import digest_shards
from wdsctl.core.directories import user_cache_folder
from wdsctl.core.errors import (
    CatalogError,
    DatasetError,
    InputError,
    PermissionDenied,
    StorageError,
    translate_os_errors,
)
from wdsctl.core.files import make_folder, remove_file, replace_atomically, touch
from wdsctl.core.offsets.block_checksums import BlockChecksums, append_checksums
from wdsctl.core.offsets.key_table import DuplicateKey, KeyTable
from wdsctl.core.offsets.mapped_arrays import map_file, read_array_header
from wdsctl.core.offsets.read import ShardIndex

Nonmatch = Literal["error", "skip", "none"]

JOIN_MAGIC = b"WDSJOIN1"
JOIN_VERSION = 1
COLUMN_ALIGN_BYTES = 64
WRITE_BLOCK_ROWS = 1 << 18  # rows per write
MAX_NAMED_KEYS = 5  # keys without a partner to name in an error

_HEADER_BYTES = 256 - 16  # so that the columns begin at byte 256


@dataclass(frozen=True, slots=True)
class JoinSide:
    """A split of a dataset in a join. `rows`: returns the rows of its samples in `index`.

    `digest`: identifies these samples (`split_digest`).
    """

    name: str
    index: ShardIndex
    rows: Callable[[], Int64Array]
    digest: str
    nonmatch: Nonmatch = "error"


class JoinIndex:
    """A computed join, mapped into memory. `rows`: of the primary's offsets file. `members`: the rows of each member's.

    Raises ValueError for another fingerprint or a foreign file, CatalogError WDS529 if the file is damaged.
    """

    def __init__(self, path: str, fingerprint: str, rows: int, members: Sequence[int]) -> None:
        with translate_os_errors(path, "read"):
            data = map_file(path)
        self._damaged_error = partial(_damaged, path)
        checksums = BlockChecksums(data, self._damaged_error)
        header = read_array_header(data, JOIN_MAGIC, checksums)
        if [header.get(key) for key in ("fingerprint", "rows", "members")] != [fingerprint, rows, len(members)]:
            raise ValueError("another join")
        if type(header["skipped"]) is not int or not 0 <= header["skipped"] <= rows:
            raise ValueError("the number of skipped rows is out of range")
        begin, width = 16 + int.from_bytes(data[8:16], "little"), _aligned(8 * rows)
        starts = [begin + i * width for i in range(len(members) + 1)]
        self.skipped: int = header["skipped"]
        if len(data) < (starts[-1] + rows if self.skipped else starts[-1]):
            raise ValueError("the file is truncated")
        self._member_rows = list(members)
        if self.skipped:
            checksums.check(starts[-1], starts[-1] + rows)
        self._checksums, self._column_starts = checksums, starts[:-1]
        self._columns: list[Int64Array] = [np.frombuffer(data, "<i8", rows, at) for at in starts[:-1]]
        #: (rows,): whether each row of the primary is in the join; None if no row is skipped.
        self.kept: NDArray[np.bool_] | None = (
            np.frombuffer(data, np.uint8, rows, starts[-1]) == 1 if self.skipped else None
        )

    def partners(self, member: int, rows: Int64Array) -> Int64Array:
        """(rows,): for each of these rows of the primary, the member's row with the same key, or -1."""
        starts = self._column_starts[member] + 8 * rows
        self._checksums.check_spans(starts, starts + 8)
        partners: Int64Array = self._columns[member].take(rows) - 1
        # As unsigned numbers, values below -1 exceed every row.
        if int((partners + 1).view(np.uint64).max(initial=0)) > self._member_rows[member]:
            raise self._damaged_error()
        return partners


def join_fingerprint(primary: JoinSide, members: Sequence[JoinSide]) -> str:
    """A digest of all inputs of a join: shards, keys, splits, and `nonmatch` of each side. 32 hex digits."""
    sides = [[digest_shards(side.index.shards), side.digest, side.nonmatch] for side in (primary, *members)]
    return blake2b(json.dumps([JOIN_VERSION, sides]).encode(), digest_size=16).hexdigest()


def write_join(path: str, fingerprint: str, primary: JoinSide, members: Sequence[JoinSide]) -> None:
    """Compute a join into a new file. Cost: about a second and 40 bytes of memory per million keys of the largest side.

    A sample that one member skips needs no partner in others. Raises DatasetError WDS608 if a member has a key twice,
    WDS607 if a key has no partner but needs one; StorageError and PermissionDenied if the file cannot be written.
    """
    count = int(primary.index.shard_row[-1])
    rows = np.sort(primary.rows())
    requested = len(rows)
    kept = np.zeros(count, np.bool_)
    kept[rows] = True
    begin, width = 16 + _HEADER_BYTES, _aligned(8 * count)
    with translate_os_errors(path), open(path, "x+b") as file:
        # Members that skip come first, since skipped samples need no partner in other members.
        for i in sorted(range(len(members)), key=lambda i: members[i].nonmatch != "skip"):
            rows = rows[kept[rows]]
            found = _table(members[i]).find(primary.index, rows)
            if members[i].nonmatch == "skip":
                kept[rows[found < 0]] = False
            elif members[i].nonmatch == "error" and (found < 0).any():
                raise _no_partner_error(primary, members[i], rows, found)
            _write_column(file, begin + i * width, rows, found)
        skipped = requested - int(np.count_nonzero(kept))
        end = begin + len(members) * width
        file.truncate(end)
        if skipped:
            file.seek(end)
            file.write(kept.tobytes())
        header = {"fingerprint": fingerprint, "rows": count, "members": len(members), "skipped": skipped}
        file.seek(0)
        file.write(JOIN_MAGIC + _HEADER_BYTES.to_bytes(8, "little"))
        file.write(json.dumps(header).encode().ljust(_HEADER_BYTES))
        append_checksums(file)


def _table(member: JoinSide) -> KeyTable:
    try:
        return KeyTable(member.index, member.rows())
    except DuplicateKey as error:
        shards = [member.index.shards[member.index.shard_of(row)].path for row in (error.first, error.second)]
        others = f", and {error.count - 1:,} more keys are not" * (error.count > 1)
        raise DatasetError(
            f"the key {member.index.key(error.first)!r} is not unique in a member of a join{others}",
            where=f"dataset {member.name}, shards {' and '.join(dict.fromkeys(shards))}",
            hint="join a split or dataset with unique keys; only the first member may have repeated keys",
            code="WDS608",
        ) from error


def _no_partner_error(primary: JoinSide, member: JoinSide, rows: Int64Array, partner_rows: Int64Array) -> DatasetError:
    missing = rows[partner_rows < 0]
    keys = ", ".join(repr(primary.index.key(row)) for row in missing[:MAX_NAMED_KEYS].tolist())
    more = ", ..." if len(missing) > MAX_NAMED_KEYS else ""
    return DatasetError(
        f"{len(missing):,} of {len(rows):,} samples of {primary.name} have no partner of the same key: {keys}{more}",
        where=f"dataset {member.name}",
        hint="set `nonmatch: skip` for this member to skip these samples, or `nonmatch: none` to get None for it",
        code="WDS607",
    )


def _write_column(file: BinaryIO, begin: int, rows: Int64Array, partner_rows: Int64Array) -> None:
    """Write the column of a member, block by block. Blocks without joined rows stay holes in the file."""
    at = 0
    while at < len(rows):
        first = int(rows[at])
        end = at + int(np.searchsorted(rows[at : at + WRITE_BLOCK_ROWS], first + WRITE_BLOCK_ROWS))
        block = np.zeros(int(rows[end - 1]) + 1 - first, "<i8")
        block[rows[at:end] - first] = partner_rows[at:end] + 1
        file.seek(begin + 8 * first)
        file.write(block.tobytes())
        at = end


def _damaged(path: str) -> CatalogError:
    return CatalogError(
        "the file of a join is damaged",
        where=path,
        hint="delete the file: wdsctl computes it again when it opens the join",
        code="WDS529",
    )


def _aligned(size: int) -> int:
    return size + -size % COLUMN_ALIGN_BYTES


JOINS_FOLDER = "joins"
MAX_FILES_PER_JOIN = 3
STALE_DRAFT_SECONDS = 86_400  # older drafts belong to no running process


def open_join(meta_folder: str, primary: JoinSide, members: Sequence[JoinSide]) -> JoinIndex:
    """Open the join of these datasets from its file, or compute it. `meta_folder`: the folder of the primary's catalog.

    Processes that compute the same join at the same time write the same file. Raises what `write_join` raises;
    PermissionDenied if neither folder can be written.
    """
    fingerprint = join_fingerprint(primary, members)
    sides = repr([(side.name, side.nonmatch) for side in (primary, *members)])
    join_name = blake2b(sides.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    name = f"{join_name}-{fingerprint}.bin"
    folders = [os.path.join(meta_folder, JOINS_FOLDER), _user_folder()]
    rows, *sizes = (int(side.index.shard_row[-1]) for side in (primary, *members))
    for folder in folders:
        found = _open_existing(os.path.join(folder, name), fingerprint, rows, sizes)
        if found is not None:
            return found
    path = _compute_join(folders, name, fingerprint, primary, members)
    return JoinIndex(path, fingerprint, rows, sizes)


def _open_existing(path: str, fingerprint: str, rows: int, members: Sequence[int]) -> JoinIndex | None:
    try:
        found = JoinIndex(path, fingerprint, rows, members)
    except (ValueError, KeyError, TypeError, InputError, StorageError, PermissionDenied, CatalogError):
        return None  # missing or damaged: it is computed again
    with suppress(OSError, InputError):
        touch(path)  # the most recently used files are removed last
    return found


def _compute_join(
    folders: Sequence[str], name: str, fingerprint: str, primary: JoinSide, members: Sequence[JoinSide]
) -> str:
    for i, folder in enumerate(folders):
        path = os.path.join(folder, name)
        try:
            make_folder(folder)
            with replace_atomically(path) as draft:
                write_join(draft, fingerprint, primary, members)
        except PermissionDenied as error:
            if i + 1 < len(folders):
                continue
            raise PermissionDenied(
                "cannot write a join: neither the folder of the catalog nor the user's cache is writable",
                where=folder,
                hint="set XDG_CACHE_HOME to a folder that you can write",
            ) from error
        _remove_stale(folder, name.partition("-")[0])
        return path
    raise InputError("no folder for the files of joins was passed", hint="pass at least one folder")


def _remove_stale(folder: str, name: str) -> None:
    """Remove older files of the same name, and unfinished drafts."""
    with suppress(OSError):
        entries = list(os.scandir(folder))
        same_name = sorted((e for e in entries if e.name.startswith(f"{name}-")), key=lambda e: -e.stat().st_mtime_ns)
        oldest = time.time() - STALE_DRAFT_SECONDS
        stale = [e for e in entries if e.name.endswith(".partial") and e.stat().st_mtime < oldest]
        for entry in (*same_name[MAX_FILES_PER_JOIN:], *stale):
            with suppress(OSError):
                remove_file(entry.path)


def _user_folder() -> str:
    return os.path.join(user_cache_folder(), JOINS_FOLDER)
