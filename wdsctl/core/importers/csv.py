"""CSV and TSV: a row is a sample; columns that name files become parts, all others one part `json`.

Source: RFC 4180 (CSV); https://www.iana.org/assignments/media-types/text/tab-separated-values (TSV).
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, Literal

from wdsctl.core.errors import DatasetError, InputError, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.importers.protocol import FormatMatch, Options, Source
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.files import PROBED_ROWS, find_base, find_media_fields, list_references
from wdsctl.core.importers.records.samples import ROW_OPTIONS, RowMapping
from wdsctl.core.importers.records.source import make_row_source
from wdsctl.core.importers.records.text import MAX_LINE_BYTES, Record, TextRows, iter_lines, read_text_head
from wdsctl.core.safe_open import regular_file_opener
from wdsctl.core.text import path_for_message, pluralize

_EXTENSIONS = (".csv", ".tsv")
_DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}


class CsvImporter:
    """Options: `-O delimiter=tab`, `quotes=no` (quotes are plain characters), `columns=a,b` (there is no header)."""

    name = "csv"
    about = "a CSV or TSV file with columns that name files"

    def recognise(self, path: str) -> FormatMatch | None:
        file = _find_table(path)
        if not file.lower().endswith(_EXTENSIONS) or not os.path.isfile(file):
            return None
        return FormatMatch(0.9, f"the name ends in {os.path.splitext(file)[1]}" if file == path else "has metadata.csv")

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, (*ROW_OPTIONS, "delimiter", "quotes", "columns"))
        file = _find_table(path)
        head = read_text_head(file)
        reader = _CsvReader(
            _delimiter(file, head, options), given.parse_choice_option(self.name, options, "quotes", ("yes", "no"))
        )
        reader.columns = given.parse_list_option(options, "columns")
        reader.has_header = not reader.columns
        reader.columns = reader.columns or _header(file, reader)
        rows = TextRows([file], reader)
        first = [row.values for row in islice(rows.rows(0), PROBED_ROWS) if row.fault is None]
        media = find_media_fields(self.name, options, first or [dict.fromkeys(reader.columns, "")])
        base = find_base(os.path.dirname(file), list_references(first, media))
        shape = RowMapping.from_options(options, base=base, media=media, key=":stem" if media else ":row")
        return make_row_source(rows, shape, has_file_references=bool(media))


IMPORTER = CsvImporter()


class _CsvReader:
    """Parses the rows of a file into dicts of strings. `columns` are known before the first row is read."""

    def __init__(self, delimiter: str, quotes: str) -> None:
        self.columns: tuple[str, ...] = ()
        self.has_header = True
        self._delimiter = delimiter
        self._quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes == "yes" else csv.QUOTE_NONE

    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        is_header = self.has_header and offset == 0
        for record in self.read_rows(file, path, offset, line):
            cells, fault, *position = record
            if is_header:
                is_header = False
                continue
            values = dict(zip(self.columns, cells, strict=False))
            yield Record(values, fault or _column_count_error(cells, self.columns, path, position[0]), *position)

    def read_rows(
        self, file: BinaryIO, path: str, offset: int, line: int
    ) -> Iterator[tuple[list[str], WdsctlError | None, int, int, int]]:
        """Yield (cells, fault, first line, byte offset of the next row, line of the next row). Skips blank lines."""
        csv.field_size_limit(MAX_LINE_BYTES)  # the module's default is 128 KiB
        end, number = offset, line

        def text() -> Iterator[str]:
            nonlocal end, number
            for raw, end, number in iter_lines(file, path, offset, line):  # noqa: B007 - `read_rows` uses end and number
                yield raw.decode("utf-8", "surrogateescape")

        cells = csv.reader(text(), delimiter=self._delimiter, quoting=self._quoting, strict=True)
        while True:
            first = number
            try:
                row = next(cells)
            except StopIteration:
                return
            except csv.Error as error:
                yield [], _bad_row_error(str(error), path, first), first, end, number
                continue
            if row:
                yield row, None, first, end, number


def _column_count_error(cells: list[str], columns: tuple[str, ...], path: str, line: int) -> WdsctlError | None:
    if len(cells) != len(columns):
        return _bad_row_error(f"{pluralize(len(cells), 'field')}, and the header has {len(columns)}", path, line)
    return _encoding_error("row", cells, path, line)


def _encoding_error(what: str, cells: list[str], path: str, line: int) -> WdsctlError | None:
    if any("\udc80" <= letter <= "\udcff" for cell in cells if not cell.isascii() for letter in cell):
        return DatasetError(
            f"the {what} is not UTF-8",
            hint="`iconv -f LATIN1 -t UTF-8 OLD > NEW`, with the encoding that the file was written in",
            where=f"{path_for_message(path)}:{line}",
            code="WDS124",
        )
    return None


def _bad_row_error(why: str, path: str, line: int) -> WdsctlError:
    hint = "mend the row; `-O delimiter=tab` and `-O quotes=no` say how the file is written"
    if why.startswith("new-line character"):
        why = "a line ends in a carriage return alone"
        hint = "`tr '\\r' '\\n' < OLD > NEW` ends the lines as other systems do"
    elif why == "unexpected end of data":
        why = "a quote begins in it, and the file ends before the quote does"
    return DatasetError(
        f"the row cannot be read: {why}",
        hint=hint,
        where=f"{path_for_message(path)}:{line}",
        code="WDS232",
    )


def _find_table(path: str) -> str:
    """The path of the table: the path itself, or `metadata.csv` of a folder of images."""
    inside = os.path.join(path, "metadata.csv")
    return inside if os.path.isdir(path) and os.path.isfile(inside) else path


def _delimiter(path: str, head: bytes, options: Options) -> str:
    text = options.get("delimiter", "")
    if text:
        delimiter = _DELIMITERS.get(text, text)
        if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
            raise UsageError(f"csv does not know delimiter={text}", hint=f"one letter, or {', '.join(_DELIMITERS)}")
        return delimiter
    if path.lower().endswith(".tsv"):
        return "\t"
    outside = b"".join(head.lstrip().split(b"\n", 1)[0].split(b'"')[::2])
    return max(",\t;|", key=lambda delimiter: outside.count(delimiter.encode()))


def _header(path: str, reader: _CsvReader) -> tuple[str, ...]:
    with translate_os_errors(path, "read"), open(path, "rb", opener=regular_file_opener) as file:
        cells, fault, *_ = next(reader.read_rows(file, path, 0, 1))
    fault = fault or _encoding_error("header", cells, path, 1)
    if fault is not None:
        raise fault
    columns = tuple(cell.strip() or f"column_{i}" for i, cell in enumerate(cells))
    times = Counter(columns)
    twice = [column for column in columns if times[column] > 1]
    if twice:
        raise InputError(
            f"the header has {path_for_message(twice[0])!r} twice",
            hint="rename one, or name all columns: `-O columns=a,b,c` for a file without a header",
            where=f"{path_for_message(path)}:1",
            code="WDS232",
        )
    return columns
