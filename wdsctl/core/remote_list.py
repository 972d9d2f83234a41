"""Lists the files of a store, each with a mark that changes when its content does."""

from __future__ import annotations

from wdsctl.core.change_mark import change_mark
from wdsctl.core.errors import InputError
from wdsctl.core.remote_storage import FsspecStorage
from wdsctl.core.units import ShardFile
from wdsctl.core.urls import shown


def remote_files(root: str) -> list[ShardFile]:
    """Every file below `root` that is not hidden, by path relative to it.

    Raises InputError where there is no such bucket or folder or it is a file, PermissionDenied, StorageError.
    """
    found = FsspecStorage(root).files()
    if any(not path for path, _ in found):
        raise InputError(
            "the dataset is a file, not a folder", where=shown(root), hint="give the folder that holds the shards"
        )
    files = [ShardFile(path, int(facts["size"]), change_mark(facts)) for path, facts in found]
    return [file for file in files if not any(name.startswith(".") for name in file.path.split("/"))]


def remote_file(root: str, name: str) -> ShardFile:
    """One file of a store. Raises InputError where there is none."""
    facts = FsspecStorage(root).facts(f"{root}/{name}")
    return ShardFile(name, int(facts["size"]), change_mark(facts))
