"""The unit of work of `repair`: check one shard, and write a fixed copy if the shard is broken."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from glob import escape, glob
from hashlib import blake2b
from itertools import count
from typing import Any, Literal

import numpy as np

from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.files import fsync_path, link_or_copy, remove_file, replace_atomically
from wdsctl.core.job_results import EncodedResult, ResultFolder
from wdsctl.core.repair.fixes import Fixes
from wdsctl.core.repair.jsonl import repair_lines
from wdsctl.core.repair.members import ShardMember, find_missing, is_same_shard, members_of_scan, read_indexed_members
from wdsctl.core.repair.salvage import TAR_RECORD_BYTES
from wdsctl.core.repair.tar import plan_tar, repaired_tar_chunks
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.readers import BlockReader
from wdsctl.core.shards.scan_unit import scan_file
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.shards.tar_members import ReadBytes
from wdsctl.core.storage.open import storage_for
from wdsctl.core.tar_header import END_OF_ARCHIVE, detect_compression
from wdsctl.core.text import join_with_and, pluralize
from wdsctl.core.urls import is_url

REPAIR_FORMAT_VERSION = 5  # raise it when fixed copies change, so that `repair` replaces earlier copies

#: Findings of a scan that a fixed copy does not have.
REPAIRABLE_CODES = frozenset(("WDS101", "WDS102", "WDS103", "WDS104", "WDS105", "WDS107", "WDS114", "WDS117"))
#: Findings of a scan that remain in a fixed copy, and in the report.
_REMAINING_CODES = frozenset(("WDS110", "WDS113", "WDS116", "WDS118", "WDS120", "WDS126"))

_MIN_USUAL_SAMPLES = 3  # with this many samples, the last one needs the parts that all others have
_WRITE_BUFFER_BYTES = 4 << 20

RepairOutcome = Literal["sound", "fixed", "copied", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """One call of `repair`.

    `dest`: the folder for copies; empty for `in_place`. `all_shards`: copy intact shards too. `backup`: keep the
    original of a shard that is repaired in place. `encoding`: of JSONL lines that are not UTF-8; if empty, such lines
    are left out. `wait`: seconds to wait for another writer.
    """

    dest: str = ""
    in_place: bool = False
    all_shards: bool = False
    backup: bool = True
    encoding: str = ""
    wait: float = 0.0
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairUnit:
    """One shard to repair.

    `target`: the path of the copy; in place, that of the shard itself. `row`: the shard's row in the catalog, if any.
    `offsets_path`: the offsets file with the members of the shard; empty if there is none. `dest`: the folder or URL
    of the copies. `journal`: the local folder of unfinished uploads, if `dest` is a URL.
    """

    root: str
    shard: ShardFile
    target: str
    request: RepairRequest
    row: ShardRow | None = None
    offsets_path: str = ""
    dest: str = ""
    journal: str = ""

    @property
    def source(self) -> str:
        return os.path.join(self.root, self.shard.path)

    @property
    def label(self) -> str:
        """The path of the shard, for messages."""
        return self.shard.path


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedShard:
    """The result for one shard. `became`: "lost" if nothing could be saved. `fixes`: how often each was applied.

    `left`: remaining problems. `lost`: names of members that the index or the shard has, but not the copy; `line N`
    for JSONL. `samples`: the number in the fixed copy. `error`: the code, if reading or writing the shard failed.
    """

    shard: str
    became: RepairOutcome
    fixes: dict[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    samples: int = 0
    size_bytes: int = 0  # of the shard
    backup: str = ""
    error: str = ""


def repair_shard(unit: RepairUnit) -> RepairedShard:
    """Repair one shard, reproducibly. Returns a result even if reading or writing the shard fails."""
    try:
        return _repair(unit)
    except (StorageError, PermissionDenied) as error:
        message = f"{error.message} ({error.where})" if error.where else error.message
        return RepairedShard(
            shard=unit.shard.path, became="lost", left=(message,), size_bytes=unit.shard.size, error=error.code
        )


def _repair(unit: RepairUnit) -> RepairedShard:
    fixes = Fixes()
    with closing(storage_for(unit.root, {unit.source: unit.shard.size})) as storage:
        read: ReadBytes = partial(storage.read, unit.source)
        if is_url(unit.root):
            read = BlockReader(storage, unit.source, unit.shard.size).read
        samples, chunks = (_repair_jsonl if is_jsonl_name(unit.shard.path) else _repair_tar)(unit, read, fixes)
        is_broken = bool(fixes.counts)
        result = RepairedShard(
            shard=unit.shard.path,
            became="sound" if not is_broken else "fixed",
            fixes=dict(sorted(fixes.counts.items())),
            left=(*fixes.problem_messages(), *_describe_lost_samples(unit, samples, fixes)),
            lost=tuple(fixes.lost_members),
            samples=samples if is_broken else 0,
            size_bytes=unit.shard.size,
        )
        if chunks is None:
            return replace(result, became="lost")
        if is_broken:
            return result if unit.request.dry_run else _write_repaired(unit, chunks, result)
        if not unit.request.all_shards or unit.request.in_place:
            return result
        if not unit.request.dry_run:
            size = unit.shard.size
            starts = range(0, size, _WRITE_BUFFER_BYTES)
            _write(unit, (storage.read(unit.source, i, min(_WRITE_BUFFER_BYTES, size - i)) for i in starts))
        return replace(result, became="copied")


def _repair_tar(unit: RepairUnit, read: ReadBytes, fixes: Fixes) -> tuple[int, Iterator[bytes] | None]:
    """Return the number of samples in the copy, and its bytes; None if no copy is possible.

    `fixes` stays empty if the shard is intact.
    """
    scan = scan_file(unit.root, unit.shard)
    if scan.status == "unreadable":
        raise StorageError(
            scan.findings[0].message,
            hint="check the disk for errors, and run repair again",
            where=unit.source,
            code=scan.findings[0].code,
        )
    fixes.remaining_problems += [
        f"{each.message} ({each.code}, {pluralize(each.count, 'time')})"
        for each in scan.findings
        if each.code in _REMAINING_CODES
    ]
    is_broken = any(finding.code in REPAIRABLE_CODES for finding in scan.findings)
    known: list[ShardMember] = []
    if unit.row is not None and unit.offsets_path:
        if not is_broken and scan.layout_hash() == unit.row.layout_hash:
            return 0, iter(())
        known = read_indexed_members(unit.offsets_path, unit.row.id)
    if not is_broken and not _has_lost_members(unit, scan, known, fixes):
        return 0, iter(())
    if detect_compression(read(0, min(6, unit.shard.size))):
        fixes.remaining_problems.append("the shard is compressed: decompress it before repair")
        return 0, None
    salvaged, groups = plan_tar(read, unit.shard.size, fixes, known)
    samples = sum(bool(group.key) for group in groups)
    return samples, repaired_tar_chunks(salvaged, groups) if samples else None


def _has_lost_members(unit: RepairUnit, scan: ShardScan, known_members: Sequence[ShardMember], fixes: Fixes) -> bool:
    """Whether an intact shard is the indexed one, and lacks members that were indexed.

    `repair` reports a shard that was rewritten without some members, but does not change it.
    """
    if not known_members:
        fixes.remaining_problems += _describe_doubtful_end(scan, unit.shard.size)
        return False
    present = members_of_scan(scan)
    missing = find_missing(known_members, present) if is_same_shard(known_members, present) else []
    is_rewritten = unit.row is None or unit.shard.size != unit.row.size
    if missing and is_rewritten:
        fixes.lost_members += [each.name for each in missing]
        fixes.remaining_problems.append(
            "the shard changed after it was indexed and lacks members; if the change is intended, run `wdsctl index`"
        )
    return bool(missing) and not is_rewritten


def _describe_doubtful_end(scan: ShardScan, size: int) -> list[str]:
    """Describe why the zeros after the last member may replace members.

    They are too many to end an archive, or the last sample lacks parts that all others have.
    """
    zeros = size - int(scan.offsets[-1] + scan.sizes[-1]) if scan.samples else 0
    if zeros > len(END_OF_ARCHIVE) and (size % TAR_RECORD_BYTES or zeros >= len(END_OF_ARCHIVE) + TAR_RECORD_BYTES):
        return [f"the shard ends with {zeros:,} zero bytes, more than an archive needs: they may replace lost members"]
    if scan.samples < _MIN_USUAL_SAMPLES or zeros <= len(END_OF_ARCHIVE):
        return []
    last = scan.part_names[-int(scan.counts[-1]) :]
    others = np.bincount(scan.part_names[: -len(last)], minlength=len(scan.extensions)) >= scan.samples - 1
    others[last] = False
    parts = [scan.extensions[i] for i in np.flatnonzero(others)]
    key = scan.decode_keys(slice(scan.samples - 1, scan.samples))[0]
    message = (
        f"zeros follow the last sample, {key}, which lacks {join_with_and(parts)}: all other samples have these parts"
    )
    return [message] if parts else []


def _repair_jsonl(unit: RepairUnit, read: ReadBytes, fixes: Fixes) -> tuple[int, Iterator[bytes] | None]:
    encoding = unit.request.encoding
    samples = sum(1 for _ in repair_lines(read, unit.shard.size, fixes, encoding))
    if not samples:
        fixes.remaining_problems.append("no line is a JSON object")
        return 0, None
    return samples, repair_lines(read, unit.shard.size, Fixes(), encoding)


def _describe_lost_samples(unit: RepairUnit, samples: int, fixes: Fixes) -> list[str]:
    """Describe missing samples by number, if members cannot be compared one by one."""
    regrouped = fixes.counts["keys regrouped"]  # the catalog counts each fragment as a sample
    if unit.row is None or unit.offsets_path or not fixes.counts or samples + regrouped >= unit.row.samples:
        return []
    return [f"{samples:,} of {pluralize(unit.row.samples, 'indexed sample')} remain"]


def _write_repaired(unit: RepairUnit, chunks: Iterator[bytes], result: RepairedShard) -> RepairedShard:
    if unit.target != unit.source:
        _write(unit, chunks)
        return result
    backup = _unused_backup_path(unit.source) if unit.request.backup else ""
    mode = os.stat(unit.source).st_mode & 0o7777
    remove_drafts(unit.source)
    with replace_atomically(unit.source) as draft:
        _fill(draft, chunks, mode)
        fsync_path(draft)
        if backup:
            # A hard link, so that the shard exists even if the process is killed at this moment.
            link_or_copy(unit.source, backup)
        if _stat(unit.source) != [unit.shard.size, unit.shard.mtime_ns]:
            raise StorageError(
                "the shard changed during the repair, so repair did not replace it",
                hint="run repair again when no other process writes to the shard",
                where=unit.source,
                code="WDS202",
            )
    return replace(result, backup=os.path.relpath(backup, unit.root) if backup else "")


def _unused_backup_path(path: str) -> str:
    """`SHARD.bak`, or the first of `SHARD.bak-2`, `SHARD.bak-3`... that does not exist."""
    names = (f"{path}.bak" if number == 1 else f"{path}.bak-{number}" for number in count(1))
    return next(name for name in names if not os.path.lexists(name))


def _write(unit: RepairUnit, chunks: Iterator[bytes]) -> None:
    if is_url(unit.target):
        from wdsctl.core.storage.objects import ObjectStore
        from wdsctl.core.storage.upload_journal import journaled_upload

        with journaled_upload(ObjectStore(unit.dest), unit.target, unit.journal) as upload:
            for chunk in chunks:
                upload.write(chunk)
            upload.finish()
        return
    remove_drafts(unit.target)
    with replace_atomically(unit.target) as draft:
        _fill(draft, chunks)


def remove_drafts(target: str) -> None:
    """Remove drafts of a killed run next to the target. The caller must hold the lock of the folder."""
    folder, name = os.path.split(target)
    for path in glob(os.path.join(escape(folder), f".{escape(name)}.*.partial")):
        remove_file(path)


def _fill(draft: str, chunks: Iterator[bytes], mode: int | None = None) -> None:
    with open(draft, "xb", buffering=_WRITE_BUFFER_BYTES) as file:
        file.writelines(chunks)
        if mode is not None:
            os.fchmod(file.fileno(), mode)


def repair_results(folder: str) -> ResultFolder[RepairUnit, RepairedShard]:
    """Store the results of shards whose copies were written. A result is valid until its copy changes."""
    return ResultFolder(folder, _result_name, _encode_result, _decode_result)


def _result_name(unit: RepairUnit) -> str:
    shard, row = unit.shard, unit.row
    facts = [REPAIR_FORMAT_VERSION, shard.path, shard.size, shard.mtime_ns, unit.request.encoding]
    facts += [bool(unit.offsets_path), *(("", -1, 0) if row is None else (row.layout_hash, row.size, row.samples))]
    return blake2b(repr(facts).encode(), digest_size=16).hexdigest()


def _encode_result(unit: RepairUnit, result: RepairedShard) -> EncodedResult | None:
    if result.became not in ("fixed", "copied"):
        return None
    return asdict(result) | {"stat": _stat_target(unit)}, []


def _decode_result(unit: RepairUnit, facts: Mapping[str, Any], _data: memoryview) -> RepairedShard:
    saved = dict(facts)
    if saved.pop("stat") != _stat_target(unit):
        raise ValueError("the copy is missing or has changed")
    return RepairedShard(**(saved | {name: tuple(saved[name]) for name in ("left", "lost")}))


def _stat_target(unit: RepairUnit) -> list[int] | None:
    """Return the size of a copy, and its time or what stands for it in a store; None if there is no copy."""
    if not is_url(unit.target):
        return _stat(unit.target)
    from wdsctl.core.storage.objects import ObjectStore

    found = ObjectStore(unit.dest).stat(unit.target)
    return None if found is None else [found.size, found.number]


def _stat(path: str) -> list[int] | None:
    with suppress(OSError):
        stat = os.stat(path)
        return [stat.st_size, stat.st_mtime_ns]
    return None
