"""Folders of shards with an `index.json`, as MDS and LitData have them: the source, or one folder for each split."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import InputError
from wdsctl.core.importers.common.folder_files import is_split_folder, partition_split, scan_folder
from wdsctl.core.importers.common.values import read_head
from wdsctl.core.importers.protocol import FormatMatch
from wdsctl.core.invocation import current_invocation
from wdsctl.core.shards.in_place.kinds import INDEX_FILE
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message


class IndexedFolder(NamedTuple):
    """A folder with an index. `split`: of its name if the source has several; empty if it is the source."""

    path: str
    split: str = ""

    @property
    def index_file(self) -> str:
        return os.path.join(self.path, INDEX_FILE)


def find_indexed_folders(path: str, is_index: Callable[[bytes], bool]) -> list[IndexedFolder]:
    """The source if it has an index, or else its subfolders that have one; empty if there is none.

    `is_index`: whether an index that begins with these bytes, up to 64 KiB, belongs to the format.
    """
    if is_index(read_head(os.path.join(path, INDEX_FILE))):
        return [IndexedFolder(path)]
    if not source_files.is_folder(path) or source_files.exists(os.path.join(path, INDEX_FILE)):
        return []
    names = scan_folder(path, path).folders
    folders = [IndexedFolder(os.path.join(path, name), partition_split(name) or name) for name in names]
    return [folder for folder in folders if is_index(read_head(folder.index_file))]


def match_indexed_folders(path: str, is_index: Callable[[bytes], bool], what: str) -> FormatMatch | None:
    """The match of a source with these folders. `what`: what their indexes list."""
    try:
        folders = find_indexed_folders(path, is_index)
    except OSError:
        return None
    if not folders:
        return None
    shown = join_with_and([path_for_message(os.path.relpath(folder.index_file, path)) for folder in folders[:3]])
    return FormatMatch(0.95, f"{shown} {'lists' if len(folders) == 1 else 'list'} {what}")


def check_splits(path: str, folders: list[IndexedFolder]) -> None:
    """Raise InputError WDS235 unless all folders below the source are named after splits: `train`, `val_small`."""
    others = [each for each in folders if each.split and not is_split_folder(os.path.basename(each.path))]
    if others:
        verb, name = current_invocation("convert", ())[0], os.path.basename(others[0].path)
        raise InputError(
            f"the folder {path_for_message(name)}/ has an {INDEX_FILE}, but its name is not a split name",
            hint=f"pass each folder separately: {shell_command(verb, others[0].path, 'DEST')}",
            where=path_for_message(path),
            code="WDS235",
        )
