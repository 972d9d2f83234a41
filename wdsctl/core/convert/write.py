"""Write the units of a conversion that are missing in the destination."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from wdsctl.core.convert import exporters
from wdsctl.core.convert.exporters import Exporter, WrittenUnit
from wdsctl.core.convert.plan_file import PlanFile, PlannedUnit, UnitResult, UnitResultFile
from wdsctl.core.convert.request import ConvertRequest, ResolvedRequest
from wdsctl.core.convert.unit import UnitJob, UnitUpload, close_sources, unit_path, write_unit
from wdsctl.core.dataset.destination import check_written_file, move_unit_files, remove_partials, remove_path
from wdsctl.core.dataset.location import META_FOLDER, DatasetLocation, locate
from wdsctl.core.dataset.lock import check_lock_held
from wdsctl.core.directories import join_beneath
from wdsctl.core.errors import DatasetError
from wdsctl.core.files import make_folder, write_text
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.json_text import read_json
from wdsctl.core.progress import Progress
from wdsctl.core.storage.open import workers_for
from wdsctl.core.urls import is_url, redact_secrets

if TYPE_CHECKING:
    from wdsctl.core.storage.objects import ObjectStore

#: Exists while `finish_export` moves the files of finished units, for formats without a suffix, out of their folders.
UNFOLDING_MARKER_FILE = "unfolding"
UNIT_RESULTS_FILE = "units.sqlite"

_PRELOAD_MODULES = (
    "wdsctl.core.convert.unit",
    "wdsctl.core.importers.shards",
    "wdsctl.core.convert.exporters.shards",
)


def write_units(
    plan: PlanFile,
    resolved: ResolvedRequest,
    work: str,
    fingerprint: str,
    location: DatasetLocation,
    progress: Progress,
    check_writer: Callable[[], None],
) -> tuple[dict[int, UnitResult], int]:
    """Write the missing units; returns (results of all units by id, number of units that this run wrote).

    The number excludes units without samples, which have no file. `work`: the folder of the plan and of the results.
    `check_writer` raises if another machine writes to the destination in a store now.
    """
    units = plan.units()
    dest = location.root_to_write
    written = 0
    with UnitResultFile(os.path.join(work, UNIT_RESULTS_FILE), fingerprint) as results_file:
        # `finish_export` compares the sizes of all objects.
        is_folder_in_store = is_url(dest) and not exporters.get_exporter(resolved.request.target).suffix
        is_unfolding = os.path.exists(os.path.join(work, UNFOLDING_MARKER_FILE))
        earlier = results_file.all().items()
        remote = None if not is_url(dest) else _begin_remote(dest, units, location, work)
        present = None if remote is None else remote.present
        done = {
            number: each
            for number, each in earlier
            if is_unfolding or is_folder_in_store or _is_written(dest, units[number], each, present)
        }
        group_folders = {unit.folder for unit in units} if resolved.request.media else set()
        if remote is None:
            remove_partials(dest, {os.path.dirname(unit_path("", unit)) for unit in units} | group_folders)
        # Units of media come first: a sample whose media failed must not be in the primary.
        for stream, grouped in groupby(units, key=lambda unit: unit.stream):
            missing = [unit for unit in grouped if unit.id not in done]
            if not missing:
                continue
            jobs = list(_jobs(plan.path, missing, resolved, dest, done, units))
            if remote is not None:
                jobs = [job._replace(upload=remote.upload(job.unit, resolved.request)) for job in jobs]
            finished = run_units(
                write_unit,
                jobs,
                make_executor(workers_for(dest, workers_of(resolved)), _PRELOAD_MODULES),
                phase=f"write {stream}".rstrip(),
                progress=progress,
                size=lambda job: UnitSize(job.unit.samples, job.unit.size_bytes),
                reads=(plan.path, dest, *(spec.path for spec in resolved.sources)),
            )
            try:
                with closing(finished):
                    for each in finished:
                        check_lock_held(location.lock)
                        check_writer()
                        result = each.result()
                        if remote is None and result.samples:
                            check_written_file(unit_path(dest, each.unit.unit), result.size_bytes)
                        results_file.add(result)
                        done[each.unit.unit.id] = result._replace(
                            left_out_samples=()
                        )  # the file has those of all units
                        written += bool(result.samples)
            finally:
                close_sources()
    return done, written


def workers_of(resolved: ResolvedRequest) -> int:
    return min((workers_for(spec.path, resolved.request.workers) for spec in resolved.sources), default=1)


def _jobs(
    plan: str,
    units: Sequence[PlannedUnit],
    resolved: ResolvedRequest,
    dest: str,
    done: Mapping[int, UnitResult],
    all_units: Sequence[PlannedUnit],
) -> Iterator[UnitJob]:
    # A unit does not depend on these: another machine may have other CPUs.
    resolved = replace(resolved, request=replace(resolved.request, workers=1, wait=0.0), unchanged_numbers=())
    media = [done[unit.id] for unit in all_units if unit.stream == "media" and unit.id in done]
    left_out = sorted(position for result in media for position in result.left_out)
    as_is = sorted(position for result in media for position in result.as_is)
    for unit in units:
        if unit.stream != "primary":
            yield UnitJob(plan, unit, dest, resolved)
            continue
        in_unit = [tuple(p for p in positions if unit.first <= p <= unit.last) for positions in (left_out, as_is)]
        yield UnitJob(plan, unit, dest, resolved, left_out=in_unit[0], as_is=in_unit[1])


@dataclass(frozen=True, slots=True)
class _RemoteDestination:
    """A destination in a store. `present`: path -> bytes of its objects. `scans`: by dataset, the folder for scans."""

    root: str
    present: Mapping[str, int]
    spool: str
    journal: str
    scans: Mapping[str, str]

    def upload(self, unit: PlannedUnit, request: ConvertRequest) -> UnitUpload:
        return UnitUpload(self.spool, self.journal, self.scans[unit.dataset] if request.makes_datasets else "")


def _begin_remote(dest: str, units: Sequence[PlannedUnit], location: DatasetLocation, work: str) -> _RemoteDestination:
    """List a destination in a store, and remove what a killed run left: unfinished uploads, and files on the disk."""
    from wdsctl.core.dataset.remote_destination import list_objects
    from wdsctl.core.storage.objects import ObjectStore
    from wdsctl.core.storage.upload_journal import abort_left_uploads

    names = {unit_path("", unit) for unit in units}
    abort_left_uploads(ObjectStore(dest), location.upload_journal, names.__contains__)
    spool = os.path.join(work, "spool")
    remove_path(spool)
    make_folder(spool)
    datasets = {unit.dataset for unit in units}
    scans = {name: locate(join_beneath(dest, name).rstrip("/")).work_folder for name in datasets}
    return _RemoteDestination(dest, list_objects(dest), spool, location.upload_journal, scans)


def _is_written(dest: str, unit: PlannedUnit, result: UnitResult, present: Mapping[str, int] | None) -> bool:
    """Whether the file of a unit exists and has its size. A unit without samples has no file.

    `present`: path -> bytes of the objects in a store.
    """
    if not result.samples:
        return True
    if present is not None:
        return present.get(unit_path("", unit)) == result.size_bytes
    path = unit_path(dest, unit)
    return os.path.isdir(path) or (os.path.isfile(path) and os.path.getsize(path) == result.size_bytes)


def finish_export(
    units: Sequence[PlannedUnit], done: Mapping[int, UnitResult], resolved: ResolvedRequest, dest: str, work: str
) -> None:
    """Move the files of units that are folders into the destination, and write the files that all units share."""
    if resolved.request.media:
        return
    exporter = exporters.get_exporter(resolved.request.target)
    if not exporter.suffix and not is_url(dest):
        # From here on, files leave the folders of their units. The marker tells the next run that these are written.
        write_text(os.path.join(work, UNFOLDING_MARKER_FILE), "")
        for unit in units:
            move_unit_files(unit_path(dest, unit), join_beneath(dest, unit.folder))
    for folder, grouped in groupby(units, key=lambda unit: unit.folder):
        results = ((unit.name, done[unit.id]) for unit in grouped)
        written = [WrittenUnit(name, result.samples, result.size_bytes, result.facts) for name, result in results]
        if is_url(dest):
            _finish_remote(exporter, join_beneath(dest, folder).rstrip("/"), written, resolved, work)
        else:
            exporter.finish(os.path.join(dest, folder), written, dict(resolved.target_options))


def _finish_remote(
    exporter: Exporter, folder: str, written: Sequence[WrittenUnit], resolved: ResolvedRequest, work: str
) -> None:
    """Write the files that all units share to a disk, and upload them."""
    from wdsctl.core.storage.objects import ObjectStore

    store = ObjectStore(folder)
    pieces = [f"{folder}/{name}" for each in written if (name := read_json(each.facts).get("lines"))]
    if not exporter.suffix:
        _check_stored_files(store, written)
    local = os.path.join(work, "shared")
    remove_path(local)
    make_folder(local)
    if all(_fetch_piece(store, url, local) for url in pieces):  # else a killed run has joined the pieces already
        exporter.finish(local, written, dict(resolved.target_options))
        for name in sorted(os.listdir(local)):
            store.put_file(os.path.join(local, name), f"{folder}/{name}")
    store.delete(pieces)


def _fetch_piece(store: ObjectStore, url: str, folder: str) -> bool:
    """Copy an object into a local folder, if it exists."""
    from wdsctl.core.storage.objects import download

    found = store.stat(url)
    if found is not None:
        download([found], os.path.join(folder, os.path.basename(url)))
    return found is not None


def _check_stored_files(store: ObjectStore, written: Sequence[WrittenUnit]) -> None:
    """Raise DatasetError WDS237 if the store has fewer bytes than the units: two parts had one name, or some are gone.

    A store replaces an object that has the name of another one, without an error.
    """
    facts = [read_json(each.facts) for each in written]
    expected = sum(each.size_bytes - known.get("line_bytes", 0) for each, known in zip(written, facts, strict=True))
    others = {known.get(name, "") for known in facts for name in ("rows_file", "lines")}
    found = {each.url.removeprefix(f"{store.root}/"): each.size for each in store.list(store.root)}
    size = sum(found[name] for name in found.keys() - others if not name.startswith(f"{META_FOLDER}/"))
    if size != expected:
        raise DatasetError(
            f"the destination has {size:,} bytes instead of {expected:,}: two parts had the same name, or another "
            "program changed objects",
            hint="choose `--to parquet` or `--to mds`, which have no names of files; or another DEST",
            where=redact_secrets(store.root),
            code="WDS237",
        )
