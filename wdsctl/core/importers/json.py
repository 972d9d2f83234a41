"""JSON: a list of objects, an object with one such list, or an object of rows; an object of the list is a sample.

Fields that name files become parts, all others one part `json`, as for JSONL. Objects with conversations (LLaVA,
ShareGPT, OpenAI messages) become conversations with their media.

Sources: RFC 8259 (JSON); https://github.com/haotian-liu/LLaVA (docs/Finetune_Custom_Data.md),
https://github.com/hiyouga/LLaMA-Factory (data/README.md), https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from functools import partial

from wdsctl.core.dataset.raw_folder import has_object_per_line
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import InputError, WdsctlError
from wdsctl.core.importers.common.commands import repeat_command
from wdsctl.core.importers.common.conversations import has_conversations
from wdsctl.core.importers.common.description import make_table_source
from wdsctl.core.importers.common.documents import has_documents
from wdsctl.core.importers.common.folder_files import is_document, scan_folder
from wdsctl.core.importers.common.json_rows import JsonRows, JsonTable, begins_with_list, find_damage, find_lists
from wdsctl.core.importers.common.named_files import Rows
from wdsctl.core.importers.common.samples import TABLE_OPTIONS, FileNames
from wdsctl.core.importers.common.tables import (
    choose_tables,
    first_rows,
    iter_files,
    make_mapping,
    match_folder,
    open_table,
)
from wdsctl.core.importers.common.text import read_text_head
from wdsctl.core.importers.common.values import check_format_options, read_head
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Source
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message

_EXTENSIONS = (".json",)

_STRUCTURED_SCORE = 0.9  # of conversations and interleaved documents
_FILE_SCORE = 0.6
_NO_ROWS_SCORE = 0.1  # without rows, or damaged: opening it says so
_MAX_LONE_FILES = 10
_FOLDER_SCORE = 0.5  # of a folder whose tables name no files, if there are no media in it


class JsonImporter:
    """Option: `-O rows=data.items` names the list, if an object has several."""

    name = "json"
    about = "a JSON list of objects, or an object with one, with fields that name files, or with conversations"

    def recognise(self, path: str) -> FormatMatch | None:
        return _match_folder(path) if source_files.is_folder(path) else _match_file(path)

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, (*TABLE_OPTIONS, "rows"))
        root = path if source_files.is_folder(path) else ""
        read = partial(_read_first, options=options)
        tables = choose_tables(root, _EXTENSIONS, read, options) if root else [open_table(path, read(path), options)]
        for table in tables:
            read_text_head(table.path)
        found = [JsonTable(table.path, table.names, table.split, options.get("rows", "")) for table in tables]
        rows = JsonRows(found)
        mapping = make_mapping(self.name, options, tables, root, key="")
        return make_table_source(
            rows,
            mapping,
            lambda: [row for table in tables for row in table.named_rows],
            splits=dict.fromkeys(table.split for table in tables if table.split),
            root=root,
            has_file_references=bool(mapping.media),
            more_uses=lambda: [use for table in found for use in _other_members(table)],
        )


IMPORTER = JsonImporter()


def check_lone_json(folder: str) -> None:
    """Raise the error of a JSON file at the top of a raw folder that cannot be read, so that its rows were not found:
    DatasetError WDS233 if it is damaged, InputError WDS121 if it is one list in a file of lines.

    Files that share a name with others are parts of samples. Cost: reads the first rows, of objects all.
    """
    try:
        names = scan_folder(folder, folder).files
    except OSError:
        return
    stems = Counter(name.partition(".")[0] for name in names)
    lone = [name for name in names if stems[name.partition(".")[0]] == 1]
    for name in [name for name in lone if name.lower().endswith(_EXTENSIONS) or is_jsonl_name(name)][:_MAX_LONE_FILES]:
        path = os.path.join(folder, name)
        if not name.lower().endswith(_EXTENSIONS):
            if begins_with_list(path):
                renamed = f"{os.path.splitext(path)[0]}.json"
                raise InputError(
                    "the file is one JSON list, not an object on each line",
                    hint=f"rename it: `mv {shlex.quote(path)} {shlex.quote(renamed)}`, and run the same command again",
                    where=path_for_message(path),
                    code="WDS121",
                )
            continue
        damage = find_damage(path)
        if damage is not None and not has_object_per_line(read_head(path).decode("utf-8", "replace")):
            raise damage


def _match_folder(path: str) -> FormatMatch | None:
    match = match_folder(path, _EXTENSIONS, _read_first, _FOLDER_SCORE)
    if match is None or match.score < _FOLDER_SCORE:
        return None  # beside media, JSON files that name nothing are metadata of something else
    # Without other files, they are tables if each has several rows.
    is_table = match.score > _FOLDER_SCORE or (
        all(name.lower().endswith(_EXTENSIONS) or is_document(name) for name in iter_files(path))
        and all(len(_read_first(table)) > 1 for table in match.tables)
    )
    return match if is_table else None


def _match_file(path: str) -> FormatMatch | None:
    is_named_lines = is_jsonl_name(path)
    if not (path.lower().endswith(_EXTENSIONS) or is_named_lines) or not source_files.is_file(path):
        return None
    if is_named_lines and not begins_with_list(path):
        return None
    rows = _read_first(path)
    if (is_chat := has_conversations(rows)) or has_documents(rows, {}):
        return FormatMatch(_STRUCTURED_SCORE, f"a list of {'conversations' if is_chat else 'documents'}")
    if rows:
        return FormatMatch(_FILE_SCORE, "has a list of objects, or an object of them")
    head = read_head(path).removeprefix(b"\xef\xbb\xbf").lstrip()
    return FormatMatch(_NO_ROWS_SCORE, "JSON whose rows were not found") if head.startswith((b"[", b"{")) else None


def _read_first(path: str, options: Options | None = None) -> Rows:
    """The first rows of a file. Empty if it has none, or cannot be read: opening it reports the error."""
    rows: JsonRows | None = None
    try:
        read_text_head(path)
        rows = JsonRows([JsonTable(path, FileNames(""), "", (options or {}).get("rows", ""))])
        return first_rows(lambda: (row.values for row in rows.rows(0) if row.fault is None))
    except WdsctlError:
        return []
    finally:
        if rows is not None:
            rows.close()


def _other_members(table: JsonTable) -> list[FieldUse]:
    """What an object holds beside its list of rows.

    Raises InputError WDS244 if it has a second list of objects: either could be the rows. Cost: reads the whole file.
    """
    found = find_lists(table.path)
    lists = [name for name, is_list in found.items() if is_list]
    if len(lists) > 1 and not table.member:
        commands = [repeat_command(table.path, table.path, {"rows": name}, keeps_folder=True) for name in lists[:5]]
        raise InputError(
            f"the object has several lists of objects: {', '.join(map(path_for_message, lists[:5]))}",
            hint=f"name one: {', or '.join(commands)}",
            where=path_for_message(table.path),
            code="WDS244",
        )
    rows = table.member or (lists[0] if lists else "")
    return [
        FieldUse(name, "", "describes the whole file, not one of its rows")
        for name in found
        if name != rows and not rows.startswith(f"{name}.")
    ]
