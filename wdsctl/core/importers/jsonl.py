"""JSONL: one object per line; fields that name files become parts, all others one part `json`.

Lines with `__key__`, as `wdsctl convert --to jsonl` writes them, become the original samples.

Source: https://jsonlines.org (the format).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import DatasetError, InputError, WdsctlError, translate_os_errors
from wdsctl.core.importers.protocol import FormatMatch, Options, Source
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.conversations import has_conversations
from wdsctl.core.importers.records.files import PROBED_ROWS, find_base, find_media_fields, list_references
from wdsctl.core.importers.records.samples import KEY_COLUMN, ROW_OPTIONS, RowMapping, exported_row_mapping
from wdsctl.core.importers.records.source import make_conversation_source, make_row_source
from wdsctl.core.importers.records.text import Record, TextRows, iter_lines, read_text_head
from wdsctl.core.importers.records.values import find_file_below
from wdsctl.core.safe_open import check_entries_beneath, regular_file_opener
from wdsctl.core.shards.jsonl_scan import is_truncated_json
from wdsctl.core.text import path_for_message

_MAX_DEPTH = 2  # levels of folders below the source that are searched


class JsonlImporter:
    """Reads one file, or all JSONL files of a folder, sorted by path."""

    name = "jsonl"
    about = "JSONL, one file or a folder of them, with fields that name files"

    def recognise(self, path: str) -> FormatMatch | None:
        if os.path.isfile(path):
            return FormatMatch(0.8, "the name ends in .jsonl or .ndjson") if is_jsonl_name(path) else None
        if os.path.isfile(os.path.join(path, "metadata.jsonl")):
            return FormatMatch(0.95, "has metadata.jsonl")
        found = find_file_below(path, is_jsonl_name, depth=_MAX_DEPTH)
        if found is None:
            return None
        return FormatMatch(
            0.95 if _is_exported(found) else 0.5, f"has {path_for_message(os.path.relpath(found, path))}"
        )

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, ROW_OPTIONS)
        files = _list_files(path)
        for file in files[:1]:
            read_text_head(file)
        rows = TextRows(files, _JsonlReader())
        first = [row for row in islice(rows.rows(0), PROBED_ROWS) if row.fault is None]
        values = [row.values for row in first]
        if any(KEY_COLUMN in row for row in values):
            return make_row_source(rows, exported_row_mapping(self.name, options), has_file_references=True)
        if has_conversations(values):
            return make_conversation_source(
                self.name, options, rows, values, os.path.dirname(files[0]) if len(files) == 1 else None
            )
        media = find_media_fields(self.name, options, values) if values else ()
        base = find_base(os.path.dirname(files[0]), list_references(values, media)) if len(files) == 1 else ""
        shape = RowMapping.from_options(options, base=base, media=media, key=":stem" if media else ":row")
        return make_row_source(rows, shape, has_file_references=bool(media))


IMPORTER = JsonlImporter()


class _JsonlReader:
    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        """The lines that are not blank. A line that is no object becomes a row with a fault."""
        begun = line
        for raw, end, number in iter_lines(file, path, offset, line):
            text = raw.strip(b" \t\r\n")
            if text:
                values, fault = _parse_line(text, path, begun, is_last=not raw.endswith(b"\n"))
                yield Record(values, fault, begun, end, number)
            begun = number


def _parse_line(text: bytes, path: str, line: int, *, is_last: bool) -> tuple[dict[str, Any], WdsctlError | None]:
    try:
        value = json.loads(text)
    except UnicodeDecodeError as error:
        return {}, _line_error(f"the line is not UTF-8 (byte {error.start:,})", path, line, "WDS124")
    except (ValueError, RecursionError) as error:
        if is_last and is_truncated_json(text):
            return {}, _line_error("the last line is cut", path, line, "WDS122")
        return {}, _line_error(f"the line is no JSON: {error}", path, line, "WDS123")
    return (
        (value, None) if isinstance(value, dict) else ({}, _line_error("the line is no object", path, line, "WDS121"))
    )


def _line_error(message: str, path: str, line: int, code: str) -> WdsctlError:
    hint = "mend the line, or remove it"
    return DatasetError(message, hint=hint, where=f"{path_for_message(path)}:{line}", code=code)


def _list_files(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    alone = os.path.join(path, "metadata.jsonl")
    files = [alone] if os.path.isfile(alone) else sorted(_find_jsonl_files(path, path)) if os.path.isdir(path) else []
    if not files:
        raise InputError(
            "there is no file of lines", hint="name a .jsonl file, or a folder with some", where=path_for_message(path)
        )
    return files


def _find_jsonl_files(root: str, folder: str, depth: int = _MAX_DEPTH) -> Iterator[str]:
    """Yield the JSONL files of a folder, then those of its subfolders. Skips hidden names."""
    below = []
    with translate_os_errors(folder, "list"), os.scandir(folder) as entries:
        for entry in check_entries_beneath(entries, root):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                below.append(entry.path)
            elif is_jsonl_name(entry.name):
                yield entry.path
    for path in sorted(below) if depth else ():
        yield from _find_jsonl_files(root, path, depth - 1)


def _is_exported(file: str) -> bool:
    try:
        with open(file, "rb", opener=regular_file_opener) as lines:
            return lines.readline(1 << 16).startswith(b'{"__key__":')
    except OSError:
        return False
