"""JSONL: an object a line; fields that name files become parts, the others one part `json`.

Lines with `__key__`, as `wdsctl convert --to jsonl` writes them, become the samples that they were.

Source: https://jsonlines.org (the form).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from wdsctl.core.beneath import inside_only
from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.looking import first_below
from wdsctl.core.convert.rows.media_fields import LOOKED_AT, media_fields, references
from wdsctl.core.convert.rows.references import base_of
from wdsctl.core.convert.rows.samples import KEY, OPTIONS, Shape, kept_shape
from wdsctl.core.convert.rows.source import row_source
from wdsctl.core.convert.rows.text_rows import Record, TextRows, check_text, lines_of
from wdsctl.core.convert.source import Options, Recognised, Source
from wdsctl.core.errors import DatasetError, InputError, WdsctlError
from wdsctl.core.line_files import is_lines
from wdsctl.core.lines import is_cut
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named

_DEEPEST = 2  # folders below the one that is given in which files of lines are looked for


class JsonLines:
    """One file, or all files of lines in a folder, sorted by path."""

    name = "jsonl"
    about = "JSONL, one file or a folder of them, with fields that name files"

    def recognise(self, path: str) -> Recognised | None:
        if os.path.isfile(path):
            return Recognised(0.8, "the name ends in .jsonl or .ndjson") if is_lines(path) else None
        if os.path.isfile(os.path.join(path, "metadata.jsonl")):
            return Recognised(0.95, "has metadata.jsonl")
        found = first_below(path, is_lines, depth=_DEEPEST)
        if found is None:
            return None
        return Recognised(0.95 if _is_ours(found) else 0.5, f"has {named(os.path.relpath(found, path))}")

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, OPTIONS)
        files = _files(path)
        for file in files[:1]:
            check_text(file)
        rows = TextRows(files, _Reader())
        first = [row for row in islice(rows.rows(0), LOOKED_AT) if row.fault is None]
        values = [row.values for row in first]
        if any(KEY in row for row in values):
            return row_source(rows, kept_shape(self.name, options), names_files=True)
        media = media_fields(self.name, options, values) if values else ()
        base = base_of(os.path.dirname(files[0]), references(values, media)) if len(files) == 1 else ""
        shape = Shape.of(options, base=base, media=media, key=":stem" if media else ":row")
        return row_source(rows, shape, names_files=bool(media))


IMPORTER = JsonLines()


class _Reader:
    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        """Lines that are not blank. One that is no object has a fault and keeps its place."""
        begun = line
        for raw, end, number in lines_of(file, path, offset, line):
            text = raw.strip(b" \t\r\n")
            if text:
                values, fault = _parsed(text, path, begun, is_last=not raw.endswith(b"\n"))
                yield Record(values, fault, begun, end, number)
            begun = number


def _parsed(text: bytes, path: str, line: int, *, is_last: bool) -> tuple[dict[str, Any], WdsctlError | None]:
    try:
        value = json.loads(text)
    except UnicodeDecodeError as error:
        return {}, _fault(f"the line is not UTF-8 (byte {error.start:,})", path, line, "WDS124")
    except (ValueError, RecursionError) as error:
        if is_last and is_cut(text):
            return {}, _fault("the last line is cut", path, line, "WDS122")
        return {}, _fault(f"the line is no JSON: {error}", path, line, "WDS123")
    return (value, None) if isinstance(value, dict) else ({}, _fault("the line is no object", path, line, "WDS121"))


def _fault(message: str, path: str, line: int, code: str) -> WdsctlError:
    hint = "mend the line, or remove it"
    return DatasetError(message, hint=hint, where=f"{named(path)}:{line}", code=code)


def _files(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    alone = os.path.join(path, "metadata.jsonl")
    files = [alone] if os.path.isfile(alone) else sorted(_lines_in(path, path)) if os.path.isdir(path) else []
    if not files:
        raise InputError(
            "there is no file of lines", hint="name a .jsonl file, or a folder with some", where=named(path)
        )
    return files


def _lines_in(root: str, folder: str, depth: int = _DEEPEST) -> Iterator[str]:
    """Files of lines in a folder and the folders in it, the shallow ones first. Hidden names are passed over."""
    below = []
    with translated(folder, "list"), os.scandir(folder) as entries:
        for entry in inside_only(entries, root):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                below.append(entry.path)
            elif is_lines(entry.name):
                yield entry.path
    for path in sorted(below) if depth else ():
        yield from _lines_in(root, path, depth - 1)


def _is_ours(file: str) -> bool:
    try:
        with open(file, "rb") as lines:
            return lines.readline(1 << 16).startswith(b'{"__key__":')
    except OSError:
        return False
