"""`repair`: fixed copies of broken shards, of all that can be fixed without guessing."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.quick import refuse_media_folder
from wdsctl.core.catalog.shard_row import MISSING, ShardRow
from wdsctl.core.convert.paths import check_empty
from wdsctl.core.counted import counted
from wdsctl.core.dataset_yaml import read
from wdsctl.core.errors import CatalogError, StorageError, UsageError
from wdsctl.core.files import make_folder, write_text
from wdsctl.core.findings import Finding
from wdsctl.core.line_files import is_lines
from wdsctl.core.lock import locked
from wdsctl.core.offsets import Offsets
from wdsctl.core.parallel import map_units
from wdsctl.core.place import META, Place, locate
from wdsctl.core.printable import one_line
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.repairs.indexed import indexed_members
from wdsctl.core.repairs.unit import RepairedShard, RepairUnit, repair_shard
from wdsctl.core.shard_list import list_shards
from wdsctl.core.stores import workers_for
from wdsctl.core.units import ShardFile
from wdsctl.core.urls import is_url, plain
from wdsctl.core.verbs.nested_datasets import check_not_in_dataset
from wdsctl.core.verbs.presence import no_shards

_SHOWN = 8  # names of what is missing, in a sentence
_MARKS = "repair"  # the folder below our own in DEST


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """`dest`: the folder of the copies; empty for in place. `encoding`: of lines that are not UTF-8; empty: leave them
    out. `all_shards`: copy sound shards, too. `backup`: of what is repaired in place, keep what was there.
    """

    dest: str = ""
    in_place: bool = False
    all_shards: bool = False
    backup: bool = True
    encoding: str = ""
    wait: float = 0.0  # seconds, for another wdsctl that writes there
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """`repaired`: every shard that is not sound, was copied, or lacks something. `beyond_repair`: shards of which
    nothing could be saved. `lost_members`: names in `repaired[].lost`, over all shards. `findings`: what could not be
    repaired (WDS157), and once a shard what is missing from it now (WDS130).
    """

    root: str
    dest: str
    shards: int
    sound: int
    fixed: int
    beyond_repair: int
    lost_members: int
    copied: int
    repaired: tuple[RepairedShard, ...]
    findings: tuple[Finding, ...]
    dry_run: bool
    seconds: float


def repair(
    root: str,
    request: RepairRequest,
    *,
    catalog: str | None = None,
    workers: int = 1,
    progress: Progress = SILENT,
) -> RepairReport:
    """Write fixed copies of the broken shards below `root`. It needs no catalog; where there is one, every member that
    it knows of and that is not in a copy, or in a shard that seems sound, is named.

    Nothing in `root` changes, unless in place is asked for. A run that was killed goes on where it was. Raises
    UsageError where it does not say where to, InputError where there are no shards, PermissionDenied and StorageError
    where nothing can be written.
    """
    started = time.monotonic()
    place = locate(root, catalog)
    dest = _dest(place, request)
    shards, rows, offsets = _shards(place)
    units = [_unit(place, shard, rows.get(shard.path), offsets, dest, request) for shard in shards]
    with ExitStack() as held:
        if request.in_place and not request.dry_run and os.path.isdir(place.meta):
            held.enter_context(locked(place.lock, wait=request.wait, note=progress.note))
        if not request.in_place and not request.dry_run:
            marks = os.path.join(dest, META, _MARKS)
            _check_ours(dest, marks)
            held.enter_context(locked(os.path.join(dest, META, "lock"), wait=request.wait, note=progress.note))
            _check_ours(dest, marks)  # whoever was waited for may have left something
            make_folder(marks)
            _carry_config(place, dest)
        results = _run(units, workers_for(place.root, workers), progress)
    results += _gone(place, shards, rows, offsets)
    results.sort(key=lambda each: each.shard)
    became = Counter(each.became for each in results)
    return RepairReport(
        root=place.shown,
        dest=dest,
        shards=len(shards),
        sound=became["sound"],
        fixed=became["fixed"],
        beyond_repair=became["lost"],
        lost_members=sum(len(each.lost) for each in results),
        copied=became["copied"],
        repaired=tuple(each for each in results if each.became != "sound" or each.left or each.lost),
        findings=tuple(_findings(results)),
        dry_run=request.dry_run,
        seconds=time.monotonic() - started,
    )


def _check_ours(dest: str, marks: str) -> None:
    """Nothing that we have not written ourselves is replaced."""
    if not os.path.isdir(marks):
        check_empty(dest)


def _run(units: Sequence[RepairUnit], workers: int, progress: Progress) -> list[RepairedShard]:
    progress.phase("repair", items=len(units), size_bytes=sum(unit.shard.size for unit in units))
    results = []
    for i, result in map_units(repair_shard, units, workers, preload=("wdsctl.core.repairs.unit",)):
        progress.advance(items=1, size_bytes=units[i].shard.size)
        results.append(result)
    return results


def _dest(place: Place, request: RepairRequest) -> str:
    """Where copies go, as an absolute path. Raises UsageError where that is nowhere, or in what is read."""
    if request.in_place == bool(request.dest):
        raise UsageError(
            "say where the fixed copies go" if not request.dest else "a DEST and --in-place exclude each other",
            hint="`wdsctl repair ROOT DEST`; or `--in-place --yes`, which replaces the shards themselves",
        )
    if request.in_place:
        if is_url(place.root):
            raise UsageError("shards at a URL are not repaired in place", hint="give a DEST on a disk")
        return place.written
    dest = plain(request.dest)
    if is_url(dest):
        raise UsageError("copies are written to a disk or a mounted file system, not to a URL", hint="give a folder")
    dest = os.path.abspath(dest)
    real, root = os.path.realpath(dest), place.root if is_url(place.root) else os.path.realpath(place.root)
    if os.path.exists(dest) and not os.path.isdir(dest):
        raise UsageError("DEST is a file", hint="give a folder, which may be new")
    meets = real == root if place.only else _is_below(real, root) or _is_below(root, real)
    if not is_url(root) and meets:
        raise UsageError(
            "DEST lies in ROOT, or ROOT in DEST: copies and shards would be one dataset",
            hint="give another folder; or `--in-place --yes`",
        )
    check_not_in_dataset(real)
    return real


def _is_below(folder: str, other: str) -> bool:
    """Whether `folder` is `other`, or lies in it."""
    return f"{folder}/".startswith(f"{other}/")


def _shards(place: Place) -> tuple[Sequence[ShardFile], dict[str, ShardRow], str]:
    """All shards, but for those that the catalog leaves out; what it knows of them, by path; and its offsets file.

    A catalog that cannot be used leaves out none, and knows of none.
    """
    exclude: tuple[str, ...] = ()
    rows: list[ShardRow] = []
    offsets = ""
    try:
        if os.path.exists(place.catalog):
            refuse_media_folder(place.catalog)
            with Catalog(place.catalog) as published:
                exclude, rows, offsets = published.exclude(), published.shards(), place.offsets(published.generation)
            Offsets(offsets)
    except (CatalogError, StorageError):
        offsets = ""
    listing = list_shards(place.root, exclude, only=place.only, known=[row.path for row in rows])
    if not listing.shards:
        raise no_shards(place)
    return listing.shards, {row.path: row for row in rows if row.status not in (MISSING, "unreadable")}, offsets


def _unit(
    place: Place, shard: ShardFile, row: ShardRow | None, offsets: str, dest: str, request: RepairRequest
) -> RepairUnit:
    unit = RepairUnit(
        root=place.written if request.in_place else place.root,
        shard=shard,
        target=os.path.join(dest, shard.path),
        marks="" if request.in_place else os.path.join(dest, META, _MARKS),
        encoding=request.encoding,
        copies_sound=request.all_shards and not request.in_place,
        keeps_backup=request.backup,
        is_dry=request.dry_run,
    )
    if row is None:
        return unit
    return replace(
        unit,
        offsets=offsets if not is_lines(shard.path) else "",
        shard_id=row.id,
        indexed_as=row.layout_hash,
        indexed_size=row.size,
        indexed_samples=row.samples,
    )


def _gone(place: Place, shards: Sequence[ShardFile], rows: Mapping[str, ShardRow], offsets: str) -> list[RepairedShard]:
    """The indexed shards whose files are not there, with the names of all that they had.

    Where as many new files of their size are there as are gone, they have another name now, and nothing is missing.
    """
    if place.only:
        return []
    there = {shard.path for shard in shards}
    new = Counter(shard.size for shard in shards if shard.path not in rows)
    gone = [row for path, row in rows.items() if path not in there]
    of_size = Counter(row.size for row in gone)
    found = []
    for row in gone:
        if new[row.size] >= of_size[row.size]:
            continue
        if is_lines(row.path):
            lost = [f"line {number}" for number in range(1, row.samples + 1)]
        else:
            lost = [each.name for each in indexed_members(offsets, row.id)] if offsets else []
        words = f"the file is gone, with {counted(row.samples, 'sample')} that were indexed"
        found.append(
            RepairedShard(
                shard=row.path, became="lost", left=(words,), lost=tuple(lost), size_bytes=row.size, error="WDS130"
            )
        )
    return found


def _carry_config(place: Place, dest: str) -> None:
    """What people have written of the dataset goes with it, unless something is there."""
    target = os.path.join(dest, META, "dataset.yaml")
    if os.path.exists(place.dataset_yaml) and not os.path.exists(target):
        write_text(target, read(place.dataset_yaml))


def _findings(results: Sequence[RepairedShard]) -> Iterator[Finding]:
    for each in results:
        for words in each.left:
            yield Finding(
                code=each.error or "WDS157",
                severity="error" if each.became == "lost" else "warning",
                message=words,
                shard=each.shard,
            )
        if each.lost:
            said = "lines" if is_lines(each.shard) else "members"
            yield Finding(
                code="WDS130",
                severity="error",
                message=f"{said} that are missing now: {_listed(each.lost)}",
                shard=each.shard,
                count=len(each.lost),
            )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more (--json names them all)" if len(names) > _SHOWN else ""
    return ", ".join(map(one_line, names[:_SHOWN])) + more
