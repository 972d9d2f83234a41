"""Parquet: a row is a sample; columns of bytes become parts, all others one part `json`.

Files with a column `__key__`, as `wdsctl convert --to parquet` writes them, become the original samples.

Source: https://parquet.apache.org/docs/file-format; https://huggingface.co/docs/datasets/about_arrow (bytes and path).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from wdsctl.core.errors import DatasetError, InputError, WdsctlError, translate_os_errors
from wdsctl.core.importers.common import arrow
from wdsctl.core.importers.common.description import make_table_source
from wdsctl.core.importers.common.documents import may_be_structured
from wdsctl.core.importers.common.files import PROBED_ROWS
from wdsctl.core.importers.common.row_splits import find_split_field
from wdsctl.core.importers.common.samples import TABLE_OPTIONS, FileNames, SourceRow, exported_row_mapping
from wdsctl.core.importers.common.source import make_row_source
from wdsctl.core.importers.common.tables import (
    Table,
    choose_tables,
    file_split_findings,
    make_mapping,
    match_folder,
    open_table,
    path_splits,
    recognise_structure,
)
from wdsctl.core.importers.common.values import check_format_options, find_file_below
from wdsctl.core.importers.protocol import FormatMatch, Options, Source
from wdsctl.core.safe_open import check_entries_beneath
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

_EXTENSIONS = (".parquet", ".pq")
_SCORE = 0.8
_METADATA = ("dataset_infos.json", "dataset_info.json")  # of Hugging Face: the schema says the same
_DESCRIBED_ROWS = 4  # rows with bytes that are read to describe the source
_MAX_DEPTH = 3  # levels of folders below the source that are searched


class ParquetImporter:
    """Reads one file, or all Parquet files of a folder, sorted by path. All files must have the same columns."""

    name = "parquet"
    about = "Parquet files with columns of bytes, such as images (needs pyarrow)"

    def recognise(self, path: str) -> FormatMatch | None:
        if source_files.is_file(path):
            return FormatMatch(0.9, "the name ends in .parquet") if path.lower().endswith(_EXTENSIONS) else None
        found = find_file_below(path, lambda name: name.lower().endswith(_EXTENSIONS), depth=_MAX_DEPTH)
        if found is None:
            return None
        holds_media = FormatMatch(_SCORE, f"has {path_for_message(os.path.relpath(found, path))}")
        try:
            if arrow.media_columns(arrow.open_parquet(found).schema_arrow):
                return holds_media
        except WdsctlError:
            return holds_media  # opening reports what is wrong
        return match_folder(path, _EXTENSIONS, _read_first, _SCORE) or holds_media

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, TABLE_OPTIONS)
        root = path if source_files.is_folder(path) else ""
        files = [path] if source_files.is_file(path) else sorted(_find_parquet_files(path, path)) if root else []
        if not files:
            raise InputError(
                "no Parquet file found",
                hint="pass a .parquet file, or a folder with such files",
                where=path_for_message(path),
            )
        schema = arrow.open_parquet(files[0]).schema_arrow
        arrow.check_column_names(schema, files[0])
        if KEY_COLUMN in schema.names:
            of_files = [each.split for each in path_splits(files, root)] if root else []
            exported = ParquetRows(files, tuple(schema.names), splits=of_files)
            mapping = exported_row_mapping(self.name, options)
            return make_row_source(exported, mapping, dict.fromkeys(filter(None, of_files)))
        bytes_in = arrow.media_columns(schema)
        # In a table with bytes, a text that looks like a file name is the name of these bytes.
        if bytes_in:
            tables = [Table.without_files(file) for file in files]
        elif root:
            tables = choose_tables(root, _EXTENSIONS, _read_first, options, joins_equal_fields=True, is_needed=False)
            tables = tables or [Table.without_files(file) for file in files]
        else:
            tables = [open_table(path, _read_first(path), options)]
        paths = [table.path for table in tables]
        splits = [each.split for each in path_splits(paths, root)] if root else []
        schema = arrow.open_parquet(paths[0]).schema_arrow
        labels = arrow.label_names(schema)
        rows = ParquetRows(paths, tuple(schema.names), [table.names for table in tables], splits, labels, root=root)
        mapping = make_mapping(self.name, options, tables, root, key=":row" if bytes_in else "", fields=schema.names)
        mapping = replace(
            mapping,
            media=tuple(dict.fromkeys((*arrow.media_columns(schema), *mapping.media))),
            split=find_split_field(self.name, options, _read_first(paths[0]), has_file_splits=bool(splits)),
        )
        if may_be_structured(schema.names) and not (mapping.is_conversation or mapping.is_document):
            mapping = recognise_structure(mapping, list(_first_values(rows, _DESCRIBED_ROWS)), options)
        split_rows = (
            ParquetRows(paths, tuple(schema.names), only=mapping.split) if mapping.split in schema.names else None
        )
        # A digest of referenced files would read all rows, and with them all bytes.
        return make_table_source(
            rows,
            mapping,
            lambda: list(_first_values(rows, PROBED_ROWS if not bytes_in else _DESCRIBED_ROWS)),
            fields=[*schema.names, *(name for column in labels if (name := f"{column}_name") not in schema.names)],
            splits=dict.fromkeys(filter(None, splits)),
            more_findings=file_split_findings(paths, root) if root and not mapping.split else [],
            root=root,
            own_files=[os.path.join(root, name) for name in _METADATA],
            has_file_references=bool(mapping.media) and not bytes_in,
            split_rows=split_rows,
        )


IMPORTER = ParquetImporter()


class ParquetRows:
    """The rows of several files. Skips row groups before the first requested row.

    `names`: how each file names others. `splits`: the split of each file. `labels`:
    column -> names of its integer labels. `root`: the folder of the source; empty
    if it is a file. `only`: the one column that is read; empty for all.
    """

    def __init__(
        self,
        files: Sequence[str],
        columns: tuple[str, ...],
        names: Sequence[FileNames] = (),
        splits: Sequence[str] = (),
        labels: Mapping[str, Sequence[str]] = MappingProxyType({}),
        *,
        root: str = "",
        only: str = "",
    ) -> None:
        self._files = files
        self._root = root
        self._columns = columns
        self._names = names or [FileNames(os.path.dirname(path)) for path in files]
        self._splits = splits or [""] * len(files)
        self._labels = labels
        self._read_columns = [only] if only else None

    def rows(self, start: int) -> Iterator[SourceRow]:
        number = 0  # of the file's first row
        for at, path in enumerate(self._files):
            with arrow.translate_arrow_errors(path):
                file = arrow.open_parquet(path)
                self._check(file, path)
                for batch in arrow.parquet_batches(file, path, 1024, self._read_columns, start - number):
                    yield from self._rows(at, batch, number, start)
                number += file.metadata.num_rows

    def _rows(self, at: int, batch: arrow.ParquetBatch, number: int, start: int) -> Iterator[SourceRow]:
        """The rows of a batch from `start` on. `number`: of the file's first row."""
        path, names, split = self._files[at], self._names[at], self._splits[at]
        name = path[len(self._root) :].lstrip("/") if self._root else os.path.basename(path)
        stem = name[: name.rindex(".")]
        past = min(batch.rows.num_rows, max(0, start - number - batch.start))
        for i, values in enumerate(arrow.iter_rows(batch.rows, past), past):
            where = f"{path_for_message(path)}, row group {batch.group}, row {batch.first + i}"
            arrow.add_label_names(values, self._labels)
            row = batch.start + i
            yield names.make_row(number + row, where, values, None, split)._replace(file_key=f"{stem}/{row}")

    def _check(self, file: Any, path: str) -> None:
        if set(file.schema_arrow.names) != set(self._columns):
            raise DatasetError(
                f"the columns are {', '.join(file.schema_arrow.names)}, but those of "
                f"{path_for_message(self._files[0])} are {', '.join(self._columns)}",
                hint="convert these files separately: the files of one dataset need the same columns",
                where=path_for_message(path),
                code="WDS233",
            )

    def files(self) -> Sequence[str]:
        return self._files

    def close(self) -> None:
        """Do nothing: files are open only while rows are read."""


def _first_values(rows: ParquetRows, count: int) -> Iterator[Mapping[str, Any]]:
    return (row.values for row in islice(rows.rows(0), count))


def _read_first(path: str) -> list[dict[str, Any]]:
    """The first rows of a file, without its bytes. Empty if it cannot be read: opening it reports the error."""
    try:
        file = arrow.open_parquet(path)
        media = arrow.media_columns(file.schema_arrow)
        columns = [name for name in file.schema_arrow.names if name not in media]
        with arrow.translate_arrow_errors(path):
            batches = arrow.parquet_batches(file, path, PROBED_ROWS, columns)
            return list(islice((row for batch in batches for row in arrow.iter_rows(batch.rows)), PROBED_ROWS))
    except WdsctlError:
        return []


def _find_parquet_files(root: str, folder: str, depth: int = _MAX_DEPTH) -> Iterator[str]:
    below = []
    with translate_os_errors(folder, "list"), source_files.scan(folder) as entries:
        for entry in check_entries_beneath(entries, root):
            if entry.name.startswith((".", "_")):
                continue
            if entry.is_dir():
                below.append(entry.path)
            elif entry.name.lower().endswith(_EXTENSIONS):
                yield entry.path
    for path in sorted(below) if depth else ():
        yield from _find_parquet_files(root, path, depth - 1)
