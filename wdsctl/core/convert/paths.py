"""Where a destination may lie, and what may be in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, StorageError, UsageError
from wdsctl.core.files import make_folder, move, remove_empty, remove_tree, sync
from wdsctl.core.folders import held
from wdsctl.core.os_errors import translated
from wdsctl.core.place import META
from wdsctl.core.printable import named
from wdsctl.core.urls import is_url, shown

#: What a killed run leaves of the unit it was writing.
PARTIAL = re.compile(r"\..+\.\d+\.partial")

_SHOWN = 3


def check_destination(sources: Sequence[str], dest: str) -> None:
    """Raises UsageError where it is a URL, a file, or lies in a source, or a source in it; PermissionDenied."""
    if is_url(dest):
        raise UsageError(
            "conversions are written to a disk or a mounted file system, not to a URL",
            where=shown(dest),
            hint="write it to a disk; the result may then be copied to the store",
        )
    made = os.path.realpath(dest)
    for source in sources:
        if is_url(source):
            continue
        came = os.path.realpath(source)
        if os.path.commonpath([came, made]) in {came, made}:
            raise UsageError(
                "the source and the destination must not lie in one another",
                where=f"{source} and {dest}",
                hint="give a destination beside the source",
            )
    if os.path.lexists(dest) and not os.path.isdir(dest):
        raise UsageError("the destination is a file, not a folder", where=dest, hint="give another destination")
    check_writable(dest)


def check_writable(dest: str) -> None:
    """Refuse a destination that shards cannot be written to, before anything is made there or elsewhere.

    Raises PermissionDenied.
    """
    there = os.path.abspath(dest)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if os.path.isdir(there) and not os.access(there, os.W_OK | os.X_OK):
        raise PermissionDenied(
            "the destination cannot be written",
            where=dest,
            hint=f"give another one, or check the owner and the mode of {named(there)}",
        )


def check_empty(dest: str) -> None:
    """Raises UsageError where anything is in it but our own folder, and what a killed run was writing."""
    try:
        names = [name for name in os.listdir(dest) if name != META and not PARTIAL.fullmatch(name)]
    except FileNotFoundError:
        return
    if names:
        more = ", ..." if len(names) > _SHOWN else ""
        raise UsageError(
            f"the destination is not empty: {', '.join(map(named, sorted(names)[:_SHOWN]))}{more}",
            where=dest,
            hint="give a folder that is empty, or not there yet",
        )


def check_there(source: str) -> None:
    """Raises InputError where there is no such source."""
    if not is_url(source) and not os.path.lexists(source):
        raise InputError("the source does not exist", where=source, hint="check the path")


def forget_partials(root: str, folders: Iterable[str]) -> None:
    """Remove what killed runs left half-written in these folders below `root`, and only that."""
    for folder in set(folders):
        path = os.path.join(root, folder)
        with translated(path, "list"), suppress(FileNotFoundError):
            for name in os.listdir(path):
                if PARTIAL.fullmatch(name):
                    remove(os.path.join(path, name))


def unfold(unit: str, dest: str) -> None:
    """Move all files of a unit's folder to where they belong below `dest`. Again after a kill, it moves the rest.

    Raises DatasetError WDS237 where a file of another unit has that name: no file takes another's place.
    """
    with translated(dest):
        for folder, folders, names in os.walk(unit, topdown=False):
            there = os.path.normpath(os.path.join(dest, os.path.relpath(folder, unit)))
            try:
                make_folder(there)
            except StorageError as error:
                if not isinstance(error.__cause__, FileExistsError | NotADirectoryError):
                    raise
                raise _one_file(there) from error
            with held(folder) as source, held(there) as target:
                for name in names:
                    if target.look(name) is not None:
                        raise _one_file(os.path.join(there, name))
                    move(source, target, name)
                for name in folders:
                    remove_empty(os.path.join(folder, name))
            sync(there)
        if os.path.isdir(unit):
            remove_empty(unit)


def _one_file(path: str) -> DatasetError:
    return DatasetError(
        "two parts would be one file, or a file and a folder",
        hint="`--to parquet` and `--to mds` have no names of files; or rename the samples first",
        where=named(path),
        code="WDS237",
    )


def remove(path: str) -> None:
    """A file, or a folder of files, that may be gone already."""
    remove_tree(path)


def source_names(paths: Iterable[str]) -> list[str]:
    """A short name for each source, all different: its folder's or file's."""
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
