"""Check the destination folder of `convert` and `prepare`, and move finished files into it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress

from wdsctl.core.dataset.location import META_FOLDER
from wdsctl.core.directories import open_folder
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, StorageError, UsageError, translate_os_errors
from wdsctl.core.files import fsync_path, make_folder, move_file, remove_empty_folder, remove_tree
from wdsctl.core.text import path_for_message
from wdsctl.core.urls import is_url

#: The name of a unit that a killed run was writing.
PARTIAL_NAME = re.compile(r"\..+\.\d+\.partial")

_MAX_SHOWN_NAMES = 3


def check_destination(sources: Sequence[str], dest: str) -> None:
    """Raise UsageError if the destination is a file or a URL that cannot be written to, or overlaps with a source.

    Raises PermissionDenied if it is not writable; sends no request to a store.
    """
    if is_url(dest):
        from wdsctl.core.dataset.remote_destination import check_remote_destination

        check_remote_destination(sources, dest)
        return
    dest_path = os.path.realpath(dest)
    for source in sources:
        if is_url(source):
            continue
        source_path = os.path.realpath(source)
        if os.path.commonpath([source_path, dest_path]) in {source_path, dest_path}:
            raise UsageError(
                "the source and the destination overlap: one contains the other",
                where=f"{source} and {dest}",
                hint="choose a destination outside the source",
            )
    if os.path.lexists(dest) and not os.path.isdir(dest):
        raise UsageError("the destination is a file, not a folder", where=dest, hint="choose another destination")
    check_writable(dest)


def check_writable(dest: str) -> None:
    """Raise PermissionDenied if the destination is not writable, before the command writes anything."""
    existing = os.path.abspath(dest)
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    if os.path.isdir(existing) and not os.access(existing, os.W_OK | os.X_OK):
        raise PermissionDenied(
            "cannot write to the destination",
            where=dest,
            hint=f"choose another destination, or check the owner and the mode of {path_for_message(existing)}",
        )


def check_destination_empty(dest: str) -> None:
    """Raise UsageError if the destination has files other than `.wdsctl` and the remains of a killed run."""
    if is_url(dest):
        from wdsctl.core.dataset.remote_destination import check_remote_empty

        check_remote_empty(dest)
        return
    try:
        names = [name for name in os.listdir(dest) if name != META_FOLDER and not PARTIAL_NAME.fullmatch(name)]
    except FileNotFoundError:
        return
    if names:
        more = ", ..." if len(names) > _MAX_SHOWN_NAMES else ""
        raise UsageError(
            f"the destination is not empty: {', '.join(map(path_for_message, sorted(names)[:_MAX_SHOWN_NAMES]))}{more}",
            where=dest,
            hint="choose an empty or a new folder",
        )


def check_written_file(path: str, size_bytes: int | None = None) -> None:
    """Raise StorageError WDS453 unless a file or folder that a unit has written is here. `size_bytes`: of a file.

    Another machine may have written the file to a disk of its own, which has the same path there.
    """
    with suppress(OSError):
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and size_bytes in (None, found.st_size)):
            return
    raise StorageError(
        "a unit has written this file, but this machine has none or another one at the path",
        where=path,
        hint="let all machines see the destination at the same path, and plan the job again in a new folder",
        code="WDS453",
    )


def require_source(source: str) -> None:
    """Raise InputError if the source does not exist."""
    if not is_url(source) and not os.path.lexists(source):
        raise InputError("the source does not exist", where=source, hint="check the path")


def remove_partials(root: str, folders: Iterable[str]) -> None:
    """Remove the incomplete files of killed runs in these folders below `root`, and nothing else."""
    for folder in set(folders):
        path = os.path.join(root, folder)
        with translate_os_errors(path, "list"), suppress(FileNotFoundError):
            for name in os.listdir(path):
                if PARTIAL_NAME.fullmatch(name):
                    remove_path(os.path.join(path, name))


def move_unit_files(unit: str, dest: str) -> None:
    """Move all files of a unit's folder to their paths below `dest`. After a kill, another call moves the rest.

    Raises DatasetError WDS237 if a file of another unit has the same path; overwrites no file.
    """
    with translate_os_errors(dest):
        for folder, folders, names in os.walk(unit, topdown=False):
            target_path = os.path.normpath(os.path.join(dest, os.path.relpath(folder, unit)))
            try:
                make_folder(target_path)
            except StorageError as error:
                if not isinstance(error.__cause__, FileExistsError | NotADirectoryError):
                    raise
                raise _name_collision_error(target_path) from error
            with open_folder(folder) as source, open_folder(target_path) as target:
                for name in names:
                    if target.lstat(name) is not None:
                        raise _name_collision_error(os.path.join(target_path, name))
                    move_file(source, target, name)
                for name in folders:
                    remove_empty_folder(os.path.join(folder, name))
            fsync_path(target_path)
        if os.path.isdir(unit):
            remove_empty_folder(unit)


def _name_collision_error(path: str) -> DatasetError:
    return DatasetError(
        "two parts would have the same file name, or a file and a folder would have the same name",
        hint="rename the samples first; or use `--to parquet` or `--to mds`, which write no file names",
        where=path_for_message(path),
        code="WDS237",
    )


def remove_path(path: str) -> None:
    """Remove a file or a folder with its files, if it exists."""
    remove_tree(path)


def unique_source_names(paths: Iterable[str]) -> list[str]:
    """Return a short, unique name for each source, from the name of its folder or file."""
    names: list[str] = []
    for path in paths:
        base = os.path.basename(path.rstrip("/")) or "source"
        base = base.split(".")[0] or base.lstrip(".")
        name, n = base, 1
        while name in names:
            n += 1
            name = f"{base}-{n}"
        names.append(name)
    return names
