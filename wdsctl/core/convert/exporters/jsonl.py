"""Write JSONL with the media next to it: `samples.jsonl`, and `files/` with the parts that are not text.

A line is an object: `__key__`, `__files__` (part -> path relative to `samples.jsonl`), and the other parts by name:
texts as strings, JSON as values. A JSON part that would not keep its bytes is written as a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from wdsctl.core.convert.exporters import WrittenUnit
from wdsctl.core.convert.exporters.folder import PartFileWriter
from wdsctl.core.convert.exporters.rows_and_files import inline_bytes, join_rows, write_part_file, write_rows
from wdsctl.core.importers.common.files import part_extension
from wdsctl.core.importers.common.samples import FILES_COLUMN
from wdsctl.core.importers.common.values import check_format_options, encode_json
from wdsctl.core.importers.protocol import FilePart, Options, Part
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE, KEY_COLUMN

_SAMPLES_FILE = "samples.jsonl"


class JsonlExporter:
    """Writes JSONL from which `--from jsonl` restores the same samples, byte for byte."""

    name = "jsonl"
    about = "JSONL, with media files beside it"
    suffix = ""
    template = DEFAULT_TEMPLATE

    def check(self, options: Options) -> None:
        check_format_options(self.name, options, ())

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:  # noqa: ARG002 - of the protocol
        return write_rows(path, samples, _line, _SAMPLES_FILE)

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:  # noqa: ARG002 - of the protocol
        """Join the lines of all units."""
        join_rows(folder, units)


EXPORTER = JsonlExporter()


def _line(key: str, parts: Iterable[Part], files: PartFileWriter) -> bytes:
    file_names: dict[str, str] = {}
    values: dict[str, Any] = {}
    for part in parts:
        value = _inline_value(part)
        if value is None:
            file_names[part.name] = write_part_file(files, key, part)
        else:
            values[part.name] = value
    return encode_json({KEY_COLUMN: key, **({FILES_COLUMN: file_names} if file_names else {}), **values}) + b"\n"


def _inline_value(part: Part | FilePart) -> Any:
    """The value of a part in the line; None if the part is written as a file."""
    data = inline_bytes(part)
    if data is None or part.name in (KEY_COLUMN, FILES_COLUMN):
        return None
    try:
        if part_extension(part.name) != "json":
            return data.decode()
        value = read_json(data)
        is_same = not isinstance(value, str) and encode_json(value) == data
    except ValueError:
        return None
    return value if is_same else None
