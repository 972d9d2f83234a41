"""CSV and TSV: a row is a sample; columns that name files become parts, all others one part `json`.

Tables whose first column is `__key__`, as `wdsctl convert --to csv` writes them, become the original samples.

Source: RFC 4180 (CSV); https://www.iana.org/assignments/media-types/text/tab-separated-values (TSV).
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, Literal, NamedTuple

from wdsctl.core.dataset.shard_names import UNPACK_COMMANDS
from wdsctl.core.errors import DatasetError, InputError, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.file_limits import long_line_error, scale_limit
from wdsctl.core.importers.common.cell_types import (
    CellType,
    convert_cells,
    dump_cell_types,
    infer_cell_types,
    parse_cell_types,
)
from wdsctl.core.importers.common.commands import repeat_command
from wdsctl.core.importers.common.compressed import open_text_file, strip_compression
from wdsctl.core.importers.common.description import make_table_source
from wdsctl.core.importers.common.files import PROBED_ROWS, exported_file_path, is_media_path, is_text_part
from wdsctl.core.importers.common.folder_files import SPLIT_NAMES, scan_folder
from wdsctl.core.importers.common.joined_tables import JoinedReader, join_first_rows, join_tables
from wdsctl.core.importers.common.samples import FILES_COLUMN, TABLE_OPTIONS, RowMapping, exported_row_mapping
from wdsctl.core.importers.common.source import make_row_source
from wdsctl.core.importers.common.tables import choose_tables, make_mapping, match_folder, open_table
from wdsctl.core.importers.common.text import (
    Record,
    TextRows,
    decode_line,
    is_sentence,
    iter_text_lines,
    read_text_head,
    text_encoding,
)
from wdsctl.core.importers.common.values import check_format_options, parse_choice_option, parse_list_option
from wdsctl.core.importers.protocol import FormatMatch, Options, Source
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize
from wdsctl.core.urls import is_url

_EXTENSIONS = tuple(f"{table}{packed}" for table in (".csv", ".tsv") for packed in ("", *UNPACK_COMMANDS))
_PROBED_LINES = 20  # rows that detect the delimiter
_SEP_LINE = re.compile(r'"?sep=([^\w"\r\n])"?[,;\t|]*\r?\n', re.IGNORECASE)  # Excel's first line
_EXPORTED_FILES = tuple(f"samples{extension}" for extension in _EXTENSIONS)
_EXPORTED_HEADS = (f"{KEY_COLUMN},".encode(), f"{KEY_COLUMN}\t".encode())
_UNDECODED_BYTE = re.compile("[\ud800-\udfff]")  # as the error handler `surrogateescape` gives it
#: The option with the types of columns.
CELL_TYPES = "cell-types"
_MAX_ROW_BYTES = 64 << 20  # also of a row of many lines: Python's parser takes four bytes a character
_DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}

_COMPARED_ROWS = 17  # the first one, and rows that are compared with it


class CsvImporter:
    """Options: `-O delimiter=tab`, `quotes=no` (quotes are plain characters), `columns=a,b` (there is no header),
    `header=yes` (the first row is a header, whatever it holds), `encoding=latin1`, `types=text` (no cell becomes a
    number). `cell-types`, which only `convert` sets for its workers: the types that `open` has found.
    """

    name = "csv"
    about = "a CSV or TSV file with columns that name files, or a folder with one"

    def recognise(self, path: str) -> FormatMatch | None:
        exported = _find_exported(path)
        if exported:
            shown = path_for_message(os.path.relpath(exported[0].path, path)) if exported[0].path != path else "it"
            return FormatMatch(0.95, f"{shown} has a column {KEY_COLUMN}")
        if source_files.is_file(path):
            is_table = path.lower().endswith(_EXTENSIONS)
            return FormatMatch(0.9, f"the name ends in {_ending(path)}") if is_table else None
        return match_folder(path, _EXTENSIONS, _read_first, 0.8)

    def open(self, path: str, options: Options) -> Source:
        check_format_options(
            self.name,
            options,
            (*TABLE_OPTIONS, "delimiter", "quotes", "columns", "header", "encoding", "types", CELL_TYPES),
        )
        exported = _find_exported(path)
        if exported:
            return _open_exported(exported, options)
        root = path if source_files.is_folder(path) else ""
        tables = (
            choose_tables(path, _EXTENSIONS, partial(_read_first, options=options), options, joins_files=True)
            if root
            else [open_table(path, _read_first(path, options), options)]
        )
        for table in tables:
            # The header of utt1<TAB>yes would be `utt1`, which names a file as the other rows do.
            headers = [field for field, stems in table.names.stems.items() if stems.find_all(field)]
            if headers and not {"columns", "header"} & options.keys():
                raise _no_header_error(table.path, list(table.rows[0]), options, headers[0])
        joined = None
        if tables[0].is_joined:
            joined = join_tables(path, tables, partial(_open_reader, options=options), options)
            tables = joined.main
        readers = [_open_reader(table.path, options) for table in tables]
        row_readers = [reader if joined is None else JoinedReader(reader, joined) for reader in readers]
        rows = TextRows(
            [table.path for table in tables],
            row_readers,
            [table.names for table in tables],
            [table.split for table in tables],
            others=joined.paths if joined is not None else (),
        )
        own = list(dict.fromkeys(column for reader in readers for column in reader.columns))
        columns = own if joined is None else [*own, *joined.columns]
        if joined is not None:
            tables = join_first_rows(joined, row_readers)
        mapping = make_mapping(self.name, options, tables, root, key="", fields=columns)
        types = _cell_types(rows, mapping, own, options)
        for reader in readers:
            reader.types = types
        source = make_table_source(
            rows,
            mapping,
            lambda: [row for table in tables for row in table.named_rows],
            fields=columns,
            splits=dict.fromkeys(table.split for table in tables if table.split),
            root=root,
            has_file_references=bool(mapping.media),
            types={**types, **joined.notes()} if joined is not None else types,
            more_findings=joined.findings() if joined is not None else (),
        )
        source.worker_options = {CELL_TYPES: dump_cell_types(types)}
        return source


IMPORTER = CsvImporter()


def _cell_types(rows: TextRows, mapping: RowMapping, columns: Sequence[str], options: Options) -> dict[str, CellType]:
    """The types of the columns that become fields of `json`. Cost: reads all rows, except in workers."""
    if parse_choice_option("csv", options, "types", ("auto", "text")) == "text":
        return {}
    if CELL_TYPES in options:
        return parse_cell_types(options[CELL_TYPES])
    others = {*mapping.media, mapping.key, mapping.text, mapping.split}
    values = (row.values for row in rows.rows(0) if row.fault is None)
    return infer_cell_types(values, [name for name in columns if name not in others])


class _ExportedTable(NamedTuple):
    """A table that `convert` wrote. `split`: the name of its folder, if that is below the source."""

    path: str
    split: str = ""


def _find_exported(path: str) -> list[_ExportedTable]:
    """The table that `convert` wrote to a file or a folder, or those of the folder's subfolders; empty if none."""
    if source_files.is_file(path):
        return [_ExportedTable(path)] if _is_exported(path) else []
    try:
        names = scan_folder(path, path)
    except OSError:
        return []  # opening the source reports the error
    own = [os.path.join(path, name) for name in names.files if name in _EXPORTED_FILES]
    if own:
        return [_ExportedTable(each) for each in own if _is_exported(each)]
    below = [
        _ExportedTable(os.path.join(path, folder, name), folder) for folder in names.folders for name in _EXPORTED_FILES
    ]
    return [each for each in below if source_files.is_file(each.path) and _is_exported(each.path)]


def _is_exported(path: str) -> bool:
    """Whether `convert` wrote a table: its first column is `__key__`, and some of its files have the paths of keys.

    Tables of others have such a column, too, such as those of data frames of WebDatasets.
    """
    if not path.lower().endswith(_EXTENSIONS):
        return False
    try:
        if not read_text_head(path, takes_compressed=True).startswith(_EXPORTED_HEADS):
            return False
        rows = [
            row.values for row in islice(TextRows([path], _open_reader(path, {"header": "yes"})).rows(0), PROBED_ROWS)
        ]
    except WdsctlError:
        return False  # opening the source reports the error
    cells = [(row[KEY_COLUMN], name, row[name]) for row in rows for name in row if not is_text_part(name) and row[name]]
    cells = [each for each in cells if each[1] != KEY_COLUMN]
    return not cells or any(cell == exported_file_path(key, name) for key, name, cell in cells)


def _open_exported(tables: Sequence[_ExportedTable], options: Options) -> Source:
    """The samples of tables that `convert` wrote. Their folders are splits if all are named so."""
    are_splits = all(re.split("[-_]", table.split.lower())[0] in SPLIT_NAMES for table in tables)
    splits = [table.split if are_splits else "" for table in tables]
    readers = [_ExportedReader(_open_reader(table.path, {"header": "yes"})) for table in tables]
    rows = TextRows([table.path for table in tables], readers, splits=splits)
    mapping = exported_row_mapping(CsvImporter.name, options)
    return make_row_source(rows, mapping, dict.fromkeys(filter(None, splits)), has_file_references=True)


class _ExportedReader:
    """The rows of a table that `convert` wrote: the key, `__files__`, and the texts of the other parts.

    A cell of a text column names a file only if it has the path that `convert` gives the file.
    """

    def __init__(self, reader: _CsvReader) -> None:
        self._reader = reader

    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        for record in self._reader.records(file, path, offset, line):
            if record.fault is not None:
                yield record
                continue
            key = record.values[KEY_COLUMN]
            cells = {name: cell for name, cell in record.values.items() if cell and name != KEY_COLUMN}
            files = {name: cell for name, cell in cells.items() if _is_file_cell(key, name, cell)}
            texts = {name: cell for name, cell in cells.items() if name not in files}
            yield record._replace(values={KEY_COLUMN: key, FILES_COLUMN: files, **texts})


def _is_file_cell(key: str, name: str, cell: str) -> bool:
    return not is_text_part(name) or cell == exported_file_path(key, name)


def _ending(path: str) -> str:
    """The ending of a table's name: `.csv` or `.csv.gz`."""
    return next(each for each in sorted(_EXTENSIONS, key=len, reverse=True) if path.lower().endswith(each))


class _CsvReader:
    """Parses the rows of a file into dicts of strings.

    `columns` are known before the first row is read. `rows_above`: how many rows precede the first one with values.
    `types`: those of the columns whose cells become numbers. `may_hold_rows`: whether a cell in quotes may have tabs
    and line breaks, which look like rows of a table of tabs.
    """

    def __init__(self, delimiter: str, quotes: str, encoding: str) -> None:
        self.columns: tuple[str, ...] = ()
        self.rows_above = 0
        self.may_hold_rows = delimiter != "\t"
        self.types: Mapping[str, CellType] = {}
        self._delimiter = delimiter
        self._encoding = encoding
        self._quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes == "yes" else csv.QUOTE_NONE

    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        skip = self.rows_above if offset == 0 else 0
        for record in islice(self.read_rows(file, path, offset, line), skip, None):
            cells, fault, *position = record
            values: dict[str, Any] = dict(zip(self.columns, cells, strict=False))
            fault = fault or _cells_error(cells, self.columns, path, position[0])
            if fault is None and not self.may_hold_rows and any("\t" in cell and "\n" in cell for cell in cells):
                fault = _bad_row_error("a cell in quotes has tabs and line breaks, as whole rows do", path, position[0])
            if fault is None and self.types:
                try:
                    values = convert_cells(values, self.types)
                except ValueError as error:  # the file has changed
                    fault = _bad_row_error(str(error), path, position[0])
            yield Record(values, fault, *position)

    def read_rows(
        self, file: BinaryIO, path: str, offset: int, line: int
    ) -> Iterator[tuple[list[str], WdsctlError | None, int, int, int]]:
        """Yield (cells, fault, first line, byte offset of the next row, line of the next row). Skips blank lines."""
        limit = scale_limit(_MAX_ROW_BYTES)
        csv.field_size_limit(limit)  # the module's default is 128 KiB
        begun, end, number = offset, offset, line

        def text() -> Iterator[str]:
            nonlocal end, number
            lines = iter_text_lines(file, path, offset, line, self._encoding)
            for raw, end, number in lines:
                if end - begun > limit:
                    raise long_line_error(f"the row in line {number - 1:,}", limit, path)
                yield decode_line(raw, self._encoding)

        cells = csv.reader(text(), delimiter=self._delimiter, quoting=self._quoting, strict=True)
        while True:
            begun, first = end, number
            try:
                row = next(cells)
            except StopIteration:
                return
            except csv.Error as error:
                yield [], _bad_row_error(str(error), path, first, number - first), first, end, number
                continue
            if row:
                yield row, None, first, end, number


def _cells_error(cells: list[str], columns: tuple[str, ...], path: str, line: int) -> WdsctlError | None:
    if len(cells) != len(columns):
        return _bad_row_error(f"{pluralize(len(cells), 'field')}, but the header has {len(columns)}", path, line)
    text = "".join(cells)
    if "\0" in text:
        return _bad_row_error("it contains a NUL byte", path, line)
    return _encoding_error("row", text, path, line)


def _encoding_error(what: str, text: str, path: str, line: int) -> WdsctlError | None:
    if not text.isascii() and _UNDECODED_BYTE.search(text):
        return DatasetError(
            f"the {what} cannot be decoded (as UTF-8, unless `-O encoding` names another encoding)",
            hint="pass the encoding of the file, such as `-O encoding=latin1`; or convert the file: `iconv -f "
            "LATIN1 -t UTF-8 OLD > NEW`",
            where=f"{path_for_message(path)}:{line}",
            code="WDS124",
        )
    return None


def _bad_row_error(why: str, path: str, line: int, lines: int = 1) -> WdsctlError:
    """`lines`: how many the row takes in. An opening quote without its end takes in the rows that follow, too."""
    hint = "correct the row; or set the CSV dialect: `-O delimiter=tab`, `-O quotes=no`"
    if why.startswith("new-line character"):
        why = "a line ends in a carriage return alone"
        hint = "convert the line ends: `tr '\\r' '\\n' < OLD > NEW`"
    elif why.startswith("a cell in quotes"):
        hint = "pass `-O quotes=no` if quotation marks are text, or `-O quotes=yes` if the cell is right"
    elif why == "unexpected end of data":
        why = "it opens a quote that the file never closes"
    if lines > 1:
        why = f"{why}; it takes in {lines:,} lines, to line {line + lines - 1:,}, which may be rows of their own"
    return DatasetError(
        f"the row cannot be read: {why}",
        hint=hint,
        where=f"{path_for_message(path)}:{line}",
        code="WDS232",
    )


def _read_first(path: str, options: Options | None = None) -> list[dict[str, Any]]:
    """The first rows of a table, for recognising it: a first row of data counts as one. Empty if it cannot be read."""
    try:
        reader = _open_reader(path, {"header": "auto", **(options or {})}, is_probe=True)
        rows = TextRows([path], reader).rows(0)
        return [
            dict(row.values) for row in islice(rows, PROBED_ROWS) if row.fault is None or row.fault.code == "WDS124"
        ]
    except WdsctlError:
        return []


def _open_reader(path: str, options: Options, *, is_probe: bool = False) -> _CsvReader:
    """The reader of a file, which knows encoding, delimiter and columns.

    Raises InputError WDS243 if the file has no header, DatasetError WDS124 if the first rows are not in the encoding.
    `is_probe`: take the columns of a file without a header as they come, and leave encodings to row faults.
    """
    head = read_text_head(path, encoding=options.get("encoding", ""), takes_utf16=True, takes_compressed=True)
    encoding = text_encoding(head, options)
    text = decode_line(head, encoding).removeprefix("\ufeff").lstrip("\r\n ")
    quotes = parse_choice_option("csv", options, "quotes", ("yes", "no"))
    header = parse_choice_option("csv", options, "header", ("auto", "yes"))
    stated = _SEP_LINE.match(text)
    delimiter = _delimiter(path, text, options, quotes, stated[1] if stated else "")
    reader = _CsvReader(delimiter, quotes, encoding)
    reader.rows_above = 1 if stated else 0
    reader.may_hold_rows |= "quotes" in options or text.startswith(f"{KEY_COLUMN}\t")
    reader.columns = parse_list_option(options, "columns")
    if len(set(reader.columns)) < len(reader.columns):
        raise UsageError(
            f"csv: invalid option columns={options['columns']}: two columns have the same name",
            hint="give each column a name of its own",
        )
    if not reader.columns:
        cells, *others = _read_first_cells(path, reader)
        if header == "auto" and _is_data(cells, others):
            if not is_probe:
                raise _no_header_error(path, cells, options)
            reader.columns = tuple(f"column_{i}" for i in range(1, len(cells) + 1))
        else:
            reader.columns = _column_names(path, cells)
            reader.rows_above += 1
    if not is_probe:
        with closing(TextRows([path], reader).rows(0)) as rows:
            faults = (row.fault for row in islice(rows, PROBED_ROWS))
            fault = next((each for each in faults if each and each.code == "WDS124"), None)
        if fault is not None:
            raise fault
    return reader


def _delimiter(path: str, text: str, options: Options, quotes: str, stated: str) -> str:
    """The delimiter that an option, a line `sep=;` or the name of the file says, or else the first rows suggest."""
    named = options.get("delimiter", "")
    if named:
        delimiter = _DELIMITERS.get(named, named)
        if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
            raise UsageError(
                f"csv: invalid option delimiter={named}", hint=f"use one character, or {', '.join(_DELIMITERS)}"
            )
        return delimiter
    if stated:
        return stated
    if text.encode("utf-8", "surrogateescape").startswith(_EXPORTED_HEADS):
        return text[len(KEY_COLUMN)]
    if strip_compression(path).lower().endswith(".tsv"):
        return "\t"
    lines = [f"{line}\n" for line in text.split("\n")]
    outside = "".join(lines[0].split('"')[::2])

    def fitness(delimiter: str) -> tuple[bool, int]:
        """(whether it divides all of the first rows into equally many cells, its count in the first line)."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes == "yes" else csv.QUOTE_NONE
        try:
            rows = [
                row for row in islice(csv.reader(lines, delimiter=delimiter, quoting=quoting), _PROBED_LINES) if row
            ]
        except csv.Error:
            rows = []
        counts = {len(row) for row in (rows[:-1] if len(rows) > 2 else rows)}  # the last one may be cut
        return len(counts) == 1 and counts != {1}, outside.count(delimiter)

    csv.field_size_limit(scale_limit(_MAX_ROW_BYTES))
    return max(",\t;|", key=fitness)


def _read_first_cells(path: str, reader: _CsvReader) -> list[list[str]]:
    """The cells of the first row, after a line `sep=;`, and of rows below it. Raises the fault of the first row."""
    with translate_os_errors(path, "read"), open_text_file(path) as file:
        rows = islice(reader.read_rows(file, path, 0, 1), reader.rows_above, reader.rows_above + _COMPARED_ROWS)
        found = [(cells, fault, line) for cells, fault, line, *_ in rows]
    if not found:
        raise InputError("the file has no rows", hint="check the path", where=path_for_message(path), code="WDS003")
    cells, fault, line = found[0]
    fault = fault or _encoding_error("header", "".join(cells), path, line)
    if fault is not None:
        raise fault
    return [cells for cells, *_ in found]


def _column_names(path: str, cells: list[str]) -> tuple[str, ...]:
    columns = tuple(cell.strip() or f"column_{i}" for i, cell in enumerate(cells))
    times = Counter(columns)
    twice = [column for column in columns if times[column] > 1]
    if twice:
        raise InputError(
            f"the header contains {path_for_message(twice[0])!r} twice",
            hint="rename one of the columns; if this row is not a header, name the columns: `-O columns=a,b,c`",
            where=f"{path_for_message(path)}:1",
            code="WDS232",
        )
    return columns


def _is_data(cells: list[str], others: Sequence[list[str]]) -> bool:
    """Whether a first row is data and no header: a cell names a file or is a URL, all cells are numbers, or all are
    sentences as those of `others`, the rows below it, or numbers.

    The numbers 0, 1, 2, ... are names of columns: pandas writes them for a table whose columns have none.
    """
    if any(is_media_path(cell) or is_url(cell) for cell in cells):
        return True
    sentences = [i for i, cell in enumerate(cells) if is_sentence(cell)]
    if sentences and all(i in sentences or not cell.strip() or _is_number(cell) for i, cell in enumerate(cells)):
        below = [is_sentence(row[i]) for row in others for i in sentences if i < len(row)]
        return 2 * sum(below) > len(below)
    return all(map(_is_number, cells)) and [cell.strip() for cell in cells] != [str(i) for i in range(len(cells))]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _no_header_error(path: str, cells: list[str], options: Options, named: str = "") -> InputError:
    """The error for a table without a header. `named`: a cell that names a file without its extension."""
    names = [f"column_{i}" for i in range(1, len(cells) + 1)]
    files = [i for i, cell in enumerate(cells) if is_media_path(cell) or (named and cell == named)]
    for i in files:
        names[i] = "file" if len(files) == 1 else f"file_{i + 1}"
    texts = [i for i, cell in enumerate(cells) if i not in files and " " in cell]
    if len(texts) == 1:
        names[texts[0]] = "text"
    others = {name: value for name, value in options.items() if name not in (CELL_TYPES, "key")}
    command = repeat_command(path, path, {**others, "columns": ",".join(names)}, keeps_folder=True)
    shown = path_for_message(", ".join(cells))[:80]
    return InputError(
        f"the table has no header: its first row is data ({shown})",
        hint=f"name the columns: {command}; or pass `-O header=yes` if this row is the header",
        where=f"{path_for_message(path)}:1",
        code="WDS243",
    )
