"""Scan one shard as a unit of a job (`wdsctl/core/jobs.py`).

A result is named after the path, size and modification time of its shard, so that neither the number of workers nor the
order of shards matters.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

from wdsctl.core.dataset.shard_names import ShardFormat, is_jsonl_name, shard_format
from wdsctl.core.errors import Finding, PermissionDenied, StorageError
from wdsctl.core.job_results import ResultFolder
from wdsctl.core.jobs import BatchLimits
from wdsctl.core.shards.in_place.errors import UNSUPPORTED_CODE, ShardFormatError
from wdsctl.core.shards.in_place.kinds import IN_PLACE_FORMATS, INDEX_FILE
from wdsctl.core.shards.in_place.table_scan import bad_scan
from wdsctl.core.shards.jsonl_keys import LINE_NUMBER_KEYS, JsonlKeyRule
from wdsctl.core.shards.jsonl_scan import scan_jsonl
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.readers import FIRST_FETCH_BYTES, BlockReader, HashingReader, ReadBytes, read_small_file
from wdsctl.core.shards.shard_scan import ShardScan, decode_scan, encode_scan
from wdsctl.core.shards.tar_scan import scan_tar
from wdsctl.core.storage.open import check_unchanged, storage_for
from wdsctl.core.storage.storage import Storage
from wdsctl.core.urls import is_url

SCAN_BATCH = BatchLimits(32, 4 << 20)
_QUICK_BYTES = 1 << 29  # bytes of JSONL that one thread scans in 0.2 s
_MAX_FILE_THREADS = 4  # threads for one JSONL file: three that read keep the one that searches busy

SCAN_FORMAT_VERSION = 7  # raise it when the result of a scan changes, so that shards are scanned again


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Options for the scan of every shard of a dataset. Carries options of a command to the reader."""

    key_rule: JsonlKeyRule = LINE_NUMBER_KEYS  # for JSONL files
    with_sha256: bool = False  # read each shard to its end and hash it


DEFAULT_SCAN = ScanOptions()


@dataclass(frozen=True, slots=True)
class ScanUnit:
    """A shard to scan. `with_layout_hash`: the worker computes the hash, which leaves less work to the merge."""

    root: str
    shard: ShardFile
    options: ScanOptions = DEFAULT_SCAN
    threads: int = 1  # for one JSONL file
    with_layout_hash: bool = False

    @property
    def label(self) -> str:
        """The path of the shard, for messages."""
        return self.shard.path


def scan_results(folder: str) -> ResultFolder[ScanUnit, ShardScan]:
    """Return the folder of scan results.

    A result depends neither on the location of the dataset nor on the number of threads.
    """
    return ResultFolder(folder, _result_name, encode_scan, _decode_scan)


def _result_name(unit: ScanUnit) -> str:
    shard = unit.shard
    facts = f"{SCAN_FORMAT_VERSION}\0{shard.path}\0{shard.size}\0{shard.mtime_ns}"
    if is_jsonl_name(shard.path):
        facts += f"\0{unit.options.key_rule.is_single_file}\0{unit.options.key_rule.field}"
    form = shard_format(shard.path)
    if form in IN_PLACE_FORMATS and IN_PLACE_FORMATS[form].needs_index:
        facts += f"\0{_index_stamp(unit.root, shard.path)}"
    if unit.options.with_sha256:
        facts += "\0hashed"
    return blake2b(facts.encode(), digest_size=16).hexdigest()


def _index_stamp(root: str, shard: str) -> str:
    """What changes with the index.json that the scan of this shard reads: size and time, or size in a store."""
    path = os.path.join(root, os.path.dirname(shard), INDEX_FILE)
    with suppress(OSError):
        if not is_url(root):
            status = os.stat(path)
            return f"{status.st_size} {status.st_mtime_ns}"
    return ""


def _decode_scan(unit: ScanUnit, facts: Mapping[str, Any], data: memoryview) -> ShardScan:
    """Decode a scan and compare it with the size of the shard.

    Raises ValueError if a part ends after the end of the shard. A valid checksum of the result file does not rule this
    out: a program that can write the file can compute its checksum.
    """
    scan = decode_scan(facts, data)
    largest = max(int(scan.part_offsets.max(initial=0)), int(scan.part_sizes.max(initial=0)))  # their sum may overflow
    end = max(largest, int((scan.part_offsets + scan.part_sizes).max(initial=0)))
    if end > unit.shard.size:
        raise ValueError(end)
    return scan


def run_scan_unit(unit: ScanUnit) -> ShardScan:
    """Scan a shard. If the shard cannot be read, the result is a scan with the status `unreadable`."""
    scan = scan_file(unit.root, unit.shard, unit.options, threads=unit.threads)
    return replace(scan, known_layout_hash=scan.layout_hash()) if unit.with_layout_hash else scan


def are_quick_scans(root: str, shards: Sequence[ShardFile], options: ScanOptions) -> bool:
    """Whether one thread finds all lines in these files before worker processes would have started."""
    return (
        sum(shard.size for shard in shards) < _QUICK_BYTES
        and all(is_jsonl_name(shard.path) for shard in shards)
        and not (options.with_sha256 or options.key_rule.field or is_url(root))
    )


def threads_per_file(workers: int, batches: int) -> int:
    """Return the number of threads for each JSONL file: idle workers help, up to four threads a file."""
    return min(_MAX_FILE_THREADS, max(1, workers // max(1, batches)))


ReadSibling = Callable[[str], bytes | None]


def _read_sibling(storage: Storage, shard_path: str, name: str) -> bytes | None:
    return read_small_file(storage, f"{shard_path.rpartition('/')[0]}/{name}")


def scan_in_place(form: ShardFormat, shard: str, read: ReadBytes, size: int, read_sibling: ReadSibling) -> ShardScan:
    """Scan a shard of `size` bytes in a format read in place. Findings name it `shard`. Raises only what `read` raises.

    `read_sibling`: reads a file of the shard's folder; None if there is none. A damaged shard, and one that cannot be
    read in place, has the status `bad` and a finding that says why; or `unreadable` if its index may be the reason, so
    that the next run of `index` scans it again.
    """
    known = IN_PLACE_FORMATS[form]
    module, function = known.scanner
    scan: Any = getattr(importlib.import_module(f"wdsctl.core.shards.in_place.{module}"), function)
    try:
        result: ShardScan = scan(shard, read, size, read_sibling) if known.needs_index else scan(shard, read, size)
    except ShardFormatError as error:
        message = error.message
        if error.code == UNSUPPORTED_CODE:
            message += f": it cannot be read in place; `{known.copy_command}` copies the samples into tars"
        finding = Finding(code=error.code, severity="error", message=message, shard=shard)
        return bad_scan(finding, "unreadable" if known.needs_index else "bad")
    return result


def scan_file(root: str, shard: ShardFile, options: ScanOptions = DEFAULT_SCAN, *, threads: int = 1) -> ShardScan:
    """Scan one shard. If the shard cannot be read, the result is a scan with the status `unreadable`.

    `threads`: the most threads for a JSONL file on a disk. A file that is hashed takes one thread, because the hash
    needs the bytes from front to back; so does a remote file.
    """
    path = os.path.join(root, shard.path)
    storage = storage_for(root)
    blocks = BlockReader(storage, path, shard.size)
    # Read a small tar in one request: a second request for its end takes longer than reading all of it.
    in_blocks = is_url(root) or (shard.size <= FIRST_FETCH_BYTES and not is_jsonl_name(shard.path))
    form = shard_format(shard.path)
    read = blocks.read if in_blocks else partial(storage.read, path)
    hashing = HashingReader(read, shard.size) if options.with_sha256 else None
    read = hashing.read if hashing else read
    try:
        if is_jsonl_name(shard.path):
            most = 1 if options.with_sha256 or is_url(root) else threads
            scan = scan_jsonl(shard.path, read, shard.size, options.key_rule, threads=most)
        elif form in IN_PLACE_FORMATS:
            scan = scan_in_place(form, shard.path, read, shard.size, partial(_read_sibling, storage, path))
        else:
            scan = scan_tar(shard.path, read, shard.size)
        if is_url(root) and shard.size > FIRST_FETCH_BYTES:  # read in more than one request
            check_unchanged(storage, path, shard.mtime_ns)
        return replace(scan, sha256=hashing.hexdigest()) if hashing else scan
    except (StorageError, PermissionDenied) as error:
        finding = Finding(code=error.code, severity="error", message=error.message, shard=shard.path)
        empty = scan_tar(shard.path, lambda _offset, _size: b"", 0)
        return replace(empty, status="unreadable", findings=(finding,))
    finally:
        storage.close()
