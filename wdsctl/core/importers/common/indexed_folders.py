"""Folders of shards with an `index.json`, as MDS and LitData have them: the source, or one folder for each split.

`IndexedFormat` is their importer; a format reads one index.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.errors import InputError
from wdsctl.core.importers.common.description import make_table_source
from wdsctl.core.importers.common.folder_files import is_split_folder, partition_split, scan_folder
from wdsctl.core.importers.common.offset_shards import IndexedShardFile, IndexedShardRows
from wdsctl.core.importers.common.samples import RowMapping, exported_row_mapping
from wdsctl.core.importers.common.source import make_row_source
from wdsctl.core.importers.common.values import check_format_options, parse_list_option, read_head
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Source
from wdsctl.core.invocation import current_invocation
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.shards.in_place.kinds import INDEX_FILE
from wdsctl.core.storage import source_files
from wdsctl.core.text import join_with_and, path_for_message

_DESCRIBED_ROWS = 4  # rows that are read to describe the source


class IndexedFolder(NamedTuple):
    """A folder with an index. `split`: of its name if the source has several; empty if it is the source."""

    path: str
    split: str = ""

    @property
    def index_file(self) -> str:
        return os.path.join(self.path, INDEX_FILE)


class FolderIndex(NamedTuple):
    """What an index says. `is_media`: field -> whether its values are files, or become files. `is_exported`: whether
    `wdsctl convert` wrote the samples, if the fields have keys.
    """

    shards: Sequence[IndexedShardFile]
    is_media: Mapping[str, bool]
    is_exported: bool


class IndexedFormat(NamedTuple):
    """Reads one dataset, or a folder with one dataset per split, whose names are the beginnings of the keys.

    `what`: the indexes list. `is_index`: whether an index that begins with these bytes, up to 64 KiB, belongs to the
    format. `read_index`: of an index file, without the fields that the second argument names.

    Options: `-O drop=a,b` leaves fields out, `key=FIELD` holds the keys, `text=FIELD` becomes the part `txt`.
    """

    name: str
    about: str
    what: str
    is_index: Callable[[bytes], bool]
    read_index: Callable[[IndexedFolder, Sequence[str]], FolderIndex]

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            folders = _find_folders(path, self.is_index)
        except OSError:
            return None
        if not folders:
            return None
        shown = join_with_and([path_for_message(os.path.relpath(folder.index_file, path)) for folder in folders[:3]])
        return FormatMatch(0.95, f"{shown} {'lists' if len(folders) == 1 else 'list'} {self.what}")

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ("key", "text", "drop"))
        folders = _find_folders(path, self.is_index) or [IndexedFolder(path)]
        _check_splits(path, folders)
        dropped = parse_list_option(options, "drop")
        indexes = [self.read_index(folder, dropped) for folder in folders]
        shards = [
            shard._replace(split=folder.split)
            for folder, index in zip(folders, indexes, strict=True)
            for shard in index.shards
        ]
        is_media = {name: value for index in indexes for name, value in index.is_media.items()}
        rows = IndexedShardRows([folder.index_file for folder in folders], shards)
        splits = [folder.split for folder in folders if folder.split]
        if KEY_COLUMN in is_media and all(index.is_exported for index in indexes):
            return make_row_source(rows, exported_row_mapping(self.name, options), splits)
        fields = [name for name in is_media if name not in dropped]
        return make_table_source(
            rows,
            RowMapping.from_options(options, media=[name for name in fields if is_media[name]], key=":row"),
            lambda: [row.values for row in islice(rows.rows(0), _DESCRIBED_ROWS)],
            fields=fields,
            more_uses=lambda: [FieldUse(name, "", "dropped by `-O drop`") for name in is_media if name in dropped],
            splits=splits,
            has_file_references=False,
        )


def _find_folders(path: str, is_index: Callable[[bytes], bool]) -> list[IndexedFolder]:
    """The source if it has an index, or else its subfolders that have one; empty if there is none."""
    if is_index(read_head(os.path.join(path, INDEX_FILE))):
        return [IndexedFolder(path)]
    if not source_files.is_folder(path) or source_files.exists(os.path.join(path, INDEX_FILE)):
        return []
    names = scan_folder(path, path).folders
    folders = [IndexedFolder(os.path.join(path, name), partition_split(name) or name) for name in names]
    return [folder for folder in folders if is_index(read_head(folder.index_file))]


def _check_splits(path: str, folders: list[IndexedFolder]) -> None:
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
