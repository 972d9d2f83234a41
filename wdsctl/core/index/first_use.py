"""Create catalogs at first use: of datasets that Energon has prepared, and of single tars.

Light to import, since every command that reads a catalog calls this module first.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wdsctl.core.dataset.location import DatasetLocation, locate, shell_command_at
from wdsctl.core.dataset.lock import hold_lock, lock_dataset
from wdsctl.core.errors import CatalogError, Finding
from wdsctl.core.files import make_folder
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.progress import SILENT_PROGRESS, Progress, SilentProgress

NoteCallback = Callable[[str], None]


class _NotesOnly(SilentProgress):
    """Forwards notes for the user, and drops all other progress."""

    def __init__(self, on_note: NoteCallback) -> None:
        self._on_note = on_note

    def note(self, message: str) -> None:
        self._on_note(message)


def index_on_first_use(
    dataset: OpenDataset, catalog: str | None, on_note: NoteCallback, *, with_splits: bool = True
) -> bool:
    """Index a dataset that Energon has prepared, if it has no catalog or no splits yet. Returns whether it is ready.

    Returns False if Energon has not prepared the dataset. `with_splits`: import the splits, too. `catalog`: what the
    dataset was opened with. The dataset continues at the address for writing.

    If another process is indexing the dataset, waits for its end without a limit, and takes over the lock of a dead
    process. After a kill, the next call resumes from the finished shards. `on_note` receives a line that names the
    command to index ahead of time, and a line per finding. Raises what `index` and `import_energon_meta` raise.
    Cost: that of `index` in one process.
    """
    dataset.refresh()  # another process may have indexed it since the caller read
    if _is_ready(dataset, with_splits=with_splits):
        return True
    from wdsctl.core.dataset.root_spec import RootSpec
    from wdsctl.core.energon.meta import energon_meta
    from wdsctl.core.index.index import check_new_catalog
    from wdsctl.core.opened.writing import recording

    path = dataset.location.path
    with energon_meta(dataset.location.root, dataset.location.single_file) as meta:
        if not meta.is_prepared():
            return False
    location = locate(path, catalog, writing=True)
    dataset.use(location)
    check_new_catalog(location, (), RootSpec(location.root))
    progress = _NotesOnly(on_note)
    try:
        with lock_dataset(location, wait=math.inf, note=on_note):
            dataset.refresh()
            if not _is_ready(dataset, with_splits=with_splits):
                with recording(dataset, "index", [location.display_path], progress) as entry:
                    entry.findings += _index(dataset, progress, with_splits=with_splits)
    except CatalogError as error:
        if error.code != "WDS308":
            raise
        # Another machine has indexed the dataset at the same time: its catalog is as good.
        open_dataset(path, catalog, writing=True).close()
        dataset.refresh()
        if not _is_ready(dataset, with_splits=with_splits):
            raise
    return True


def _is_ready(dataset: OpenDataset, *, with_splits: bool) -> bool:
    """Whether the catalog exists with its splits or, unless `with_splits`, with dataset.yaml.

    `index_on_first_use` writes the splits last, and dataset.yaml after the catalog.
    """
    return dataset.has_catalog() and (dataset.catalog.has_splits if with_splits else dataset.has_config())


def _index(dataset: OpenDataset, progress: Progress, *, with_splits: bool) -> list[Finding]:
    from wdsctl.core.index.energon import import_energon_meta
    from wdsctl.core.index.index import IndexRequest, index_staged
    from wdsctl.core.opened.staging import stage_catalog

    location = dataset.location
    progress.note(
        f"indexing the Energon dataset {location.display_path} into {location.meta}, only at its first use; "
        f"{shell_command_at(location, 'index')} does so in advance, with more processes"
    )
    with stage_catalog(dataset) as stage:
        report = index_staged(stage, IndexRequest(), progress)
        taken = import_energon_meta(dataset, report, 1, progress, with_splits=with_splits)
    findings = [*report.findings, *(taken.findings if taken is not None else ())]
    for finding in findings:
        if finding.severity != "note":
            progress.note(f"{finding.code}: {finding.message}{f' ({finding.shard})' if finding.shard else ''}")
    return findings


_WAIT_SECONDS = 600.0  # for another process that indexes the same tar


def ensure_catalog_exists(location: DatasetLocation, wait: float = 0.0, progress: Progress = SILENT_PROGRESS) -> None:
    """Index a single tar that has no prepared catalog, or has changed; then call `check_catalog_exists`.

    `wait`: seconds to wait for another process that creates the catalog. Cost: for a single tar, a read of its headers.
    """
    from wdsctl.core.catalog.presence import check_catalog_exists, wait_for_catalog

    wait_for_catalog(location, wait, progress.note)
    _index_single_tar(location)
    check_catalog_exists(location)


def open_indexed(
    root: str,
    catalog: str | None = None,
    *,
    writing: bool = False,
    takes_view: bool = False,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> OpenDataset:
    """`open_dataset`, then `ensure_catalog_exists`, whose modules it imports only if there is no catalog."""
    dataset = open_dataset(root, catalog, writing=writing, takes_view=takes_view)
    if dataset.location.is_unprepared_tar or not dataset.has_catalog():
        ensure_catalog_exists(dataset.location, wait, progress)
    return dataset


def _index_single_tar(location: DatasetLocation) -> None:
    if not location.is_unprepared_tar:
        return
    from wdsctl.core.index.index import IndexRequest, index_locked

    make_folder(location.meta)
    with OpenDataset(location) as dataset, hold_lock(location.lock, wait=_WAIT_SECONDS, note=lambda _: None):
        # Reading a tar does not depend on its keys, so suspicious ones are left to `validate`.
        index_locked(dataset, IndexRequest(missing="drop", skip_key_checks=True), SILENT_PROGRESS)
