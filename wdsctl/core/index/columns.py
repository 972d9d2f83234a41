"""Update columns: one number per sample, computed shard by shard on an executor, in one file per generation.

Like `index`, it reads only new and changed shards, resumes after a kill, and publishes a column whole or not at all.
`plan_columns` decides which columns to compute and which values to reuse, `compute_columns` runs the units,
`finish_column` writes the file, whose format is in `wdsctl/core/columns/column_file.py`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.columns.column_file import (
    SHARD_DIGEST_BYTES,
    ColumnFacts,
    ColumnFile,
    ColumnShard,
    check_column_name,
    column_path,
    digest_shards,
    list_columns,
    no_column_error,
    write_column,
)
from wdsctl.core.columns.compute import (
    ColumnTask,
    ColumnUnit,
    ComputedValues,
    column_results,
    compute_values,
    failed_name,
    part_sizes,
    run_column_unit,
    save_column_values,
)
from wdsctl.core.columns.spec import (
    MEDIA_NUMBERS,
    ColumnSpec,
    check_spec_part,
    digest_source,
    import_from,
    load_column_function,
    parse_column_spec,
)
from wdsctl.core.dataset.location import DatasetLocation, data_folders, quote_shell_word
from wdsctl.core.dataset.lock import after_publication, check_lock_held
from wdsctl.core.errors import Finding, StorageError, UsageError
from wdsctl.core.files import remove_empty_folder, remove_file, remove_tree
from wdsctl.core.import_guard import dataset_import_error, find_module_origin, is_within
from wdsctl.core.index.merge import KEPT_GENERATIONS
from wdsctl.core.index.report import (
    ColumnReport,
    has_changed_function,
    outdated_finding,
    read_column_or_finding,
    report_column,
)
from wdsctl.core.index.request import ColumnRequest
from wdsctl.core.job_results import ResultFolder
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import Progress
from wdsctl.core.storage.open import workers_for

COLUMN_FORMAT_VERSION = 1  # raise it if a change of the code changes values: all columns are then computed again


@dataclass(slots=True)
class ColumnJob:
    """A column to compute. `shard_digests`: for each shard, the digest of the inputs of its values."""

    name: str
    spec: ColumnSpec
    source: str
    parts: tuple[str, ...] | None  # those that the function declares
    generation: int
    zero_on_error: bool
    is_requested: bool  # in this run, not only in an earlier one
    shard_digests: list[bytes]
    #: Shard digest -> existing values: (column file, first row, index of the shard in the file).
    known_values: dict[bytes, tuple[ColumnFile, int, int]]
    current_facts: ColumnFacts | None = None  # of the column's file, if it is up to date
    shards_read: int = 0

    def results(self, location: DatasetLocation) -> ResultFolder[str, ComputedValues]:
        return column_results(units_folder(location, self.name))

    def digest(self, shard_index: int) -> str:
        return self.shard_digests[shard_index].hex()

    def has_values(self, shard: int) -> bool:
        """Whether the values of a shard can be reused. A requested column computes shards with failed samples again."""
        found = self.known_values.get(self.shard_digests[shard])
        return found is not None and not (self.is_requested and int(found[0].table[found[2], 2]))


def plan_columns(
    dataset: OpenDataset,
    generation: int,
    request: ColumnRequest,
    shards: Sequence[ShardRow],
    offsets: Offsets,
    *,
    from_scratch: bool,
) -> tuple[list[ColumnJob], list[ColumnReport], list[Finding]]:
    """Decide which columns to compute: (jobs, reports of all other columns, findings).

    Columns of user functions that this run does not request are reported as current or outdated, never computed.
    """
    location = dataset.location
    jobs, reports, findings = [], [], []
    kept = list_columns(location)
    named = digest_shards(offsets.shards)
    for name in sorted({*request.functions, *kept}):
        files = [column_path(location, name, each) for each in reversed(kept.get(name, []))]
        read = [read_column_or_finding(path) for path in files]
        columns = [each for each in read if isinstance(each, ColumnFile)]
        text = request.functions.get(name)
        if text is None and not columns:
            findings += [each for each in read if isinstance(each, Finding)]
            continue
        spec = parse_column_spec(columns[0].facts.function if text is None else text)
        source = digest_source(spec) if text is not None else columns[0].facts.source
        if text is not None and from_scratch:
            remove_tree(units_folder(location, name))
        is_new = from_scratch and (text is not None or spec.is_built_in)
        media_digests: dict[int, bytes] | None = {}
        if spec.kind == "media":
            catalog = dataset.catalog
            media_digests = catalog.media_reader.shard_digests() if catalog.has_media_facts else None
        marks = [column_shard_digest(spec, source, row, (media_digests or {}).get(row.id, b"")) for row in shards]
        job = ColumnJob(
            name=name,
            spec=spec,
            source=source,
            parts=_declared_parts(spec) if text is not None else columns[0].facts.parts,
            generation=generation,
            zero_on_error=request.on_error == "zero" if text is not None else columns[0].facts.zero,
            is_requested=text is not None,
            shard_digests=marks,
            known_values={} if is_new else _known_values(columns),
        )
        current = next((column for column in columns if column.facts.generation == generation), None)
        if (
            current is not None
            and not is_new
            and current.facts.shards == named
            and current.shard_digests.tobytes() == b"".join(marks)
        ):
            job.current_facts = current.facts if all(map(job.has_values, range(len(marks)))) else None
        if text is not None or (spec.is_built_in and media_digests is not None):
            jobs.append(job)
        elif job.current_facts is not None and has_changed_function(job.current_facts):
            reports.append(report_column(job.current_facts, "outdated"))
            findings.append(outdated_finding(location, job.current_facts, "the file of its function has changed"))
        elif job.current_facts is not None:
            reports.append(report_column(job.current_facts, "current"))
        else:
            reports.append(report_column(columns[0].facts, "outdated"))
            findings.append(outdated_finding(location, columns[0].facts))
    return jobs, reports, findings


def _declared_parts(spec: ColumnSpec) -> tuple[str, ...] | None:
    parts = None if spec.is_built_in else load_column_function(spec).parts
    return None if parts is None else tuple(sorted(parts))


def _known_values(columns: Sequence[ColumnFile]) -> dict[bytes, tuple[ColumnFile, int, int]]:
    """Shard digest -> existing values, from files in the order newest first; the newest values win."""
    held: dict[bytes, tuple[ColumnFile, int, int]] = {}
    for column in columns:
        text, row = column.shard_digests.tobytes(), 0
        for i, (_, samples, _) in enumerate(column.table.tolist()):
            held.setdefault(text[SHARD_DIGEST_BYTES * i : SHARD_DIGEST_BYTES * (i + 1)], (column, row, i))
            row += samples
    return held


def column_shard_digest(spec: ColumnSpec, source: str, row: ShardRow, media_digest: bytes = b"") -> bytes:
    """A digest of all inputs of a shard's values: the function and the shard's layout.

    If the function reads shards, the digest includes the path, size and mtime of the shard. `media_digest`: for a
    column of media facts, the digest of the shard's facts.
    """
    content = f"{row.path}\0{row.size}\0{row.mtime_ns}\0" if spec.reads_shards else ""
    return blake2b(
        f"{COLUMN_FORMAT_VERSION}\0{spec.text}\0{source}\0{content}{row.layout_hash}".encode("utf-8", "surrogatepass")
        + media_digest,
        digest_size=SHARD_DIGEST_BYTES,
    ).digest()


def units_folder(location: DatasetLocation, name: str) -> str:
    return os.path.join(location.columns_folder, "units", name)


def compute_columns(
    location: DatasetLocation,
    offsets: Offsets,
    shards: Sequence[ShardRow],
    jobs: Sequence[ColumnJob],
    workers: int,
    progress: Progress,
) -> tuple[dict[str, int], list[Finding]]:
    """Compute the missing values of all columns, reading each shard once.

    Returns (column -> number of samples without a value, findings).
    """
    todo = [job for job in jobs if job.spec.reads_shards and job.current_facts is None]
    units = []
    for i, row in enumerate(shards):
        tasks = tuple(
            ColumnTask(
                job.name, job.spec, units_folder(location, job.name), job.digest(i), zero_if_failed=job.zero_on_error
            )
            for job in todo
            if row.samples and not job.has_values(i) and not os.path.exists(job.results(location).path(job.digest(i)))
        )
        if tasks:
            units.append(ColumnUnit(location.root, location.offsets_path(offsets.generation), i, tasks))
    failed: dict[str, int] = {}
    findings: list[Finding] = []
    notes: dict[str, list[Finding]] = {}  # column -> notes, at most one a shard
    by_name = {job.name: job for job in todo}
    executor = make_executor(workers, ("wdsctl.core.columns.compute",))
    # Other machines send the values: they may not see the folders of the results.
    fn: Callable[[ColumnUnit], Sequence[Any]] = run_column_unit if executor.shares_files else compute_values
    finished = run_units(
        fn,
        units,
        executor,
        phase="column",
        progress=progress,
        size=lambda unit: UnitSize(1, shards[unit.shard].size),
        reads=(location.root, location.offsets_path(offsets.generation)),
    )
    with closing(finished):
        for each in finished:
            found = each.result()
            for outcome in found if executor.shares_files else save_column_values(each.unit, found):
                by_name[outcome.name].shards_read += 1
                for finding in outcome.findings:
                    if finding.severity == "note":
                        notes.setdefault(outcome.name, []).append(finding)
                    else:
                        findings.append(finding)
                if not outcome.is_saved:
                    failed[outcome.name] = failed.get(outcome.name, 0) + outcome.failed_count
    for name, found_notes in notes.items():
        if len(found_notes) == by_name[name].shards_read:  # true of every shard
            findings.append(replace(found_notes[0], count=sum(note.count for note in found_notes)))
    return failed, findings


def finish_column(
    dataset: OpenDataset,
    offsets: Offsets,
    shards: Sequence[ShardRow],
    job: ColumnJob,
    failed: int,
    progress: Progress,
) -> ColumnReport:
    """Write the column's file if every sample has a value; otherwise report the column as incomplete."""
    if job.current_facts is not None:
        return report_column(job.current_facts, "current")
    location = dataset.location
    facts = ColumnFacts(
        name=job.name,
        function=job.spec.text,
        source=job.source,
        parts=job.parts,
        generation=job.generation,
        shards=digest_shards(offsets.shards),
        zero=job.zero_on_error,
    )
    if failed:
        none = report_column(facts, "incomplete")
        return replace(none, generation=None, failed=failed, shards_read=job.shards_read)
    progress.phase("finish")
    path = column_path(location, job.name, job.generation)
    written = write_column(path, facts, _pieces(dataset, offsets, shards, job))
    after_publication(location, partial(remove_tree, units_folder(location, job.name)))
    return replace(report_column(written, "made"), shards_read=job.shards_read)


def _pieces(
    dataset: OpenDataset, offsets: Offsets, shards: Sequence[ShardRow], job: ColumnJob
) -> Iterator[ColumnShard]:
    for i, row in enumerate(shards):
        computed = _load_shard_values(dataset, offsets, row, job, i)
        yield ColumnShard(row.id, job.shard_digests[i], computed.failed_count, computed.values)
    check_lock_held(dataset.location.lock)


def _load_shard_values(
    dataset: OpenDataset, offsets: Offsets, row: ShardRow, job: ColumnJob, shard_index: int
) -> ComputedValues:
    """The values of one shard: from the catalog or offsets, from an earlier column file, or from the unit's result.

    If the result of the unit is damaged, the values are computed again. Raises StorageError if that fails.
    """
    location = dataset.location
    rows = slice(int(offsets.shard_row[shard_index]), int(offsets.shard_row[shard_index + 1]))
    if job.spec.kind == "media":
        return _media_values(dataset.catalog, row, job.spec)
    if not job.spec.reads_shards or not row.samples:
        return ComputedValues(part_sizes(offsets, rows, job.spec.part_or_module), 0, ())
    if job.has_values(shard_index):
        column, first, at = job.known_values[job.shard_digests[shard_index]]
        return ComputedValues(column.values[first : first + row.samples], int(column.table[at, 2]), ())
    results, digest = job.results(location), job.digest(shard_index)
    computed = results.load(digest if os.path.exists(results.path(digest)) else failed_name(digest))
    if computed is not None and len(computed.values) == row.samples:
        return computed
    task = ColumnTask(job.name, job.spec, results.folder, digest, zero_if_failed=job.zero_on_error)
    [computed] = compute_values(
        ColumnUnit(location.root, location.offsets_path(offsets.generation), shard_index, (task,))
    )
    if len(computed.values) != row.samples:
        first_of_all = computed.findings[0]
        raise StorageError(
            f"the values of a shard are damaged and cannot be recomputed: {first_of_all.message}",
            where=row.path,
            hint="run the same command again: finished work is kept",
        )
    return computed


def _media_values(catalog: Catalog, row: ShardRow, spec: ColumnSpec) -> ComputedValues:
    """One media fact for all samples of a shard, from the catalog: of the first part that has it; 0 if none has."""
    values, has_fact = np.zeros(row.samples, np.int64), np.zeros(row.samples, bool)
    for part in reversed(spec.parts):  # the first part is written last
        found = catalog.media_reader.numbers(row.id, part, MEDIA_NUMBERS[spec.path[0]])
        if found:
            rows, numbers = np.array(found, np.int64).T
            values[rows] = np.maximum(numbers, 0)
            has_fact[rows] = True
    return ComputedValues(values, row.samples - int(has_fact.sum()), ())


def _find_samples_without_value(report: ColumnReport, spec: ColumnSpec, samples_with_part: int) -> list[Finding]:
    """The warning that a new column has 0 for samples without the fact or the part; none if all have it."""
    if spec.kind == "media":
        code, count, lacking = "WDS316", report.failed, f"{spec.path[0]} of {' or '.join(spec.parts)}"
    elif spec.kind in ("size", "chars"):
        code, count, lacking = "WDS317", report.samples - samples_with_part, f"part {spec.part_or_module}"
    else:
        return []
    message = (
        f"column {report.name}: {count:,} of {report.samples:,} samples have no {lacking}; the column has 0 for them"
    )
    return [Finding(code=code, severity="warning", message=message)] if count else []


_PARTIAL_NAME = re.compile(r"\..+\.\d+\.partial")


def check_column_request(location: DatasetLocation, request: ColumnRequest) -> None:
    """Check the request before any work begins. Raises UsageError or InputError WDS310."""
    kept = list_columns(location)
    for name in request.drop:
        if name not in kept and not os.path.isdir(units_folder(location, name)):
            raise no_column_error(location, name, kept)
    specs = {check_column_name(name): parse_column_spec(text) for name, text in request.functions.items()}
    with _function_modules(location, request):
        for spec in specs.values():
            if spec.reads_shards:
                _check_origin(location, spec, request)
                load_column_function(spec)


def _function_modules(location: DatasetLocation, request: ColumnRequest) -> AbstractContextManager[None]:
    """A context in which imports search the current folder first, if a requested function may be there.

    That is the case if its module is in the current folder, or is not found at all. Otherwise, the folder is not
    searched: its other files could shadow installed modules. Nor is a folder of the dataset, unless the request trusts
    its code.
    """
    folder = os.getcwd()
    if is_within(folder, data_folders(location)) and not request.trust_code:
        return nullcontext()
    specs = [parse_column_spec(text) for text in request.functions.values()]
    origins = [find_module_origin(spec.part_or_module, [folder, *sys.path]) for spec in specs if not spec.is_built_in]
    is_here = any(origin is None or (origin and is_within(origin, [folder])) for origin in origins)
    return import_from(folder) if is_here else nullcontext()


def _check_origin(location: DatasetLocation, spec: ColumnSpec, request: ColumnRequest) -> None:
    """Raise UsageError WDS271 if the function's module would be imported from the dataset."""
    # A module in `sys.modules` was imported by the calling program.
    if spec.is_built_in or request.trust_code or spec.part_or_module in sys.modules:
        return
    origin = find_module_origin(spec.part_or_module, sys.path)
    if origin is None:
        origin = find_module_origin(spec.part_or_module, [os.getcwd()])
    if origin and is_within(origin, data_folders(location)):
        hint = (
            "move the module next to your program, or run the command in another folder; if you trust the file, "
            "pass --trust-code"
        )
        raise dataset_import_error(spec.text, origin, "--column", hint)


def update_columns(
    dataset: OpenDataset,
    generation: int,
    request: ColumnRequest,
    *,
    workers: int,
    from_scratch: bool,
    dry_run: bool,
    progress: Progress,
) -> tuple[list[ColumnReport], list[Finding]]:
    """Drop and compute the requested columns, and update all columns of built-in functions.

    Outdated columns of user functions stay, with a finding. The caller holds the lock. `from_scratch`: compute all
    values again. A dry run only reports what the request would drop and compute.
    """
    if dry_run:
        return _dry_run_reports(request), []
    location = dataset.location
    kept = list_columns(location)
    if not (kept or request.functions or request.drop):
        return [], []
    _remove_partial_columns(location)
    with _function_modules(location, request):
        rows = {row.id: row for row in dataset.catalog.shards()}
        parts = {part.name: part for part in dataset.catalog.parts()}
        for spec in map(parse_column_spec, request.functions.values()):
            check_spec_part(spec, list(parts))
            check_media_indexed(dataset.catalog, spec)
        reports = [_drop_column(location, name) for name in request.drop]
        offsets = Offsets(location.offsets_path(generation))
        shards = [rows[shard.id] for shard in offsets.shards]
        jobs, reports_of_others, findings = plan_columns(
            dataset, generation, request, shards, offsets, from_scratch=from_scratch
        )
        failed, found = compute_columns(location, offsets, shards, jobs, workers_for(location.root, workers), progress)
        reports += reports_of_others
        for job in jobs:
            reports.append(finish_column(dataset, offsets, shards, job, failed.get(job.name, 0), progress))
            if reports[-1].state == "made":
                count = parts[job.spec.part_or_module].samples if job.spec.part_or_module in parts else 0
                findings += _find_samples_without_value(reports[-1], job.spec, count)
    _prune(location, generation)
    return sorted(reports, key=lambda report: (report.name, report.state)), [*findings, *found]


def check_media_indexed(catalog: Catalog, spec: ColumnSpec) -> None:
    """Raise UsageError WDS312 if a column is computed from media facts, and the catalog has none for any sample."""
    if spec.kind != "media":
        return
    [number] = spec.path
    parts = spec.part_or_module
    has_facts = catalog.has_media_facts
    settings = catalog.media_settings()
    reader = catalog.media_reader
    flag = f"`--media {quote_shell_word(parts)}`"
    has_number = has_facts and any(reader.has_number(part, MEDIA_NUMBERS[number]) for part in spec.parts)
    if has_facts and not has_number:
        raise UsageError(
            f"no part {parts!r} has the number {number!r} in the media facts of the catalog",
            where=spec.text,
            hint=f"choose another number, or pass {flag}: the facts are of `--media "
            f"{settings.selection if settings else ''}`",
            code="WDS312",
        )
    if not has_facts:
        raise UsageError(
            "the catalog has no media facts yet",
            where=spec.text,
            hint=f"pass {flag}, or `--media` for the facts of all media",
            code="WDS312",
        )


def _dry_run_reports(request: ColumnRequest) -> list[ColumnReport]:
    """Report which columns a run would drop and compute."""
    drop = [ColumnReport(name=name, function="", state="would be dropped", generation=None) for name in request.drop]
    make = [
        ColumnReport(name=name, function=text, state="would be made", generation=None)
        for name, text in request.functions.items()
    ]
    return [*drop, *make]


def _drop_column(location: DatasetLocation, name: str) -> ColumnReport:
    """Remove the files of a column, of all generations."""
    for generation in list_columns(location).get(name, []):
        remove_file(column_path(location, name, generation))
    remove_tree(units_folder(location, name))
    return ColumnReport(name=name, function="", state="dropped", generation=None)


def _prune(location: DatasetLocation, generation: int) -> None:
    """Remove column files of generations without offsets, except the newest of each column: its values are reused."""
    for name, generations in list_columns(location).items():
        for each in generations[:-1]:
            if each <= generation - KEPT_GENERATIONS:
                remove_file(column_path(location, name, each))
    with suppress(OSError):
        remove_empty_folder(units_folder(location, ""))


def _remove_partial_columns(location: DatasetLocation) -> None:
    """Remove temporary files of killed runs. The caller holds the lock, so no other process is writing them."""
    folder = location.columns_folder
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if _PARTIAL_NAME.fullmatch(name):
            remove_file(os.path.join(folder, name))
