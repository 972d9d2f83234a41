"""Columns: a number a sample, worked out shard by shard on processes, and kept in a file a generation.

Like `index`: only shards that are new or have changed are read, finished shards of a run that was killed are not read
again, and a column is there whole or not at all. `wdsctl/core/columns.py` begins with the format of the files.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import AbstractContextManager, nullcontext, suppress

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.quick import media_marks
from wdsctl.core.column_function import find_function, importable
from wdsctl.core.column_spec import Spec, check_part, parse_spec
from wdsctl.core.columns import check_name, column_path, kept_columns, no_such_column
from wdsctl.core.errors import UsageError
from wdsctl.core.files import remove_empty, remove_file, remove_tree
from wdsctl.core.findings import Finding
from wdsctl.core.module_origin import data_folders, is_within, of_data, origin_of
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.stores import workers_for
from wdsctl.core.verbs.column_job import jobs_of, units_folder
from wdsctl.core.verbs.column_report import ColumnReport
from wdsctl.core.verbs.column_request import ColumnRequest
from wdsctl.core.verbs.column_work import finish, work_out
from wdsctl.core.verbs.fold import KEPT_GENERATIONS

_DRAFT = re.compile(r"\..+\.\d+\.partial")


def check_columns(place: Place, request: ColumnRequest) -> None:
    """Refuse what cannot be done, before anything else is. Raises UsageError, or InputError WDS310."""
    kept = kept_columns(place)
    for name in request.drop:
        if name not in kept and not os.path.isdir(units_folder(place, name)):
            raise no_such_column(place, name, kept)
    specs = {check_name(name): parse_spec(text) for name, text in request.wanted.items()}
    with _modules(place, request):
        for spec in specs.values():
            if spec.reads:
                _check_origin(place, spec, request)
                find_function(spec)


def _modules(place: Place, request: ColumnRequest) -> AbstractContextManager[None]:
    """Within it, modules are looked for in the current folder first, where a function that was asked for is in one of
    its modules, or nowhere: what else lies there may have any name. A folder that is the dataset's is data."""
    folder = os.getcwd()
    if is_within(folder, data_folders(place)) and not request.trust_code:
        return nullcontext()
    specs = [parse_spec(text) for text in request.wanted.values()]
    origins = [origin_of(spec.first, [folder, *sys.path]) for spec in specs if not spec.is_built_in]
    is_here = any(origin is None or (origin and is_within(origin, [folder])) for origin in origins)
    return importable(folder) if is_here else nullcontext()


def _check_origin(place: Place, spec: Spec, request: ColumnRequest) -> None:
    """Raises UsageError WDS271 where a module would come from the dataset, or is only there."""
    if spec.is_built_in or request.trust_code or spec.first in sys.modules:  # the caller's program has imported it
        return
    origin = origin_of(spec.first, sys.path)
    if origin is None:
        origin = origin_of(spec.first, [os.getcwd()])
    if origin and is_within(origin, data_folders(place)):
        hint = "put the module beside your program, or run this in another folder; if you trust the file: --trust-code"
        raise of_data(spec.text, origin, "--column", hint)


def settle_columns(
    place: Place,
    generation: int,
    request: ColumnRequest,
    *,
    workers: int,
    anew: bool,
    dry_run: bool,
    progress: Progress,
) -> tuple[list[ColumnReport], list[Finding]]:
    """Drop and make the columns that are asked for, and bring along those that need no code of the user's.

    Those of the user's functions that are out of date are told of, and stay. The caller holds the lock. `anew`: no
    value that was worked out before is used.
    """
    if dry_run:
        return _said(request), []
    kept = kept_columns(place)
    if not (kept or request.wanted or request.drop):
        return [], []
    _sweep(place)
    reports = [_dropped(place, name) for name in request.drop]
    with _modules(place, request):
        with Catalog(place.catalog) as catalog:
            rows, parts = {row.id: row for row in catalog.shards()}, [part.name for part in catalog.parts()]
        offsets = Offsets(place.offsets(generation))
        shards = [rows[shard.id] for shard in offsets.shards]
        jobs, reports_of_others, findings = jobs_of(place, generation, request, shards, offsets, anew=anew)
        for job in jobs:
            if job.is_asked:
                check_part(job.spec, parts)
                check_media(place, job.spec)
        failed, found = work_out(place, offsets, shards, jobs, workers_for(place.root, workers), progress)
        reports += reports_of_others
        reports += [finish(place, offsets, shards, job, failed.get(job.name, 0), progress) for job in jobs]
    _prune(place, generation)
    return sorted(reports, key=lambda report: (report.name, report.state)), [*findings, *found]


def check_media(place: Place, spec: Spec) -> None:
    """Raises UsageError WDS312 where a column is to be of facts of media, and the catalog has none."""
    if spec.kind == "media" and media_marks(place.catalog) is None:
        raise UsageError(
            "the catalog has no facts of media yet",
            where=spec.text,
            hint=f"ask for them, too: --media {spec.first}, or all: --media",
            code="WDS312",
        )


def _said(request: ColumnRequest) -> list[ColumnReport]:
    """What a dry run says."""
    drop = [ColumnReport(name=name, function="", state="would be dropped", generation=None) for name in request.drop]
    make = [
        ColumnReport(name=name, function=text, state="would be made", generation=None)
        for name, text in request.wanted.items()
    ]
    return [*drop, *make]


def _dropped(place: Place, name: str) -> ColumnReport:
    """Remove a column, of all generations."""
    for generation in kept_columns(place).get(name, []):
        remove_file(column_path(place, name, generation))
    remove_tree(units_folder(place, name))
    return ColumnReport(name=name, function="", state="dropped", generation=None)


def _prune(place: Place, generation: int) -> None:
    """Remove columns of generations whose offsets are gone; the newest of each stays, for the values in it."""
    for name, generations in kept_columns(place).items():
        for each in generations[:-1]:
            if each <= generation - KEPT_GENERATIONS:
                remove_file(column_path(place, name, each))
    with suppress(OSError):
        remove_empty(units_folder(place, ""))


def _sweep(place: Place) -> None:
    """Remove what killed runs had begun to write. The caller holds the lock, so nobody else is at it now."""
    folder = place.columns
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if _DRAFT.fullmatch(name):
            remove_file(os.path.join(folder, name))
