"""CSV and TSV: a row is a sample; columns that name files become parts, the others one part `json`.

Source: RFC 4180 (CSV); https://www.iana.org/assignments/media-types/text/tab-separated-values (TSV).
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, Literal

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.media_fields import LOOKED_AT, media_fields, references
from wdsctl.core.convert.rows.references import base_of
from wdsctl.core.convert.rows.samples import OPTIONS, Shape
from wdsctl.core.convert.rows.source import row_source
from wdsctl.core.convert.rows.text_rows import LONGEST, Record, TextRows, check_text, lines_of
from wdsctl.core.convert.source import Options, Recognised, Source
from wdsctl.core.counted import counted
from wdsctl.core.errors import DatasetError, InputError, UsageError, WdsctlError
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named
from wdsctl.core.regular_file import regular

_ENDINGS = (".csv", ".tsv")
_DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}


class CsvTable:
    """`-O delimiter=tab`, `quotes=no` (a quote is a letter), `columns=a,b` (there is no header)."""

    name = "csv"
    about = "a CSV or TSV file with columns that name files"

    def recognise(self, path: str) -> Recognised | None:
        file = _file(path)
        if not file.lower().endswith(_ENDINGS) or not os.path.isfile(file):
            return None
        return Recognised(0.9, f"the name ends in {os.path.splitext(file)[1]}" if file == path else "has metadata.csv")

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, (*OPTIONS, "delimiter", "quotes", "columns"))
        file = _file(path)
        head = check_text(file)
        reader = _Reader(_delimiter(file, head, options), given.one_of(self.name, options, "quotes", ("yes", "no")))
        reader.columns = given.names(options, "columns")
        reader.has_header = not reader.columns
        reader.columns = reader.columns or _header(file, reader)
        rows = TextRows([file], reader)
        first = [row.values for row in islice(rows.rows(0), LOOKED_AT) if row.fault is None]
        media = media_fields(self.name, options, first or [dict.fromkeys(reader.columns, "")])
        base = base_of(os.path.dirname(file), references(first, media))
        shape = Shape.of(options, base=base, media=media, key=":stem" if media else ":row")
        return row_source(rows, shape, names_files=bool(media))


IMPORTER = CsvTable()


class _Reader:
    """Rows of one file, each a dict of texts. `columns` are known before the first row is read."""

    def __init__(self, delimiter: str, quotes: str) -> None:
        self.columns: tuple[str, ...] = ()
        self.has_header = True
        self._delimiter = delimiter
        self._quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes == "yes" else csv.QUOTE_NONE

    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        is_header = self.has_header and offset == 0
        for record in self.lists(file, path, offset, line):
            cells, fault, *place = record
            if is_header:
                is_header = False
                continue
            values = dict(zip(self.columns, cells, strict=False))
            yield Record(values, fault or _misfit(cells, self.columns, path, place[0]), *place)

    def lists(
        self, file: BinaryIO, path: str, offset: int, line: int
    ) -> Iterator[tuple[list[str], WdsctlError | None, int, int, int]]:
        """(cells, fault, its first line, where the next row begins, its line). Blank lines are passed over."""
        csv.field_size_limit(LONGEST)  # the module's default is 128 KiB
        end, number = offset, line

        def text() -> Iterator[str]:
            nonlocal end, number
            for raw, end, number in lines_of(file, path, offset, line):  # noqa: B007 - kept for who asks
                yield raw.decode("utf-8", "surrogateescape")

        cells = csv.reader(text(), delimiter=self._delimiter, quoting=self._quoting, strict=True)
        while True:
            first = number
            try:
                row = next(cells)
            except StopIteration:
                return
            except csv.Error as error:
                yield [], _bad_row(str(error), path, first), first, end, number
                continue
            if row:
                yield row, None, first, end, number


def _misfit(cells: list[str], columns: tuple[str, ...], path: str, line: int) -> WdsctlError | None:
    if len(cells) != len(columns):
        return _bad_row(f"{counted(len(cells), 'field')}, and the header has {len(columns)}", path, line)
    return _not_text("row", cells, path, line)


def _not_text(what: str, cells: list[str], path: str, line: int) -> WdsctlError | None:
    if any("\udc80" <= letter <= "\udcff" for cell in cells if not cell.isascii() for letter in cell):
        return DatasetError(
            f"the {what} is not UTF-8",
            hint="`iconv -f LATIN1 -t UTF-8 OLD > NEW`, with the encoding that the file was written in",
            where=f"{named(path)}:{line}",
            code="WDS124",
        )
    return None


def _bad_row(why: str, path: str, line: int) -> WdsctlError:
    hint = "mend the row; `-O delimiter=tab` and `-O quotes=no` say how the file is written"
    if why.startswith("new-line character"):
        why = "a line ends in a carriage return alone"
        hint = "`tr '\\r' '\\n' < OLD > NEW` ends the lines as other systems do"
    elif why == "unexpected end of data":
        why = "a quote begins in it, and the file ends before the quote does"
    return DatasetError(
        f"the row cannot be read: {why}",
        hint=hint,
        where=f"{named(path)}:{line}",
        code="WDS232",
    )


def _file(path: str) -> str:
    """The table: the path itself, or the one that a folder of images has."""
    inside = os.path.join(path, "metadata.csv")
    return inside if os.path.isdir(path) and os.path.isfile(inside) else path


def _delimiter(path: str, head: bytes, options: Options) -> str:
    said = options.get("delimiter", "")
    if said:
        delimiter = _DELIMITERS.get(said, said)
        if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
            raise UsageError(f"csv does not know delimiter={said}", hint=f"one letter, or {', '.join(_DELIMITERS)}")
        return delimiter
    if path.lower().endswith(".tsv"):
        return "\t"
    outside = b"".join(head.lstrip().split(b"\n", 1)[0].split(b'"')[::2])
    return max(",\t;|", key=lambda delimiter: outside.count(delimiter.encode()))


def _header(path: str, reader: _Reader) -> tuple[str, ...]:
    with translated(path, "read"), open(path, "rb", opener=regular) as file:
        cells, fault, *_ = next(reader.lists(file, path, 0, 1))
    fault = fault or _not_text("header", cells, path, 1)
    if fault is not None:
        raise fault
    columns = tuple(cell.strip() or f"column_{i}" for i, cell in enumerate(cells))
    times = Counter(columns)
    twice = [column for column in columns if times[column] > 1]
    if twice:
        raise InputError(
            f"the header has {named(twice[0])!r} twice",
            hint="rename one, or name all columns: `-O columns=a,b,c` for a file without a header",
            where=f"{named(path)}:1",
            code="WDS232",
        )
    return columns
