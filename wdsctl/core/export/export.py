"""`export`: write a target's metadata of a dataset beside its shards, or into another folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import get_args

from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.errors import InputError, PermissionDenied, UsageError
from wdsctl.core.export.request import ExportReport, ExportRequest, ExportTarget, Written
from wdsctl.core.export.source import ExportSource, read_source
from wdsctl.core.files import make_folder
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.urls import is_url


def export(
    root: str, request: ExportRequest, *, catalog: str | None = None, progress: Progress = SILENT_PROGRESS
) -> ExportReport:
    """Write the metadata of the dataset at `root` for a target.

    Raises CatalogError WDS305 if shards have changed since they were indexed, UsageError if metadata exists and
    `overwrite` is not set, PermissionDenied for a folder that this user cannot write, and what the target raises.
    """
    began = time.monotonic()
    if request.target not in get_args(ExportTarget):
        raise UsageError(
            f"unknown target {request.target!r}", hint=f"export to one of {', '.join(get_args(ExportTarget))}"
        )
    source = read_source(root, catalog)
    folder = _choose_folder(source.location, request)
    write: Callable[[ExportSource, ExportRequest, str, Progress], Written] = import_module(
        f"wdsctl.core.export.{request.target}"
    ).write
    written = write(source, request, folder, progress)
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
