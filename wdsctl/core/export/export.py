"""`export`: write a target's metadata of a dataset beside its shards, or into another folder."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from wdsctl.core.dataset.destination import remove_path
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.dataset.polylithic import check_not_polylithic
from wdsctl.core.errors import InputError, OptionConflict, PermissionDenied, UsageError, translate_os_errors
from wdsctl.core.export.request import ExportReport, ExportRequest, Written
from wdsctl.core.export.source import ExportSource, check_catalog_stayed, open_export_source
from wdsctl.core.files import make_folder
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.urls import is_url

_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
#: Exists while an export writes into a folder.
_LOCK_NAME = ".wdsctl-export.lock"
#: The names of drafts of the files that targets write (`open_file_draft`).
_DRAFT_NAME = re.compile(r"\.(\.nv-meta|README\.md|croissant\.json|index(-.*)?\.json|.+\.tar\.idx)\.\d+\.partial")


def export(request: ExportRequest, *, progress: Progress = SILENT_PROGRESS) -> ExportReport:
    """Write another tool's metadata beside the shards, from the catalog alone: `wdsctl export`.

    Raises CatalogError WDS305 if shards have changed since they were indexed, or the catalog meanwhile, UsageError for
    a polylithic dataset, and if metadata exists and `overwrite` is not set, PermissionDenied for a folder that this
    user cannot write, and what the target raises.
    """
    began = time.monotonic()
    if request.license_id:
        _check_license(request)
    if request.hashed and request.target != "wids":
        raise OptionConflict(
            f"the metadata of {request.target} has no MD5 hashes",
            options=("--hash",),
            hint="omit --hash; Croissant takes the SHA-256 that `wdsctl index --hash` records",
        )
    if not request.sample_tables and request.target != "energon":
        raise OptionConflict(
            f"the metadata of {request.target} has no tables of samples",
            options=("--no-sample-tables",),
            hint="omit --no-sample-tables",
        )
    if request.catalog is None:
        check_not_polylithic(request.root, "export", *([request.out] if request.out else []), "--to", request.target)
    write: Callable[[ExportSource, ExportRequest, str, Progress], Written] = import_module(
        f"wdsctl.core.export.{request.target}"
    ).write
    with open_export_source(request.root, request.catalog) as source:
        folder = _choose_folder(source.location, request)
        with hold_lock(os.path.join(folder, _LOCK_NAME), note=progress.note):
            _remove_left_drafts(folder, source)
            written = write(source, request, folder, progress)
            check_catalog_stayed(source)
    return ExportReport(
        root=source.location.display_path,
        target=request.target,
        path=written.path,
        files=written.files,
        generation=source.generation,
        shards=len(source.shards),
        samples=source.samples,
        splits=written.splits,
        notes=written.notes,
        seconds=time.monotonic() - began,
    )


def _check_license(request: ExportRequest) -> None:
    """Raises UsageError for a license that is no identifier, and for a target whose metadata names none."""
    if request.target not in ("hub", "croissant"):
        raise OptionConflict(
            f"the metadata of {request.target} has no license", options=("--license",), hint="omit --license"
        )
    if not _LICENSE.fullmatch(request.license_id):
        raise UsageError(
            f"--license: {request.license_id!r} is not the identifier of a license",
            hint="pass an identifier such as cc-by-4.0, mit or other",
        )


def _remove_left_drafts(folder: str, source: ExportSource) -> None:
    """Remove what a killed export left: drafts of files that targets write. The caller holds the lock of the folder."""
    for below in {"", *(os.path.dirname(shard.path) for shard in source.shards)}:
        path = os.path.join(folder, below)
        with translate_os_errors(path, "list"), suppress(FileNotFoundError):
            for name in os.listdir(path):
                if _DRAFT_NAME.fullmatch(name):
                    remove_path(os.path.join(path, name))


def _choose_folder(location: DatasetLocation, request: ExportRequest) -> str:
    """The folder to write to, without links. Raises InputError for a URL, PermissionDenied for a read-only folder."""
    if request.out:
        if is_url(request.out):
            raise UsageError(
                "export writes into local folders",
                where=request.out,
                hint="pass a local folder as OUT, and upload its files beside the shards",
            )
        folder = os.path.realpath(request.out)
        make_folder(folder)
        return folder
    elsewhere = shell_command_at(location, "export", "--to", request.target, "OUT")
    if is_url(location.root):
        raise InputError(
            "the dataset is at a URL, and export writes into local folders",
            where=location.display_path,
            hint=f"write into a local folder with {elsewhere}, and upload its files beside the shards",
        )
    if not os.access(location.root_to_write, os.W_OK | os.X_OK):
        raise PermissionDenied(
            "no permission to write into the dataset's folder",
            where=location.display_path,
            hint=f"write into another folder with {elsewhere}",
        )
    return location.root_to_write
