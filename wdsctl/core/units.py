"""The unit of work of `index`: one shard scanned, its result a file, which a run that goes on after a kill finds again.

Units are named after path, size and time of the shard, so neither the number of workers nor the order matters.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.block_reader import BlockReader
from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.files import write_whole
from wdsctl.core.findings import Finding
from wdsctl.core.hashing_reader import HashingReader
from wdsctl.core.line_files import is_lines
from wdsctl.core.line_keys import NUMBERS, LineKeys
from wdsctl.core.lines import scan_lines
from wdsctl.core.os_errors import translated
from wdsctl.core.scan import scan_shard
from wdsctl.core.shard_scan import ShardScan, as_bytes
from wdsctl.core.stores import storage_for
from wdsctl.core.urls import is_url

BATCH, BATCH_BYTES = 32, 4 << 20  # shards, and bytes, that are scanned together at most

FORMAT = 3  # raise it when the result of a scan changes: old units are then scanned again

_CHECK = 4  # bytes at the start of a unit's file: the CRC-32 of the rest
_COLUMNS = ("key_sizes", "offsets", "sizes", "counts", "part_names", "part_offsets", "part_sizes")


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard as a listing of the folder shows it. `path` is relative to the root, with `/`."""

    path: str
    size: int  # bytes
    mtime_ns: int  # in a store that is not mounted, a number that stands for its content
    readable: bool = True


@dataclass(frozen=True, slots=True)
class ScanUnit:
    root: str
    shard: ShardFile
    result: str  # where the result goes
    keys: LineKeys = NUMBERS  # of a file of lines
    hashed: bool = False  # read all of the shard, and hash it

    @property
    def is_done(self) -> bool:
        return os.path.exists(self.result)


def scan_unit(root: str, shard: ShardFile, work: str, keys: LineKeys = NUMBERS, *, hashed: bool = False) -> ScanUnit:
    """The unit that scans `shard`, its result in the folder `work`."""
    told = f"{FORMAT}\0{shard.path}\0{shard.size}\0{shard.mtime_ns}"
    if is_lines(shard.path):
        told += f"\0{keys.is_alone}\0{keys.field}"
    if hashed:
        told += "\0hashed"
    result = os.path.join(work, blake2b(told.encode(), digest_size=16).hexdigest() + ".scan")
    return ScanUnit(root, shard, result, keys, hashed)


def run_scan(unit: ScanUnit) -> str:
    """Scan one shard and save the result; returns where. A shard that cannot be read is a result, too."""
    save_scan(scan_file(unit.root, unit.shard, unit.keys, hashed=unit.hashed), unit.result)
    return unit.result


def run_scans(units: Sequence[ScanUnit]) -> list[str]:
    """`run_scan` of several shards, one after the other: of small ones, telling each to a process costs more."""
    return [run_scan(unit) for unit in units]


def batched(units: Sequence[ScanUnit], workers: int) -> list[tuple[int, int]]:
    """(first, end) of runs of neighbours that are scanned together: large shards alone, many small ones by the dozen.

    One worker gains nothing by it, and few shards are better spread.
    """
    most = min(BATCH, len(units) // (4 * workers)) if workers > 1 else 1
    runs: list[tuple[int, int]] = []
    first = size = 0
    for i, unit in enumerate(units):
        if i > first and (size + unit.shard.size > BATCH_BYTES or i - first >= most):
            runs.append((first, i))
            first, size = i, 0
        size += unit.shard.size
    return [*runs, (first, len(units))] if units else []


def scan_file(root: str, shard: ShardFile, keys: LineKeys = NUMBERS, *, hashed: bool = False) -> ShardScan:
    """Scan one shard; one that cannot be read is a result, too. `hashed`: read all of it, for its SHA-256."""
    path = os.path.join(root, shard.path)
    storage = storage_for(root)
    blocks = BlockReader(storage, path, shard.size)
    read = blocks.read if is_url(root) else partial(storage.read, path)
    hashing = HashingReader(read, shard.size) if hashed else None
    read = hashing.read if hashing else read
    try:
        lines = is_lines(shard.path)
        scan = scan_lines(shard.path, read, shard.size, keys) if lines else scan_shard(shard.path, read, shard.size)
        return replace(scan, sha256=hashing.hexdigest()) if hashing else scan
    except (StorageError, PermissionDenied) as error:
        finding = Finding(code=error.code, severity="error", message=error.message, shard=shard.path)
        empty = scan_shard(shard.path, lambda _offset, _size: b"", 0)
        return replace(empty, status="unreadable", findings=(finding,))
    finally:
        storage.close()


def save_scan(scan: ShardScan, path: str) -> None:
    arrays: dict[str, NDArray[Any]] = {name: getattr(scan, name) for name in _COLUMNS}
    arrays["keys"] = np.frombuffer(scan.keys, np.uint8)
    facts = {
        "status": scan.status,
        "extensions": scan.extensions,
        "sha256": scan.sha256,
        "findings": [asdict(finding) for finding in scan.findings],
        "columns": [[name, array.dtype.str, len(array)] for name, array in arrays.items()],
    }
    head = json.dumps(facts).encode()
    pieces: list[bytes | memoryview] = [len(head).to_bytes(8, "little"), head, *map(as_bytes, arrays.values())]
    check = 0
    for piece in pieces:
        check = crc32(piece, check)
    write_whole(path, lambda file: file.writelines([check.to_bytes(_CHECK, "little"), *pieces]), durable=False)


def load_scan(path: str) -> ShardScan | None:
    """A saved scan; None where the file was damaged (its machine went down before it was written out)."""
    with translated(path, "read"), open(path, "rb") as file:
        check, data = file.read(_CHECK), file.read()
    if crc32(data).to_bytes(_CHECK, "little") != check or len(data) < 8:
        return None
    at = 8 + int.from_bytes(data[:8], "little")
    facts = json.loads(data[8:at])
    columns: dict[str, NDArray[Any]] = {}
    for name, dtype, count in facts["columns"]:
        columns[name] = np.frombuffer(data, dtype, count, at)
        at += columns[name].nbytes
    return ShardScan(
        status=facts["status"],
        keys=columns.pop("keys").tobytes(),
        extensions=tuple(facts["extensions"]),
        findings=tuple(Finding(**finding) for finding in facts["findings"]),
        sha256=facts["sha256"],
        **columns,
    )
