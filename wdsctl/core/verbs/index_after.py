"""What comes after the shards: facts of media, columns, splits. Most datasets have none of them when they are new.

What brings them up to date is imported where there is something to do: it takes as long as finding a million lines.
"""

from __future__ import annotations

import os

from wdsctl.core.catalog.media_settings import FACT
from wdsctl.core.catalog.quick_facts import facts, has_quarantine, has_splits
from wdsctl.core.errors import CatalogError, DatasetError, PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.formats.energon_meta import LINES_INDEX
from wdsctl.core.line_files import is_lines
from wdsctl.core.place import ENERGON_META, Place
from wdsctl.core.progress import Progress
from wdsctl.core.urls import is_url
from wdsctl.core.verbs.column_report import ColumnReport
from wdsctl.core.verbs.index_request import IndexRequest
from wdsctl.core.verbs.media_report import MediaReport
from wdsctl.core.verbs.media_request import MediaRequest


def check_after(place: Place, request: IndexRequest) -> None:
    """Refuse what cannot be done, before anything else is. Raises UsageError, or InputError WDS310."""
    if request.columns.wanted or request.columns.drop:
        from wdsctl.core.verbs.column import check_columns

        check_columns(place, request.columns)
    if request.media != MediaRequest():
        from wdsctl.core.verbs.media import check_media

        check_media(place, request.media)


def media_after(place: Place, request: IndexRequest, progress: Progress) -> tuple[MediaReport | None, list[Finding]]:
    """`settle_media`, where anything is asked for, or was."""
    if request.media == MediaRequest() and not _was_asked(place, request):
        return None, []
    from wdsctl.core.verbs.media import settle_media

    return settle_media(place, request.media, workers=request.workers, dry_run=request.dry_run, progress=progress)


def _was_asked(place: Place, request: IndexRequest) -> bool:
    """Whether the catalog has facts of media. One that is damaged, and would be made again, has none left."""
    try:
        return os.path.exists(place.catalog) and FACT in facts(place.catalog)
    except CatalogError as error:
        if request.dry_run and request.rebuild and error.code == "WDS302":
            return False
        raise


def columns_after(
    place: Place, generation: int, request: IndexRequest, progress: Progress
) -> tuple[list[ColumnReport], list[Finding]]:
    """`settle_columns`, where any are asked for, or there."""
    asked = request.columns
    if not (asked.wanted or asked.drop or os.path.exists(os.path.join(place.meta, "columns"))):
        return [], []
    from wdsctl.core.verbs.column import settle_columns

    return settle_columns(
        place,
        generation,
        asked,
        workers=request.workers,
        anew=request.rebuild,
        dry_run=request.dry_run,
        progress=progress,
    )


def fields_after(place: Place, generation: int, request: IndexRequest) -> tuple[Finding, ...]:
    """Samples that lack what the field map needs, as warnings: the loader will leave them out. What is wrong with
    dataset.yaml or the offsets file, `validate` tells.
    """
    if request.dry_run or not os.path.exists(place.dataset_yaml):
        return ()
    from wdsctl.core.dataset_yaml import load
    from wdsctl.core.offsets import Offsets
    from wdsctl.core.verbs.validate_parts import lacking_fields

    try:
        config = load(place.dataset_yaml)
        return tuple(lacking_fields(Offsets(place.offsets(generation)), config, "warning"))
    except (DatasetError, CatalogError, StorageError, PermissionDenied):
        return ()


def is_told(place: Place) -> bool:
    """Whether nothing of what Energon says is lacking (`wdsctl.core.verbs.energon`), as far as a quick look tells."""
    left = f"{place.path}{LINES_INDEX}" if is_lines(place.only) else os.path.join(place.root, ENERGON_META)
    if not (is_url(place.root) or os.path.exists(left)):
        return True
    return os.path.exists(place.dataset_yaml) and has_splits(place.catalog)


def splits_after(place: Place, request: IndexRequest, progress: Progress) -> tuple[bool, tuple[Finding, ...]]:
    """`settle_splits`, where there are splits or rules of any, or samples in quarantine: whether it changed anything,
    and what it found.
    """
    if request.dry_run:
        return False, ()
    if not (os.path.exists(place.dataset_yaml) or has_splits(place.catalog) or has_quarantine(place.ledger)):
        return False, ()
    from wdsctl.core.verbs.split_settle import settle_splits

    settled = settle_splits(place, request.workers, progress)
    return settled.is_changed, settled.findings
