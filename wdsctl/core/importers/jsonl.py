"""JSONL: one object per line; fields that name files become parts, all others one part `json`.

Lines with `__key__`, as `wdsctl convert --to jsonl` writes them, become the original samples.

Source: https://jsonlines.org (the format).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.dataset.shard_names import JSONL_SUFFIXES, UNPACK_COMMANDS, is_jsonl_name, unpack_command
from wdsctl.core.errors import DatasetError, InputError, WdsctlError, translate_os_errors
from wdsctl.core.importers.common.compressed import open_text_file
from wdsctl.core.importers.common.description import make_table_source
from wdsctl.core.importers.common.files import PROBED_ROWS
from wdsctl.core.importers.common.json_rows import begins_with_list
from wdsctl.core.importers.common.samples import FILES_COLUMN, TABLE_OPTIONS, RowMapping, exported_row_mapping
from wdsctl.core.importers.common.source import make_row_source
from wdsctl.core.importers.common.tables import (
    ReadFirstRows,
    Table,
    choose_tables,
    file_split_findings,
    find_tables,
    has_named_files,
    make_mapping,
    match_folder,
    open_table,
    path_splits,
)
from wdsctl.core.importers.common.text import (
    Record,
    TextRows,
    decode_line,
    iter_text_lines,
    read_text_head,
    text_encoding,
)
from wdsctl.core.importers.common.values import check_format_options, find_file_below
from wdsctl.core.importers.protocol import FormatMatch, Options, Source
from wdsctl.core.invocation import current_invocation
from wdsctl.core.json_text import read_json
from wdsctl.core.safe_open import check_entries_beneath
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.shards.jsonl_scan import is_truncated_json
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

#: Compressed lines are often called .json.gz: see `is_object_per_line`.
_JSON_EXTENSIONS = tuple(f".json{packed}" for packed in UNPACK_COMMANDS)
_EXTENSIONS = (
    *(f"{lines}{packed}" for lines in JSONL_SUFFIXES for packed in ("", *UNPACK_COMMANDS)),
    *_JSON_EXTENSIONS,
)
_SCORE_ALONE = 0.5  # of a folder whose lines name no files, if there are no media in it
_MAX_PROBED_FILES = 50  # files of a folder whose first lines decide which fields name files
_JSON = (".json",)
_MAX_DEPTH = 2  # levels of folders below the source that are searched


class JsonlImporter:
    """Reads one file, compressed or not, or the JSONL files of a folder, sorted by path: those whose lines name files
    of the folder, or else all of them. Option: `-O encoding=utf-16` (a byte order mark says the same).
    """

    name = "jsonl"
    about = "JSONL, one file or a folder of them, with fields that name files"

    def recognise(self, path: str) -> FormatMatch | None:
        if source_files.is_file(path):
            return _match_file(path)
        found = find_file_below(path, _is_lines_name, depth=_MAX_DEPTH)
        if found is None and _are_json_lines(path):  # as manifests of NeMo
            return match_folder(path, _JSON, _read_first, _SCORE_ALONE)
        match = None
        if found is not None and found.lower().endswith(_JSON_EXTENSIONS) and not is_object_per_line(found):
            return None
        if found is None or not _is_exported(found):  # exported lines name their files in a way of their own
            match = match_folder(path, _EXTENSIONS, _read_first, _SCORE_ALONE)
        if match is not None and match.score != _SCORE_ALONE:
            return match
        if found is None:
            return None
        is_exported = _is_exported(found) or os.path.basename(found) == "metadata.jsonl"
        return FormatMatch(
            0.95 if is_exported else _SCORE_ALONE, f"has {path_for_message(os.path.relpath(found, path))}"
        )

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, (*TABLE_OPTIONS, "encoding"))
        root = path if source_files.is_folder(path) else ""
        read = partial(_read_first, options=options)
        tables = [open_table(path, read(path), options)] if not root else _choose_files(root, read, options)
        files = [table.path for table in tables]
        readers = [_make_reader(file, options) for file in (files if len(files) <= _MAX_PROBED_FILES else files[:1])]
        readers += [readers[0]] * (len(files) - len(readers))
        first = [row for table in tables for row in table.rows]
        if _are_exported(tables, first):
            of_files = [each.split for each in path_splits(files, root)] if root else []
            exported = TextRows(files, readers, [table.names for table in tables], of_files)
            mapping = exported_row_mapping(self.name, options)
            return make_row_source(exported, mapping, dict.fromkeys(filter(None, of_files)), has_file_references=True)
        rows = TextRows(files, readers, [table.names for table in tables], [table.split for table in tables])
        mapping = make_mapping(self.name, options, tables, root, key="") if first else RowMapping()
        by_names = file_split_findings(files, root) if root and not mapping.split else []
        return make_table_source(
            rows,
            mapping,
            lambda: [row for table in tables for row in table.named_rows],
            splits=dict.fromkeys(table.split for table in tables if table.split),
            more_findings=by_names,
            root=root,
            has_file_references=bool(mapping.media),
        )


IMPORTER = JsonlImporter()


def _match_file(path: str) -> FormatMatch | None:
    if begins_with_list(path):
        return None
    if path.lower().endswith(_EXTENSIONS) and not path.lower().endswith(_JSON_EXTENSIONS):
        packed = ", compressed" if unpack_command(path) else ""
        return FormatMatch(0.8, f"the name ends in .jsonl or .ndjson{packed}")
    is_lines = path.lower().endswith((".json", *_JSON_EXTENSIONS)) and is_object_per_line(path)
    return FormatMatch(0.8, "each line is an object") if is_lines else None


def _are_json_lines(folder: str) -> bool:
    """Whether the tables of a folder that are called .json all have an object on each line."""
    paths = find_tables(folder, _JSON)
    return bool(paths) and all(map(is_object_per_line, paths))


def names_files(path: str) -> bool:
    """Whether the lines of a file, or of the files of a folder, name files that exist."""
    if source_files.is_folder(path):
        match = match_folder(path, _EXTENSIONS, _read_first, _SCORE_ALONE)
        return match is not None and match.score > _SCORE_ALONE
    rows = _read_first(path)
    return any(FILES_COLUMN in row for row in rows) or has_named_files(path, rows)


def has_only_compressed_lines(path: str) -> bool:
    """Whether all JSONL of a file or a folder is compressed."""
    if source_files.is_file(path):
        return not is_jsonl_name(path)
    return find_file_below(path, is_jsonl_name, depth=_MAX_DEPTH) is None


def _choose_files(root: str, read: ReadFirstRows, options: Options) -> list[Table]:
    """The files of a folder: those that name files of the folder, or else all of them."""
    is_json = find_file_below(root, _is_lines_name, depth=_MAX_DEPTH) is None and _are_json_lines(root)
    extensions = _JSON if is_json else _EXTENSIONS
    tables = choose_tables(root, extensions, read, options, joins_equal_fields=True, is_needed=is_json)
    if tables:
        return tables
    files = _list_files(root)
    splits = [each.split for each in path_splits(files, root)] or [""] * len(files)
    return [
        Table.without_files(file, read(file) if i < _MAX_PROBED_FILES else (), split)
        for i, (file, split) in enumerate(zip(files, splits, strict=True))
    ]


def _read_first(path: str, options: Options | None = None) -> list[dict[str, Any]]:
    """The first rows of a file. Empty if it cannot be read: opening it reports the error."""
    try:
        rows = TextRows([path], _make_reader(path, options or {})).rows(0)
        return [dict(row.values) for row in islice(rows, PROBED_ROWS) if row.fault is None]
    except WdsctlError:
        return []


def _make_reader(path: str, options: Options) -> _JsonlReader:
    """Raises InputError WDS121 for a file that is one list."""
    if begins_with_list(path):
        raise InputError(
            "the file is one JSON list, not an object on each line",
            hint=shell_command(current_invocation("convert", ())[0], path, "DEST", "--from", "json"),
            where=path_for_message(path),
            code="WDS121",
        )
    head = read_text_head(path, encoding=options.get("encoding", ""), takes_utf16=True, takes_compressed=True)
    return _JsonlReader(text_encoding(head, options))


def is_object_per_line(path: str) -> bool:
    """Whether the first two lines are one object each, as in JSONL files that are called .json or .json.gz."""
    try:
        with open_text_file(path) as file:
            lines = file.read(1 << 16).split(b"\n")
    except (OSError, WdsctlError):
        return False
    try:
        return len(lines) > 1 and lines[1].startswith(b"{") and isinstance(read_json(lines[0]), dict)
    except ValueError:
        return False


class _JsonlReader:
    def __init__(self, encoding: str) -> None:
        self._encoding = encoding

    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        """The lines that are not blank. A line that is no object becomes a row with a fault."""
        begun = line
        for raw, end, number in iter_text_lines(file, path, offset, line, self._encoding):
            # JSON is UTF-8: json.loads reports other bytes, and decoding every line first would cost time.
            data = (
                raw if self._encoding == "utf-8" else decode_line(raw, self._encoding).encode("utf-8", "surrogatepass")
            )
            text = data.strip(b" \t\r\n")
            if text:
                values, fault = _parse_line(text, path, begun, is_last=not data.endswith(b"\n"))
                yield Record(values, fault, begun, end, number)
            begun = number


def _parse_line(text: bytes, path: str, line: int, *, is_last: bool) -> tuple[dict[str, Any], WdsctlError | None]:
    try:
        value = read_json(text)
    except UnicodeDecodeError as error:
        return {}, _line_error(f"the line is not UTF-8 (byte {error.start:,})", path, line, "WDS124")
    except ValueError as error:
        if is_last and is_truncated_json(text):
            return {}, _line_error("the last line is truncated", path, line, "WDS122")
        return {}, _line_error(f"the line is not JSON: {error}", path, line, "WDS123")
    return (
        (value, None)
        if isinstance(value, dict)
        else ({}, _line_error("the line is not a JSON object", path, line, "WDS121"))
    )


def _line_error(message: str, path: str, line: int, code: str) -> WdsctlError:
    hint = "correct or remove the line"
    return DatasetError(message, hint=hint, where=f"{path_for_message(path)}:{line}", code=code)


def _list_files(path: str) -> list[str]:
    if source_files.is_file(path):
        return [path]
    alone = os.path.join(path, "metadata.jsonl")
    files = [alone] if source_files.is_file(alone) else []
    if not files and source_files.is_folder(path):
        files = sorted(_find_jsonl_files(path, path))
    if not files:
        raise InputError(
            "no JSONL file found", hint="name a .jsonl file, or a folder with some", where=path_for_message(path)
        )
    return files


def _find_jsonl_files(root: str, folder: str, depth: int = _MAX_DEPTH) -> Iterator[str]:
    """Yield the JSONL files of a folder, then those of its subfolders. Skips hidden names."""
    below = []
    with translate_os_errors(folder, "list"), source_files.scan(folder) as entries:
        for entry in check_entries_beneath(entries, root):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                below.append(entry.path)
            elif _is_lines_name(entry.name):
                yield entry.path
    for path in sorted(below) if depth else ():
        yield from _find_jsonl_files(root, path, depth - 1)


def _are_exported(tables: Sequence[Table], first: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the fields of rows are parts, as `convert` writes them, and no field of its own names a file.

    Tables of others have `__key__`, too, such as those of data frames of WebDatasets.
    """
    names_files = any(table.named for table in tables) and not any(FILES_COLUMN in row for row in first)
    return any(KEY_COLUMN in row for row in first) and not names_files


def _is_exported(file: str) -> bool:
    try:
        with open_text_file(file) as lines:
            return lines.readline(1 << 16).startswith(b'{"__key__":')
    except (OSError, WdsctlError):
        return False  # opening the source reports the error


def _is_lines_name(name: str) -> bool:
    return name.lower().endswith(_EXTENSIONS)
