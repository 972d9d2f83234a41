"""The unit of work of `repair`: one shard, looked at, and a fixed copy written where it is broken."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from glob import escape, glob
from hashlib import blake2b
from itertools import count
from typing import Any, Literal

import numpy as np

from wdsctl.core.block_reader import BlockReader
from wdsctl.core.counted import counted, enumerated
from wdsctl.core.errors import PermissionDenied, StorageError
from wdsctl.core.files import keep_as, remove_file, replacing, sync, write_text
from wdsctl.core.json_text import read_json
from wdsctl.core.line_files import is_lines
from wdsctl.core.members import Read
from wdsctl.core.repairs.fixes import Fixes
from wdsctl.core.repairs.indexed import Member, indexed_members, is_of_this, missing, scanned_members
from wdsctl.core.repairs.line_repair import repaired_lines
from wdsctl.core.repairs.salvage import RECORD
from wdsctl.core.repairs.tar_repair import plan_tar, tar_bytes
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.stores import storage_for
from wdsctl.core.tar import compression
from wdsctl.core.tar_header import END
from wdsctl.core.units import ShardFile, scan_file
from wdsctl.core.urls import is_url

FORMAT = 4  # raise it when a fixed copy becomes another one: copies made before are then made again

#: What a scan finds that a fixed copy does not have.
MENDED = frozenset(("WDS101", "WDS102", "WDS103", "WDS104", "WDS105", "WDS107", "WDS114", "WDS117"))
#: What it finds that stays, and that the user should know of when the copy is taken for sound.
_STAYS = frozenset(("WDS110", "WDS113", "WDS116", "WDS118", "WDS120", "WDS126"))

_SEVERAL = 3  # samples from which on what all but the last have is no accident
_GATHER = 4 << 20  # bytes written at a time

Became = Literal["sound", "fixed", "copied", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairUnit:
    """`target`: where the copy goes; the shard itself, where it is repaired in place. `marks`: the folder in which
    finished work is noted; empty where there is none. `is_dry`: write nothing.
    `offsets`: the offsets file that knows the shard by `shard_id`, with `indexed_as` for its layout and `indexed_size`
    for its bytes; empty where none does. `indexed_samples`: those that the catalog counts in it.
    """

    root: str
    shard: ShardFile
    target: str
    marks: str = ""
    encoding: str = ""
    copies_sound: bool = False
    keeps_backup: bool = True
    is_dry: bool = False
    offsets: str = ""
    shard_id: int = 0
    indexed_as: str = ""
    indexed_size: int = -1
    indexed_samples: int = 0

    @property
    def source(self) -> str:
        return os.path.join(self.root, self.shard.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedShard:
    """`became`: "lost" where nothing of it could be saved. `fixes`: what was done, in words, and how often.

    `left`: what is wrong still, or was lost. `lost`: the names of members that were indexed, or stand in the shard, and
    are not in what is left of it; of files of lines `line N`. `samples`: those that a fixed copy has.
    """

    shard: str
    became: Became
    fixes: dict[str, int] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    samples: int = 0
    size_bytes: int = 0  # of the shard
    backup: str = ""
    error: str = ""  # the code, where it could not be read or written


def repair_shard(unit: RepairUnit) -> RepairedShard:
    """Repair one shard. One that cannot be read or written is a result, too. The same input gives the same bytes."""
    try:
        return _finished(unit) or _repaired(unit)
    except (StorageError, PermissionDenied) as error:
        words = f"{error.message} ({error.where})" if error.where else error.message
        return RepairedShard(
            shard=unit.shard.path, became="lost", left=(words,), size_bytes=unit.shard.size, error=error.code
        )


def _repaired(unit: RepairUnit) -> RepairedShard:
    fixes = Fixes()
    storage = storage_for(unit.root, {unit.source: unit.shard.size})
    read: Read = (
        BlockReader(storage, unit.source, unit.shard.size).read
        if is_url(unit.root)
        else partial(storage.read, unit.source)
    )
    try:
        samples, pieces = (_lines if is_lines(unit.shard.path) else _tar)(unit, read, fixes)
        is_broken = bool(fixes.counts)
        result = RepairedShard(
            shard=unit.shard.path,
            became="sound" if not is_broken else "fixed",
            fixes=dict(sorted(fixes.counts.items())),
            left=(*fixes.told(), *_fewer(unit, samples, fixes)),
            lost=tuple(fixes.lost),
            samples=samples if is_broken else 0,
            size_bytes=unit.shard.size,
        )
        if pieces is None:
            return replace(result, became="lost")
        if not is_broken:
            return _copied(unit, result)
        if unit.is_dry:
            return result
        return _noted(unit, _written(unit, pieces, result))
    finally:
        storage.close()


def _tar(unit: RepairUnit, read: Read, fixes: Fixes) -> tuple[int, Iterator[bytes] | None]:
    """The samples of the copy and its bytes, None where none can be made; nothing is found wrong of a shard that is
    sound."""
    scan = scan_file(unit.root, unit.shard)
    if scan.status == "unreadable":
        raise StorageError(
            scan.findings[0].message, hint="check the disk", where=unit.source, code=scan.findings[0].code
        )
    fixes.left += _staying(scan)
    is_broken = any(finding.code in MENDED for finding in scan.findings)
    if not is_broken and unit.offsets and scan.layout_hash() == unit.indexed_as:
        return 0, iter(())
    known = indexed_members(unit.offsets, unit.shard_id) if unit.offsets else []
    if not is_broken and not _is_less(unit, scan, known, fixes):
        return 0, iter(())
    if compression(read(0, min(6, unit.shard.size))):
        fixes.left.append("it is compressed: decompress it first")
        return 0, None
    found, groups = plan_tar(read, unit.shard.size, fixes, known)
    samples = sum(bool(group.key) for group in groups)
    return samples, tar_bytes(found, groups) if samples else None


def _is_less(unit: RepairUnit, scan: ShardScan, known: Sequence[Member], fixes: Fixes) -> bool:
    """Whether a shard in which nothing is wrong is the one that was indexed, and lacks members that it had then.

    One that was written again since, and lacks some, is told of and stays as it is.
    """
    if not known:
        fixes.left += _end_in_doubt(scan, unit.shard.size)
        return False
    there = scanned_members(scan)
    gone = missing(known, there) if is_of_this(known, there) else []
    if gone and unit.shard.size != unit.indexed_size:
        fixes.lost += [each.name for each in gone]
        fixes.left.append(
            "the shard was rewritten after it was indexed, and lacks members; if that is intended, run `wdsctl index`"
        )
    return bool(gone) and unit.shard.size == unit.indexed_size


def _end_in_doubt(scan: ShardScan, size: int) -> list[str]:
    """Why members may have stood where zeros are behind the last one: they are more than end an archive, or the last
    sample lacks what all others have.
    """
    zeros = size - int(scan.offsets[-1] + scan.sizes[-1]) if scan.samples else 0
    if zeros > len(END) and (size % RECORD or zeros >= len(END) + RECORD):
        return [
            f"the shard ends with {zeros:,} bytes of zeros, more than an archive needs: members may have been there"
        ]
    if scan.samples < _SEVERAL or zeros <= len(END):
        return []
    last = scan.part_names[-int(scan.counts[-1]) :]
    others = np.bincount(scan.part_names[: -len(last)], minlength=len(scan.extensions)) >= scan.samples - 1
    others[last] = False
    parts = [scan.extensions[i] for i in np.flatnonzero(others)]
    key = scan.key_list(slice(scan.samples - 1, scan.samples))[0]
    words = f"the last sample, {key}, lacks {enumerated(parts)}, which all others have, and is followed by zeros"
    return [words] if parts else []


def _lines(unit: RepairUnit, read: Read, fixes: Fixes) -> tuple[int, Iterator[bytes] | None]:
    kept = sum(1 for _ in repaired_lines(read, unit.shard.size, fixes, unit.encoding))
    if not kept:
        fixes.left.append("none of its lines is a JSON object")
        return 0, None
    return kept, repaired_lines(read, unit.shard.size, Fixes(), unit.encoding)


def _fewer(unit: RepairUnit, samples: int, fixes: Fixes) -> list[str]:
    """Where members are not compared one by one, at least their samples are counted."""
    together = fixes.counts["keys regrouped"]  # the catalog counts the halves of a sample
    if unit.offsets or not fixes.counts or samples + together >= unit.indexed_samples:
        return []
    return [f"{samples:,} of {counted(unit.indexed_samples, 'indexed sample')} are left"]


def _staying(scan: ShardScan) -> list[str]:
    return [
        f"{each.message} ({each.code}, {counted(each.count, 'time')})" for each in scan.findings if each.code in _STAYS
    ]


def _copied(unit: RepairUnit, result: RepairedShard) -> RepairedShard:
    """A sound shard stays where it is, unless all are asked for."""
    if not unit.copies_sound:
        return result
    if not unit.is_dry:
        storage = storage_for(unit.root, {unit.source: unit.shard.size})
        try:
            _write(unit.target, _all_of(partial(storage.read, unit.source), unit.shard.size))
        finally:
            storage.close()
    return _noted(unit, replace(result, became="copied"))


def _all_of(read: Read, size: int) -> Iterator[bytes]:
    return (read(at, min(_GATHER, size - at)) for at in range(0, size, _GATHER))


def _written(unit: RepairUnit, pieces: Iterator[bytes], result: RepairedShard) -> RepairedShard:
    if unit.target != unit.source:
        _write(unit.target, pieces)
        return result
    backup = _backup_name(unit.source) if unit.keeps_backup else ""
    mode = os.stat(unit.source).st_mode & 0o7777
    forget_drafts(unit.source)
    with replacing(unit.source) as draft:
        _fill(draft, pieces, mode)
        sync(draft)
        if backup:
            keep_as(unit.source, backup)  # a second name, so that the shard is never missing, whenever this is killed
        if _stat(unit.source) != [unit.shard.size, unit.shard.mtime_ns]:
            raise StorageError(
                "it has changed while it was repaired, and stays as it is",
                hint="repair it again when nothing writes to it",
                where=unit.source,
                code="WDS202",
            )
    return replace(result, backup=os.path.relpath(backup, unit.root) if backup else "")


def _backup_name(path: str) -> str:
    """`SHARD.bak`, or the first that is free of `SHARD.bak-2` and on."""
    names = (f"{path}.bak" if number == 1 else f"{path}.bak-{number}" for number in count(1))
    return next(name for name in names if not os.path.lexists(name))


def _write(target: str, pieces: Iterator[bytes]) -> None:
    forget_drafts(target)
    with replacing(target) as draft:
        _fill(draft, pieces)


def forget_drafts(target: str) -> None:
    """Remove what a run that was killed has left beside the target. For a caller that is alone in the folder."""
    folder, name = os.path.split(target)
    for path in glob(os.path.join(escape(folder), f".{escape(name)}.*.partial")):
        remove_file(path)


def _fill(draft: str, pieces: Iterator[bytes], mode: int | None = None) -> None:
    with open(draft, "xb", buffering=_GATHER) as file:
        file.writelines(pieces)
        if mode is not None:
            os.fchmod(file.fileno(), mode)


def _finished(unit: RepairUnit) -> RepairedShard | None:
    """What an earlier run made of this very shard, if the copy that it wrote is still there."""
    if not unit.marks or not os.path.exists(path := _mark(unit)):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            noted: dict[str, Any] = read_json(file.read())
        if noted.pop("stat") != _stat(unit.target):
            return None
        return RepairedShard(**(noted | {name: tuple(noted[name]) for name in ("left", "lost")}))
    except (OSError, ValueError, TypeError, KeyError):
        return None  # a mark that is damaged marks nothing


def _noted(unit: RepairUnit, result: RepairedShard) -> RepairedShard:
    if unit.marks and not unit.is_dry:
        write_text(_mark(unit), json.dumps({**asdict(result), "stat": _stat(unit.target)}))
    return result


def _mark(unit: RepairUnit) -> str:
    told = [FORMAT, unit.shard.path, unit.shard.size, unit.shard.mtime_ns, unit.encoding]
    told += [bool(unit.offsets), unit.indexed_as, unit.indexed_size, unit.indexed_samples]
    return os.path.join(unit.marks, blake2b(repr(told).encode(), digest_size=16).hexdigest() + ".json")


def _stat(path: str) -> list[int] | None:
    with suppress(OSError):
        stat = os.stat(path)
        return [stat.st_size, stat.st_mtime_ns]
    return None
