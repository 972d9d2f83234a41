"""Write CSV with the media next to it: `samples.csv`, and `files/` with the parts that are not text.

The columns are `__key__` and the names of the parts. A cell holds the text of the part, or the path of its file,
relative to `samples.csv`: of media, and of texts that CSV cannot hold (empty, not UTF-8, with a NUL, over 1 MiB).
An empty cell means that the sample has no such part.

Source: RFC 4180 (CSV), with line feeds as line ends.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from wdsctl.core.convert.exporters import PartPresence, WrittenUnit
from wdsctl.core.convert.exporters.folder import PartFileWriter
from wdsctl.core.convert.exporters.rows_and_files import inline_bytes, join_rows, write_part_file, write_rows
from wdsctl.core.convert.exporters.spool import unstorable_part_error
from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.common.files import exported_file_path
from wdsctl.core.importers.common.samples import FILES_COLUMN
from wdsctl.core.importers.common.values import check_format_options
from wdsctl.core.importers.protocol import FilePart, Options, Part
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE, KEY_COLUMN

_SPECIAL = re.compile(r'[",\t\r\n]')


@dataclass(frozen=True)
class CsvExporter:
    """Writes CSV or TSV from which `--from csv` restores the same samples, byte for byte. `parts`: of the folder."""

    name: str = "csv"
    about: str = "CSV, with media files beside it"
    delimiter: str = ","
    suffix: str = ""
    template: str = DEFAULT_TEMPLATE
    parts: PartPresence = field(default_factory=dict)

    def check(self, options: Options) -> None:
        check_format_options(self.name, options, ())

    def check_options(self, parts: Collection[str], options: Options) -> None:
        """No option names a part."""

    def with_parts(self, parts: PartPresence, options: Options) -> CsvExporter:  # noqa: ARG002 - of the protocol
        """Raises DatasetError WDS237 for a part whose name cannot be a column."""
        for name in parts:
            if name in (KEY_COLUMN, FILES_COLUMN) or name != name.strip() or "\0" in name or not _is_utf8(name):
                raise DatasetError(
                    f"the part {name!r} has a name that cannot be a column",
                    hint="rename the part: `--rename-part OLD=NEW`",
                    code="WDS237",
                )
        return replace(self, parts=parts)

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:  # noqa: ARG002
        columns = sorted(self.parts)
        head = _encode_row(self.delimiter, (KEY_COLUMN, *columns))
        return write_rows(path, samples, partial(_row, self.delimiter, columns), f"samples.{self.name}", head)

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:  # noqa: ARG002 - of the protocol
        """Join the rows of all units below the header."""
        join_rows(folder, units)


EXPORTER = CsvExporter()


def _row(delimiter: str, columns: Sequence[str], key: str, parts: Iterable[Part], files: PartFileWriter) -> bytes:
    if not _is_utf8(key):
        raise DatasetError(
            "the key is not UTF-8, which this format cannot store",
            hint="use `--to folder`, which keeps names of any bytes",
            where=f"sample {key!r}",
            code="WDS237",
        )
    cells = dict.fromkeys(columns, "")
    for part in parts:
        if part.name not in cells:
            raise unstorable_part_error(key, part.name, "is not in the listing of its source, so it has no column")
        cells[part.name] = _inline_text(key, part) or write_part_file(files, key, part)
    return _encode_row(delimiter, (key, *cells.values()))


def _inline_text(key: str, part: Part | FilePart) -> str:
    """The text of a part in its cell; empty if the part is written as a file.

    A text that reads like the path of its own file is a file too: then a cell with this path always means the file.
    """
    data = inline_bytes(part)
    if data is None or b"\0" in data:
        return ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return "" if text == exported_file_path(key, part.name) else text


def _encode_row(delimiter: str, cells: Iterable[str]) -> bytes:
    quoted = ('"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell for cell in cells)
    return f"{delimiter.join(quoted)}\n".encode()


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
