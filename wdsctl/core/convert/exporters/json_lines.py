"""To JSONL with the media beside: `samples.jsonl`, and `files/` with what is no text.

A unit is a folder, with its lines in a file of its own. All units come into one folder, and their lines into one file.

A line is an object: `__key__`, `__files__` (part -> path from the folder of the file), and the other parts by their
names: texts as strings, JSON as it is. JSON that would not come out byte for byte is a file.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, BinaryIO

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.file_names import TEXTS, ending, file_name
from wdsctl.core.convert.rows.files_of_parts import PartFiles
from wdsctl.core.convert.rows.samples import FILES, KEY
from wdsctl.core.convert.rows.values import as_json
from wdsctl.core.convert.source import LargePart, Options, Part
from wdsctl.core.convert.target import Unit
from wdsctl.core.files import read_in, remove_file, rename_in, sync, write_whole
from wdsctl.core.folders import held, inside
from wdsctl.core.json_text import read_json
from wdsctl.core.os_errors import translated

LINES = "samples.jsonl"

_FOLDER = "files"
_IN_LINE = 1 << 20  # bytes up to which a text stands in the line


class JsonLines:
    """Reading it back (`--from jsonl`) gives the same samples, byte for byte."""

    name = "jsonl"
    about = "JSONL, and the media beside it"
    suffix = ""

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> Unit:
        given.checked(self.name, options, ())
        lines = os.path.join(path, ".lines")
        count = size = 0
        digest = blake2b(digest_size=16)
        with translated(lines), PartFiles(path) as files:
            with open(lines, "xb") as file:
                for key, parts in samples:
                    line = _line(key, parts, files)
                    digest.update(line)
                    count += 1
                    size += file.write(line)
            # A name that no other unit has, as all units come into one folder: its content's.
            name = f".lines-{digest.hexdigest()}"
            sync(lines)
            with held(path) as folder:
                rename_in(folder, ".lines", name)
            files.sync()
        return Unit(os.path.basename(path), count, files.size_bytes + size, json.dumps({"lines": name}))

    def finish(self, folder: str, units: Iterable[Unit], options: Options) -> None:  # noqa: ARG002 - of the protocol
        """Join the lines of all units, in their order. Done once, after a kill it takes away what was joined."""
        pieces = [inside(folder, read_json(unit.facts)["lines"]) for unit in units if unit.samples]
        joined = os.path.join(folder, LINES)
        if all(map(os.path.exists, pieces)) or not os.path.exists(joined):
            write_whole(joined, lambda file: _join(pieces, file))
        for piece in pieces:
            remove_file(piece)


EXPORTER = JsonLines()


def _join(pieces: Iterable[str], file: BinaryIO) -> None:
    for piece in pieces:
        above, name = os.path.split(piece)
        with held(above) as folder, open(read_in(folder, name), "rb") as lines:
            shutil.copyfileobj(lines, file, 1 << 20)


def _line(key: str, parts: Iterable[Part], files: PartFiles) -> bytes:
    beside: dict[str, str] = {}
    values: dict[str, Any] = {}
    for part in parts:
        value = _value(part)
        if value is None:
            name = f"{_FOLDER}/{file_name(key, part.name)}"
            files.write(name, part, key)
            beside[part.name] = name
        else:
            values[part.name] = value
    return as_json({KEY: key, **({FILES: beside} if beside else {}), **values}) + b"\n"


def _value(part: Part | LargePart) -> Any:
    """What stands in the line for a part; None where it is a file."""
    kind = ending(part.name)
    if kind not in TEXTS and kind != "json":
        return None
    if isinstance(part, LargePart) or len(part.data) > _IN_LINE or part.name in (KEY, FILES):
        return None
    try:
        if kind in TEXTS:
            return part.data.decode()
        value = json.loads(part.data)
        is_same = not isinstance(value, str) and as_json(value) == part.data
    except (ValueError, RecursionError):
        return None
    return value if is_same else None
