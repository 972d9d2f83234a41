"""Write JSONL with the media next to it: `samples.jsonl`, and `files/` with the parts that are not text.

A unit is a folder with one file of lines. `convert` merges the folders of all units, and `finish` joins their lines.

A line is an object: `__key__`, `__files__` (part -> path relative to `samples.jsonl`), and the other parts by name:
texts as strings, JSON as values. A JSON part that would not keep its bytes is written as a file.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, BinaryIO

from wdsctl.core.convert.exporters import WrittenUnit
from wdsctl.core.convert.exporters.folder import PartFileWriter
from wdsctl.core.directories import join_beneath, open_folder
from wdsctl.core.errors import translate_os_errors
from wdsctl.core.files import fsync_path, open_in, remove_file, rename_in, write_atomically
from wdsctl.core.importers.protocol import FilePart, Options, Part
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.files import TEXT_PARTS, part_extension, part_path
from wdsctl.core.importers.records.samples import FILES_COLUMN, KEY_COLUMN
from wdsctl.core.importers.records.values import encode_json
from wdsctl.core.json_text import read_json

SAMPLES_FILE = "samples.jsonl"

_FILES_FOLDER = "files"
_MAX_INLINE_BYTES = 1 << 20  # longer texts are written as files


class JsonlExporter:
    """Writes JSONL from which `--from jsonl` restores the same samples, byte for byte."""

    name = "jsonl"
    about = "JSONL, with media files beside it"
    suffix = ""

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:
        given.check_format_options(self.name, options, ())
        lines = os.path.join(path, ".lines")
        count = size = 0
        digest = blake2b(digest_size=16)
        with translate_os_errors(lines), PartFileWriter(path) as files:
            with open(lines, "xb") as file:
                for key, parts in samples:
                    line = _line(key, parts, files)
                    digest.update(line)
                    count += 1
                    size += file.write(line)
            # All units are merged into one folder, so the name must be unique: a digest of the content.
            name = f".lines-{digest.hexdigest()}"
            fsync_path(lines)
            with open_folder(path) as folder:
                rename_in(folder, ".lines", name)
            files.sync()
        return WrittenUnit(
            os.path.basename(path), count, files.size_bytes + size, json.dumps({"lines": name, "line_bytes": size})
        )

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:  # noqa: ARG002 - of the protocol
        """Join the lines of all units, in their order, and remove the files of the units.

        If a killed run has joined the lines already, only the removal continues.
        """
        pieces = [join_beneath(folder, read_json(unit.facts)["lines"]) for unit in units if unit.samples]
        joined = os.path.join(folder, SAMPLES_FILE)
        if all(map(os.path.exists, pieces)) or not os.path.exists(joined):
            write_atomically(joined, lambda file: _join_units(pieces, file))
        for piece in pieces:
            remove_file(piece)


EXPORTER = JsonlExporter()


def _join_units(pieces: Iterable[str], file: BinaryIO) -> None:
    for piece in pieces:
        above, name = os.path.split(piece)
        with open_folder(above) as folder, open(open_in(folder, name), "rb") as lines:
            shutil.copyfileobj(lines, file, 1 << 20)


def _line(key: str, parts: Iterable[Part], files: PartFileWriter) -> bytes:
    file_names: dict[str, str] = {}
    values: dict[str, Any] = {}
    for part in parts:
        value = _inline_value(part)
        if value is None:
            name = f"{_FILES_FOLDER}/{part_path(key, part.name)}"
            files.write(name, part, key)
            file_names[part.name] = name
        else:
            values[part.name] = value
    return encode_json({KEY_COLUMN: key, **({FILES_COLUMN: file_names} if file_names else {}), **values}) + b"\n"


def _inline_value(part: Part | FilePart) -> Any:
    """The value of a part in the line; None if the part is written as a file."""
    kind = part_extension(part.name)
    if kind not in TEXT_PARTS and kind != "json":
        return None
    if isinstance(part, FilePart) or len(part.data) > _MAX_INLINE_BYTES or part.name in (KEY_COLUMN, FILES_COLUMN):
        return None
    try:
        if kind in TEXT_PARTS:
            return part.data.decode()
        value = json.loads(part.data)
        is_same = not isinstance(value, str) and encode_json(value) == part.data
    except (ValueError, RecursionError):
        return None
    return value if is_same else None
