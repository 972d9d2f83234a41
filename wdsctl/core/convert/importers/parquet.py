"""Parquet: a row is a sample; columns of bytes become parts, the others one part `json`. Read by row groups.

Files with a column `__key__`, as `wdsctl convert --to parquet` writes them, become the samples that they were.

Source: https://parquet.apache.org/docs/file-format; https://huggingface.co/docs/datasets/about_arrow (bytes and path).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from wdsctl.core.beneath import inside_only
from wdsctl.core.convert.rows import arrow
from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.looking import first_below
from wdsctl.core.convert.rows.media_fields import LOOKED_AT, media_fields
from wdsctl.core.convert.rows.samples import KEY, OPTIONS, Row, Shape, kept_shape
from wdsctl.core.convert.rows.source import row_source
from wdsctl.core.convert.source import Options, Recognised, Source
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named

_ENDINGS = (".parquet", ".pq")
_DEEPEST = 3  # folders below the one that is given


class Parquet:
    """One file, or all of a folder sorted by path. They have one schema."""

    name = "parquet"
    about = "Parquet files with columns of bytes, such as images (needs pyarrow)"

    def recognise(self, path: str) -> Recognised | None:
        if os.path.isfile(path):
            return Recognised(0.9, "the name ends in .parquet") if path.lower().endswith(_ENDINGS) else None
        found = first_below(path, lambda name: name.lower().endswith(_ENDINGS), depth=_DEEPEST)
        return Recognised(0.8, f"has {named(os.path.relpath(found, path))}") if found else None

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, OPTIONS)
        files = [path] if os.path.isfile(path) else sorted(_files_in(path, path)) if os.path.isdir(path) else []
        if not files:
            raise InputError("there is no Parquet file", hint="name one, or a folder with some", where=named(path))
        schema = _opened(files[0]).schema_arrow
        arrow.check_names(schema, files[0])
        rows = ParquetRows(files, tuple(schema.names))
        if KEY in schema.names:
            return row_source(rows, kept_shape(self.name, options))
        bytes_in = arrow.media_columns(schema)
        # Beside bytes, a text that looks like a file's name is only their name.
        looked_at = () if bytes_in else islice(rows.rows(0), LOOKED_AT)
        refs = media_fields(self.name, options, [dict.fromkeys(schema.names), *(row.values for row in looked_at)])
        shape = Shape.of(options, media=dict.fromkeys((*bytes_in, *refs)), key=":row")
        # Beside bytes, to look for names would be to read all of the bytes.
        return row_source(rows, shape, names_files=bool(refs) and not bytes_in)


IMPORTER = Parquet()


class ParquetRows:
    """The rows of several files. Row groups before the first row that is asked for are not read."""

    def __init__(self, files: Sequence[str], columns: tuple[str, ...]) -> None:
        self._files = files
        self._columns = columns

    def rows(self, start: int) -> Iterator[Row]:
        number = 0  # of the first row of the group
        for path in self._files:
            with arrow.damage_told(path):
                file = _opened(path)
                self._check(file, path)
                for group in range(file.num_row_groups):
                    facts = file.metadata.row_group(group)
                    if number + facts.num_rows > start:
                        yield from self._group(file, path, group, number, max(0, start - number))
                    number += facts.num_rows

    def _group(self, file: Any, path: str, group: int, number: int, skip: int) -> Iterator[Row]:
        facts = file.metadata.row_group(group)
        at_once = max(1, min(1024, arrow.BYTES_AT_ONCE * facts.num_rows // max(1, facts.total_byte_size)))
        done = 0
        for batch in file.iter_batches(at_once, row_groups=[group], use_threads=False):
            past = min(batch.num_rows, max(0, skip - done))
            for i, values in enumerate(arrow.dicts(batch, past), done + past):
                where = f"{named(path)}, row group {group}, row {i}"
                yield Row(number + i, where, values, None, os.path.dirname(path))
            done += batch.num_rows

    def _check(self, file: Any, path: str) -> None:
        if set(file.schema_arrow.names) != set(self._columns):
            raise DatasetError(
                f"the columns are {', '.join(file.schema_arrow.names)}, and {', '.join(self._columns)} in "
                f"{named(self._files[0])}",
                hint="files of one dataset have the same columns: convert them apart",
                where=named(path),
                code="WDS233",
            )

    def files(self) -> Sequence[str]:
        return self._files

    def close(self) -> None:
        """Files are open only while rows are read."""


def _opened(path: str) -> Any:
    """The file. Nothing is read ahead: a row group may be larger than the memory."""
    parquet = arrow.loaded("pyarrow.parquet", "Parquet")
    with arrow.damage_told(path):
        return parquet.ParquetFile(path, memory_map=True, pre_buffer=False)


def _files_in(root: str, folder: str, depth: int = _DEEPEST) -> Iterator[str]:
    below = []
    with translated(folder, "list"), os.scandir(folder) as entries:
        for entry in inside_only(entries, root):
            if entry.name.startswith((".", "_")):
                continue
            if entry.is_dir():
                below.append(entry.path)
            elif entry.name.lower().endswith(_ENDINGS):
                yield entry.path
    for path in sorted(below) if depth else ():
        yield from _files_in(root, path, depth - 1)
