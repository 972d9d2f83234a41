"""The unit of work of `index`: one shard scanned, its result in a file, which a run that goes on after a kill finds.

Units are named after path, size and time of the shard, so neither the number of workers nor the order matters.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b

from wdsctl.core.block_reader import FIRST, BlockReader
from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.hashing_reader import HashingReader
from wdsctl.core.line_files import is_lines
from wdsctl.core.line_keys import NUMBERS, LineKeys
from wdsctl.core.lines import scan_lines
from wdsctl.core.saved_scan import SUFFIX, save_scans
from wdsctl.core.scan import scan_shard
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.stores import storage_for
from wdsctl.core.urls import is_url

BATCH, BATCH_BYTES = 32, 4 << 20  # shards, and bytes, that are scanned together at most
_QUICK_BYTES = 1 << 29  # of lines: found in a fifth of a second
_MOST_THREADS = 4  # of one file of lines: three that read keep the one that searches busy

FORMAT = 5  # raise it when the result of a scan changes: old units are then scanned again


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
    result: str  # the file for its result, and those of others that are scanned with it
    keys: LineKeys = NUMBERS  # of a file of lines
    hashed: bool = False  # read all of the shard, and hash it
    threads: int = 1  # that one file of lines may take

    @property
    def name(self) -> str:
        return os.path.basename(self.result)


def scan_unit(root: str, shard: ShardFile, work: str, keys: LineKeys = NUMBERS, *, hashed: bool = False) -> ScanUnit:
    """The unit that scans `shard`, its result in the folder `work`."""
    told = f"{FORMAT}\0{shard.path}\0{shard.size}\0{shard.mtime_ns}"
    if is_lines(shard.path):
        told += f"\0{keys.is_alone}\0{keys.field}"
    if hashed:
        told += "\0hashed"
    result = os.path.join(work, blake2b(told.encode(), digest_size=16).hexdigest() + SUFFIX)
    return ScanUnit(root, shard, result, keys, hashed)


def run_scans(units: Sequence[ScanUnit]) -> str:
    """Scan shards, one after the other, and save the results where the first one's go; returns where.

    A shard that cannot be read is a result, too. Small ones come together: telling each to a process, and writing a
    file of each, costs more than to scan it. The layout hash is worked out here: whoever folds the results of many
    workers has enough to do.
    """
    scans = ((unit.name, _scan(unit)) for unit in units)
    save_scans({name: replace(scan, layout=scan.layout_hash()) for name, scan in scans}, units[0].result)
    return units[0].result


def scan_here(units: Sequence[ScanUnit]) -> list[ShardScan]:
    """What `run_scans` saves, for a caller in the same process, who need not load it. It is saved all the same: a run
    that goes on after a kill finds it.
    """
    scans = {unit.name: _scan(unit) for unit in units}
    save_scans(scans, units[0].result)
    return list(scans.values())


def _scan(unit: ScanUnit) -> ShardScan:
    return scan_file(unit.root, unit.shard, unit.keys, hashed=unit.hashed, threads=unit.threads)


def batched(units: Sequence[ScanUnit], workers: int) -> list[tuple[int, int]]:
    """(first, end) of runs of neighbours that are scanned together: large shards alone, many small ones by the dozen.

    Few shards are better spread.
    """
    most = min(BATCH, len(units) // (4 * workers))
    runs: list[tuple[int, int]] = []
    first = size = 0
    for i, unit in enumerate(units):
        if i > first and (size + unit.shard.size > BATCH_BYTES or i - first >= most):
            runs.append((first, i))
            first, size = i, 0
        size += unit.shard.size
    return [*runs, (first, len(units))] if units else []


def are_quick(units: Sequence[ScanUnit]) -> bool:
    """Whether it takes one thread no longer to find the lines in all of these than others need to get under way."""
    size = sum(unit.shard.size for unit in units)
    return size < _QUICK_BYTES and all(
        is_lines(unit.shard.path) and not (unit.hashed or unit.keys.field or is_url(unit.root)) for unit in units
    )


def helpers(workers: int, runs: int) -> int:
    """How many threads each file of lines takes: where there are fewer runs than workers, these help, up to four."""
    return min(_MOST_THREADS, max(1, workers // max(1, runs)))


def scan_file(
    root: str, shard: ShardFile, keys: LineKeys = NUMBERS, *, hashed: bool = False, threads: int = 1
) -> ShardScan:
    """Scan one shard; one that cannot be read is a result, too. `hashed`: read all of it, for its SHA-256.

    `threads`: how many a file of lines on a disk may take, unless it is hashed, which goes from front to back.
    """
    path = os.path.join(root, shard.path)
    storage = storage_for(root)
    blocks = BlockReader(storage, path, shard.size)
    # A small tar is read at once: to ask for its end again takes longer than to look at it.
    in_blocks = is_url(root) or (shard.size <= FIRST and not is_lines(shard.path))
    read = blocks.read if in_blocks else partial(storage.read, path)
    hashing = HashingReader(read, shard.size) if hashed else None
    read = hashing.read if hashing else read
    try:
        if is_lines(shard.path):
            most = 1 if hashed or is_url(root) else threads
            scan = scan_lines(shard.path, read, shard.size, keys, threads=most)
        else:
            scan = scan_shard(shard.path, read, shard.size)
        return replace(scan, sha256=hashing.hexdigest()) if hashing else scan
    except (StorageError, PermissionDenied) as error:
        finding = Finding(code=error.code, severity="error", message=error.message, shard=shard.path)
        empty = scan_shard(shard.path, lambda _offset, _size: b"", 0)
        return replace(empty, status="unreadable", findings=(finding,))
    finally:
        storage.close()
