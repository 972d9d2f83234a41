"""`catalog vacuum`: remove files and rows that no kept generation needs, and report which generations stay and why."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from wdsctl.core.catalog.open_catalog import check_catalog_file
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import PermissionDenied, UsageError, translate_os_errors
from wdsctl.core.files import remove_file
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.index.merge import KEPT_GENERATIONS
from wdsctl.core.joins.index import STALE_DRAFT_SECONDS
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.staging import change_catalog
from wdsctl.core.opened.writing import writing
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.urls import redact_secrets

_KINDS = (
    ("offsets", re.compile(r"offsets-(\d+)\.bin")),
    ("names", re.compile(r"names-(\d+)\.bin")),
    ("keyframes", re.compile(r"keyframes-(\d+)\.bin")),
    ("column", re.compile(r"columns/[^/]+-(\d+)\.bin")),
    ("catalog", re.compile(r"catalog\.sqlite")),
    ("ledger", re.compile(r"ledger\.sqlite(?:-journal|-wal|-shm)?")),
    ("settings", re.compile(r"dataset\.yaml")),
    ("lock", re.compile(r"lock")),
    ("damaged", re.compile(r"(?:.*/)?[^/]+\.damaged-\d+(?:-journal)?")),
    ("begun", re.compile(r"(?:.*/)?\.[^/]+\.partial")),
    ("join", re.compile(r"joins/.*")),
    ("mirror", re.compile(r"\.published/.*")),
    ("unpublished", re.compile(r"unpublished-[^/]*/.*")),
    ("unit", re.compile(r"(?:work|media|columns/units)/.*")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFile:
    """One file of the catalog's folder. `generation`: the number in its name; None if the name has none."""

    name: str  # relative to the folder, with /
    kind: str
    size_bytes: int
    generation: int | None = None


def catalog_files(location: DatasetLocation) -> list[CatalogFile]:
    """All files below the catalog's folder, by name. Raises StorageError and PermissionDenied."""
    found: list[CatalogFile] = []
    with translate_os_errors(location.meta, "list"):
        for folder, _, names in os.walk(location.meta):
            for name in names:
                path = os.path.join(folder, name)
                short = os.path.relpath(path, location.meta).replace(os.sep, "/")
                if os.path.lexists(path):  # another process may have removed the file
                    found.append(_classify_file(short, os.lstat(path).st_size))
    return sorted(found, key=lambda file: file.name)


def _classify_file(name: str, size: int) -> CatalogFile:
    for kind, pattern in _KINDS:
        match = pattern.fullmatch(name)
        if match:
            generation = int(match[1]) if match.groups() else None
            return CatalogFile(name=name, kind=kind, size_bytes=size, generation=generation)
    return CatalogFile(name=name, kind="other", size_bytes=size)


_GENERATION_KINDS = ("offsets", "names", "keyframes", "column")


#: Folders into which readers write, which hold no lock: what they compute, and what they fetch from a store.
_READERS_FOLDERS = ("joins/", ".published/")


def _may_be_in_use(location: DatasetLocation, file: CatalogFile) -> bool:
    """Whether a reader may be writing a draft."""
    if not file.name.startswith(_READERS_FOLDERS):
        return False
    with suppress(FileNotFoundError):
        return time.time() - os.lstat(os.path.join(location.meta, file.name)).st_mtime < STALE_DRAFT_SECONDS
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptGeneration:
    generation: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogVacuumReport:
    root: str
    catalog: str
    rows: Mapping[str, int]  # table -> removed rows; empty in a dry run
    files: tuple[CatalogFile, ...]  # removed
    kept: tuple[KeptGeneration, ...]
    damaged: tuple[CatalogFile, ...]  # damaged files that were kept, since `damaged` was not set
    before_bytes: int  # of the catalog
    after_bytes: int
    freed_bytes: int  # by files and catalog together
    dry_run: bool


def catalog_vacuum(
    root: str,
    *,
    catalog: str | None = None,
    generations: int = KEPT_GENERATIONS,
    damaged: bool = False,
    dry_run: bool = False,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> CatalogVacuumReport:
    """Remove rows and files that no kept generation needs, and compact the catalog.

    Keeps the last `generations`, so that states saved on them can be resumed. `damaged`: also remove files that were
    set aside as damaged. `wait`: seconds to wait for another writer. Raises UsageError, CatalogError WDS301 to WDS304,
    PermissionDenied. Needs free disk space of the size of the catalog.
    """
    if generations < 1:
        raise UsageError(
            "--generations: expected 1 or more", hint="pass `--generations 1` to keep only the current generation"
        )
    with open_indexed(root, catalog, writing=not dry_run) as dataset:
        meta = dataset.location.meta
        check_catalog_file(dataset.location.catalog_path)
        if dry_run:
            return _vacuum(dataset, generations, damaged, progress, dry_run=True)
        if not os.access(meta, os.W_OK):
            raise PermissionDenied(
                "the catalog is not writable", where=meta, hint="ask the owner of the dataset for write permission"
            )
        with writing(dataset, "catalog vacuum", [redact_secrets(root)], progress, wait=wait):
            return _vacuum(dataset, generations, damaged, progress, dry_run=False)


def _vacuum(
    dataset: OpenDataset, generations: int, remove_damaged: bool, progress: Progress, *, dry_run: bool
) -> CatalogVacuumReport:
    location = dataset.location
    present, is_folder = dataset.catalog.generation, dataset.catalog.is_media_folder
    files = catalog_files(location)
    there = sorted({file.generation for file in files if file.kind == "offsets" and file.generation is not None})
    in_use = [number for number in there if number <= present][-generations:]
    useless = [
        file
        for file in files
        if (file.kind == "begun" and not _may_be_in_use(location, file))
        or (file.kind in _GENERATION_KINDS and file.generation not in {*in_use, present})
    ]
    useless += [file for file in files if remove_damaged and file.kind == "damaged"]
    before = os.path.getsize(location.catalog_path)
    rows: dict[str, int] = {}
    if not dry_run:
        progress.phase("pack")
        with change_catalog(dataset) as draft:
            rows = {} if is_folder else draft.drop_unused_rows({*in_use, present})
            draft.needs_vacuum = True
        for file in useless:
            remove_file(os.path.join(location.meta, file.name))
    after = os.path.getsize(location.catalog_path)
    return CatalogVacuumReport(
        root=location.display_path,
        catalog=location.catalog_path,
        rows=rows,
        files=tuple(useless),
        kept=tuple(
            KeptGeneration(
                generation=number,
                why="the current generation" if number == present else "states saved on this generation can be resumed",
            )
            for number in in_use
        ),
        damaged=tuple(file for file in files if file.kind == "damaged" and not remove_damaged),
        before_bytes=before,
        after_bytes=after,
        freed_bytes=before - after + sum(file.size_bytes for file in useless),
        dry_run=dry_run,
    )
