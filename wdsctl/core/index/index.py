"""`index`: update the catalog of a dataset. Incremental, resumable, and published as a whole.

After the shards, `index` updates media facts, columns and splits. Most new datasets have none of these, and the modules
that update them take as long to import as a million JSONL lines take to scan. So each is imported only when needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from wdsctl.core.catalog.presence import check_not_incomplete, media_folder_option_error
from wdsctl.core.dataset.location import (
    ENERGON_META_FOLDER,
    DatasetLocation,
    locate,
    note_catalog_location,
    shell_command,
)
from wdsctl.core.dataset.lock import after_publication, describe_lock_holder
from wdsctl.core.dataset.polylithic import is_polylithic, read_polylithic_folder
from wdsctl.core.dataset.root_spec import RootSpec, parse_root_spec
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.energon.meta import JSONL_INDEX_SUFFIX
from wdsctl.core.errors import (
    CatalogError,
    DatasetError,
    Finding,
    OptionConflict,
    PermissionDenied,
    StorageError,
    UsageError,
)
from wdsctl.core.files import remove_tree
from wdsctl.core.index.merge import clean_up
from wdsctl.core.index.report import ColumnReport, IndexReport, MediaReport
from wdsctl.core.index.request import ColumnRequest, IndexCommand, IndexRequest, MediaRequest, MissingPolicy, OnError
from wdsctl.core.index.shards import check_has_shards, index_shards
from wdsctl.core.invocation import describe_request
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.staging import CatalogStage, stage_catalog
from wdsctl.core.opened.writing import writing
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.naming import KeyRuleName
from wdsctl.core.shards.survey import has_in_place_shards, has_shards
from wdsctl.core.urls import is_url, redact_secrets

if TYPE_CHECKING:
    from wdsctl.core.index.media_folder import MediaFolderReport


def check_follow_ups(dataset: OpenDataset, request: IndexRequest) -> None:
    """Check the requested columns and media before any work begins. Raises UsageError or InputError WDS310."""
    if request.columns.functions or request.columns.drop:
        from wdsctl.core.index.columns import check_column_request

        check_column_request(dataset.location, request.columns)
    if request.media != MediaRequest():
        from wdsctl.core.index.media import check_media_request

        check_media_request(dataset, request.media)


def update_media_if_needed(
    dataset: OpenDataset, request: IndexRequest, progress: Progress, *, has_unread_shards: bool = False
) -> tuple[MediaReport | None, list[Finding]]:
    """Call `update_media` if the request names media or the catalog has media facts."""
    if request.media == MediaRequest() and not _has_media_facts(dataset, request):
        return None, []
    from wdsctl.core.index.media import update_media

    return update_media(
        dataset,
        request.media,
        workers=request.workers,
        dry_run=request.dry_run,
        progress=progress,
        has_unread_shards=has_unread_shards,
    )


def _has_media_facts(dataset: OpenDataset, request: IndexRequest) -> bool:
    """Whether the catalog has media facts. In a dry run of a rebuild, a damaged catalog counts as one without."""
    try:
        return dataset.has_catalog() and dataset.catalog.has_media_facts
    except CatalogError as error:
        if request.dry_run and request.rebuild and error.code == "WDS302":
            return False
        raise


def has_columns(location: DatasetLocation, request: IndexRequest) -> bool:
    """Whether the dataset has columns, or the request adds or drops some."""
    return bool(request.columns.functions or request.columns.drop) or os.path.exists(location.columns_folder)


def update_columns_if_needed(
    dataset: OpenDataset, generation: int, request: IndexRequest, progress: Progress
) -> tuple[list[ColumnReport], list[Finding]]:
    """Call `update_columns` if the dataset has columns or the request names some."""
    if not has_columns(dataset.location, request):
        return [], []
    from wdsctl.core.index.columns import update_columns

    return update_columns(
        dataset,
        generation,
        request.columns,
        workers=request.workers,
        from_scratch=request.rebuild,
        dry_run=request.dry_run,
        progress=progress,
    )


def lacking_field_findings(dataset: OpenDataset, generation: int, request: IndexRequest) -> tuple[Finding, ...]:
    """Warn about samples that lack parts which the field map requires: the loader skips them. A note counts those that
    lack optional fields, and a warning masks in JPEG.

    Returns nothing in a dry run, nor if dataset.yaml or the offsets file cannot be read: `validate` reports the error.
    """
    if request.dry_run or not dataset.has_config():
        return ()
    from wdsctl.core.catalog.consistency import absent_field_findings, lossy_mask_findings, missing_field_findings
    from wdsctl.core.offsets.read import Offsets

    try:
        config = dataset.config
        offsets = Offsets(dataset.location.offsets_path(generation))
        missing = missing_field_findings(offsets, config, "warning", names_samples=False)
        return (*missing, *absent_field_findings(offsets, config), *lossy_mask_findings(offsets, config))
    except (DatasetError, CatalogError, StorageError, PermissionDenied):
        return ()


def is_energon_imported(dataset: OpenDataset) -> bool:
    """Whether the Energon import (`wdsctl.core.index.energon`) has nothing to do.

    A quick check: the dataset has no Energon metadata, or it has both dataset.yaml and splits. False for every dataset
    at a URL that lacks one of these two, since looking for metadata there takes a request.
    """
    location = dataset.location
    left = (
        f"{location.path}{JSONL_INDEX_SUFFIX}"
        if is_jsonl_name(location.single_file)
        else os.path.join(location.root, ENERGON_META_FOLDER)
    )
    if not (is_url(location.root) or os.path.exists(left)):
        return True
    return dataset.has_config() and dataset.catalog.has_splits


def has_quarantine(dataset: OpenDataset) -> bool:
    """Whether samples are in quarantine; True if the ledger cannot be read, so that the next reader reports why."""
    try:
        ledger = dataset.recorder or dataset.ledger
        return bool(ledger.rows("SELECT 1 FROM quarantine LIMIT 1"))
    except (CatalogError, PermissionDenied, StorageError):
        return True


def reapply_splits_if_needed(
    dataset: OpenDataset, request: IndexRequest, progress: Progress
) -> tuple[bool, tuple[Finding, ...]]:
    """Call `reapply_splits` if the dataset has splits, a dataset.yaml or samples in quarantine.

    Returns (whether the splits changed, findings).
    """
    if request.dry_run:
        return False, ()
    if not (dataset.has_config() or dataset.catalog.has_splits or has_quarantine(dataset)):
        return False, ()
    from wdsctl.core.split.reapply import reapply_splits

    settled = reapply_splits(dataset, request.workers, progress)
    return settled.is_changed, settled.findings


__all__ = [
    "IndexReport",
    "IndexRequest",
    "MissingPolicy",
    "check_new_catalog",
    "index",
    "index_dataset",
    "index_locked",
    "index_staged",
]


def index(
    root: str | RootSpec,
    *,
    catalog: str | None = None,
    workers: int = 1,
    rebuild: bool = False,
    missing: MissingPolicy = "error",
    exclude: Sequence[str] | None = None,
    dry_run: bool = False,
    columns: Mapping[str, str] | None = None,
    drop_columns: Sequence[str] = (),
    on_error: OnError = "error",
    trust_code: bool = False,
    media: MediaRequest | None = None,
    key: str | None = None,
    key_until: KeyRuleName | None = None,
    sample_rows: bool | None = None,
    hashed: bool | None = None,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> IndexReport:
    """Call `index_dataset` with the fields of its request as keyword arguments."""
    request = IndexRequest(
        workers=workers,
        rebuild=rebuild,
        missing=missing,
        exclude=None if exclude is None else tuple(exclude),
        dry_run=dry_run,
        columns=ColumnRequest(
            functions=dict(columns or {}), drop=tuple(drop_columns), on_error=on_error, trust_code=trust_code
        ),
        media=media or MediaRequest(),
        key=key,
        key_until=key_until,
        sample_rows=sample_rows,
        hashed=hashed,
    )
    spec = root if isinstance(root, RootSpec) else parse_root_spec(root)
    return index_dataset(spec, request, catalog=catalog, wait=wait, progress=progress)


def index_dataset(
    spec: RootSpec,
    request: IndexRequest,
    *,
    catalog: str | None = None,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> IndexReport:
    """Update the catalog of the shards that `spec` names, reading only new and changed shards.

    If `spec` selects some shards of a folder, the catalog keeps the selection for later runs. `wait`: seconds to wait
    for another writer. Raises InputError WDS306 if shards are missing and `request.missing` is `error`, UsageError for
    invalid requests, DatasetError WDS245 if the key rule seems to merge several samples into one.
    Cost: about 2 µs of one core per tar member. Memory: the index of the largest shard, plus a few tens of MB.
    """
    with open_dataset(spec.root, catalog) as dataset:
        return _index_opened(dataset, spec, request, catalog, wait, progress)


def run_index(command: IndexCommand, *, progress: Progress = SILENT_PROGRESS) -> IndexReport | MediaFolderReport:
    """Update the catalog: `wdsctl index`. Reads only new and changed shards, at about 2 µs of one core per tar member.

    Returns an `IndexReport`; for a folder of media, a `MediaFolderReport`.
    """
    spec = parse_root_spec(command.root)
    request = replace(command.request, selection=spec.selection)
    return index_root(spec, request, catalog=command.catalog, wait=command.wait, progress=progress)


def index_root(
    spec: RootSpec,
    request: IndexRequest,
    *,
    catalog: str | None = None,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> IndexReport | MediaFolderReport:
    """Call `index_if_media_folder`, or else `index_dataset`."""
    with open_dataset(spec.root, catalog) as dataset:
        report = _index_if_media_folder(dataset, spec, request, catalog, wait, {}, progress)
        return report or _index_opened(dataset, spec, request, catalog, wait, progress)


def _index_opened(
    dataset: OpenDataset, spec: RootSpec, request: IndexRequest, catalog: str | None, wait: float, progress: Progress
) -> IndexReport:
    request = replace(request, selection=spec.selection)
    _refuse_polylithic(spec.root)
    location = locate(spec.root, catalog, writing=True)
    dataset.use(location)
    check_follow_ups(dataset, request)
    if request.dry_run:
        return index_locked(dataset, request, progress)
    check_new_catalog(location, request.exclude or (), spec)
    note_catalog_location(location, catalog, progress)
    arguments = [redact_secrets(spec.root), *describe_request(request)]
    with writing(dataset, "index", arguments, progress, wait=wait) as entry:
        with stage_catalog(dataset) as stage:
            report = index_staged(stage, request, progress)
            if not is_energon_imported(dataset):
                from wdsctl.core.index.energon import import_after_index

                report = import_after_index(dataset, report, request.workers, progress)
        entry.findings += report.findings
        return report


def index_locked(dataset: OpenDataset, request: IndexRequest, progress: Progress) -> IndexReport:
    """Index and publish. The caller holds the lock, unless the request is a dry run."""
    with stage_catalog(dataset) as stage:
        return index_staged(stage, request, progress)


def index_staged(stage: CatalogStage, request: IndexRequest, progress: Progress) -> IndexReport:
    """Index into `stage`, so that the caller can write more into the catalog before publishing it.

    If the dataset has columns, the catalog is published before they are computed: column functions are user code that
    may take hours or fail, and splits by column values read the published catalog. Changes of splits are then published
    separately.
    """
    started = time.monotonic()
    report = index_shards(stage, request, progress)
    if not request.dry_run:
        stage.after_publish(partial(clean_up, stage.location, report.generation))
    unread = request.dry_run and (request.rebuild or report.added + report.changed > 0)
    media, media_findings = update_media_if_needed(stage.dataset, request, progress, has_unread_shards=unread)
    if not request.dry_run:
        # Only after publishing: until then, an interrupted run resumes from the probed media in this folder.
        forget_media = partial(remove_tree, stage.location.media_work_folder)
        stage.after_publish(partial(after_publication, stage.location, forget_media))
    if has_columns(stage.location, request):
        stage.publish()
    columns, column_findings = update_columns_if_needed(stage.dataset, report.generation, request, progress)
    is_changed, split_findings = reapply_splits_if_needed(stage.dataset, request, progress)
    return replace(
        report,
        columns=tuple(columns),
        media=media,
        findings=(
            *report.findings,
            *media_findings,
            *column_findings,
            *split_findings,
            *lacking_field_findings(stage.dataset, report.generation, request),
        ),
        up_to_date=report.up_to_date
        and not is_changed
        and all(each.state in ("current", "outdated") for each in columns)
        and (media is None or media.state == "current"),
        seconds=time.monotonic() - started,
    )


def _refuse_polylithic(root: str) -> None:
    """Raise UsageError for a polylithic folder: one catalog of primary and media would mix their samples."""
    if is_polylithic(root):
        both = shell_command("prepare", redact_secrets(root))
        primary = shell_command("index", redact_secrets(read_polylithic_folder(root).primary))
        raise UsageError(
            "a polylithic dataset has two catalogs, of its primary and of its media",
            where=redact_secrets(root),
            hint=f"{both} updates both, {primary} only the first",
        )


def check_new_catalog(location: DatasetLocation, exclude: Sequence[str], spec: RootSpec) -> None:
    """Call `check_not_incomplete` and `check_has_shards` if there is no catalog and no process holds the lock."""
    if not os.path.exists(location.catalog_path) and not describe_lock_holder(location.lock):
        check_not_incomplete(location)
        check_has_shards(location, exclude, spec.selection)


def index_if_media_folder(
    spec: RootSpec,
    request: IndexRequest,
    *,
    catalog: str | None = None,
    wait: float = 0.0,
    unfit: Mapping[str, bool] = MappingProxyType({}),
    progress: Progress = SILENT_PROGRESS,
) -> MediaFolderReport | None:
    """Call `index_media_folder` if `spec` names a folder of media files; otherwise return None.

    Raises UsageError WDS322 if the request has columns, `hashed`, `sample_rows` or keys, none of which apply to a media
    folder, or for an option of `unfit` that is given, and UsageError for `missing="keep"`.
    """
    if _is_no_folder(spec):
        return None
    with open_dataset(spec.root, catalog) as dataset:
        return _index_if_media_folder(dataset, spec, request, catalog, wait, unfit, progress)


def _is_no_folder(spec: RootSpec) -> bool:
    """Whether `spec` names a file, or some shards of a folder."""
    return spec.selection is not None or os.path.isfile(spec.root)


def is_media_folder(dataset: OpenDataset, *, media_requested: bool = False) -> bool:
    """Whether the catalog describes a media folder. A damaged one does not: the reader of shards reports it.

    `media_requested`: a folder without catalog and shards counts as a media folder.
    """
    location = dataset.location
    if not dataset.has_catalog():
        return media_requested and not (
            has_shards(location.root, location.single_file) or has_in_place_shards(location.root)
        )
    try:
        return dataset.catalog.is_media_folder
    except CatalogError:
        return False


def _index_if_media_folder(
    dataset: OpenDataset,
    spec: RootSpec,
    request: IndexRequest,
    catalog: str | None,
    wait: float,
    unfit: Mapping[str, bool],
    progress: Progress,
) -> MediaFolderReport | None:
    if _is_no_folder(spec) or not is_media_folder(dataset, media_requested=request.media.selection is not None):
        return None
    if request.hashed is not None or request.sample_rows is not None:
        raise OptionConflict(
            "--hash and --no-sample-rows need shards, which a media folder does not have",
            options=("--hash", "--sample-rows"),
            hint="omit --hash and --no-sample-rows",
            code="WDS322",
        )
    if request.columns.functions or request.columns.drop:
        raise UsageError(
            "a media folder has no samples, and therefore no columns",
            hint="write shards from it with `wdsctl prepare FOLDER DEST`, or query v_file (docs/catalog.md)",
            code="WDS322",
        )
    given: dict[str, object] = {"--key": request.key, "--key-until": request.key_until, **unfit}
    name = next((name for name, is_given in given.items() if is_given), "")
    if name:
        raise media_folder_option_error(name, spec.root)
    if request.missing == "keep":
        raise OptionConflict(
            "the catalog of a media folder cannot keep missing files",
            options=("--missing",),
            hint="omit --missing keep",
        )
    from wdsctl.core.index.media_folder import index_media_folder

    return index_media_folder(
        spec.root,
        catalog=catalog,
        media=request.media,
        exclude=request.exclude or (),
        rebuild=request.rebuild,
        workers=request.workers,
        dry_run=request.dry_run,
        wait=wait,
        progress=progress,
    )
