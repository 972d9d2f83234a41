"""Formats with one file of rows and a folder of files: JSONL, CSV, TSV.

A unit is a folder with its rows in a hidden file, and `files/` with the parts that are files. `convert` merges the
folders of all units; then `join_rows` makes one file of their rows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import BinaryIO

from wdsctl.core.convert.exporters import WrittenUnit
from wdsctl.core.convert.exporters.folder import PartFileWriter
from wdsctl.core.directories import join_beneath, open_folder
from wdsctl.core.errors import translate_os_errors
from wdsctl.core.files import fsync_path, open_in, remove_file, rename_in, write_atomically
from wdsctl.core.importers.common.files import exported_file_path, is_text_part
from wdsctl.core.importers.protocol import FilePart, Part
from wdsctl.core.json_text import read_json

_MAX_INLINE_BYTES = 1 << 20  # longer texts are written as files


def write_rows(
    path: str,
    samples: Iterable[tuple[str, Iterator[Part]]],
    encode_row: Callable[[str, Iterable[Part], PartFileWriter], bytes],
    rows_file: str,
    head: bytes = b"",
) -> WrittenUnit:
    """Write a unit. `encode_row`: the row of a sample with its line end; writes the parts that are files.

    `rows_file`: the name of the file that all units share. `head`: its beginning, the same for all units.
    """
    lines = os.path.join(path, ".lines")
    count = size = 0
    digest = blake2b(digest_size=16)
    with translate_os_errors(lines), PartFileWriter(path) as files:
        with open(lines, "xb") as file:
            for key, parts in samples:
                line = encode_row(key, parts, files)
                digest.update(line)
                count += 1
                size += file.write(line)
        # All units are merged into one folder, so the name must be unique: a digest of the content.
        name = f".lines-{digest.hexdigest()}"
        fsync_path(lines)
        with open_folder(path) as folder:
            rename_in(folder, ".lines", name)
        files.sync()
    facts = json.dumps({"lines": name, "line_bytes": size, "rows_file": rows_file, "head": head.decode()})
    return WrittenUnit(os.path.basename(path), count, files.size_bytes + size, facts)


def join_rows(folder: str, units: Iterable[WrittenUnit]) -> None:
    """Join the rows of all units, in their order, in their shared file; remove the files of the units.

    If a killed run has joined the rows already, only the removal continues.
    """
    facts = [read_json(unit.facts) for unit in units if unit.samples]
    pieces = [join_beneath(folder, each["lines"]) for each in facts]
    joined = join_beneath(folder, facts[0]["rows_file"])
    if all(map(os.path.exists, pieces)) or not os.path.exists(joined):
        write_atomically(joined, lambda file: _join_pieces(facts[0]["head"].encode(), pieces, file))
    for piece in pieces:
        remove_file(piece)


def _join_pieces(head: bytes, pieces: Iterable[str], file: BinaryIO) -> None:
    file.write(head)
    for piece in pieces:
        above, name = os.path.split(piece)
        with open_folder(above) as folder, open(open_in(folder, name), "rb") as lines:
            shutil.copyfileobj(lines, file, 1 << 20)


def write_part_file(files: PartFileWriter, key: str, part: Part | FilePart) -> str:
    """Write a part as a file; returns its path, relative to the file of rows."""
    name = exported_file_path(key, part.name)
    files.write(name, part, key)
    return name


def inline_bytes(part: Part | FilePart) -> bytes | None:
    """The bytes of a part that may stand in the row, by its name and size; None for a part that is a file."""
    if isinstance(part, FilePart) or len(part.data) > _MAX_INLINE_BYTES:
        return None
    return part.data if is_text_part(part.name) else None
