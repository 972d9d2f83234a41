"""A JSON list of objects, usually conversations: LLaVA, ShareGPT or OpenAI messages, with their media next to it.

Sources: https://github.com/haotian-liu/LLaVA (docs/Finetune_Custom_Data.md), https://github.com/hiyouga/LLaMA-Factory
(data/README.md), https://platform.openai.com/docs/api-reference/chat (the formats).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.importers.protocol import FormatMatch, Options, Source
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.conversations import (
    conversation_media_fields,
    has_conversations,
    list_conversation_references,
)
from wdsctl.core.importers.records.description import make_table_source
from wdsctl.core.importers.records.files import PROBED_ROWS, find_base, find_media_fields, list_references
from wdsctl.core.importers.records.samples import ROW_OPTIONS, RowMapping, SourceRow
from wdsctl.core.importers.records.source import RowCheckpoints, RowPosition
from wdsctl.core.importers.records.text import JsonFile, read_text_head
from wdsctl.core.importers.records.values import read_head
from wdsctl.core.json_text import read_json
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message


class LlavaImporter:
    """Accepts any list of objects: fields that name files become parts, all others one part `json`."""

    name = "llava"
    about = "one JSON list of conversations (LLaVA, ShareGPT, OpenAI messages) or other objects, and their media"

    def recognise(self, path: str) -> FormatMatch | None:
        if not path.lower().endswith(".json") or not source_files.is_file(path):
            return None
        head = read_head(path)
        if not head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
            return None
        found = next((name for name in ("conversations", "messages") if f'"{name}"'.encode() in head), "")
        if found:
            return FormatMatch(0.9, f"a JSON list of objects with {found}")
        return FormatMatch(0.4, "a JSON list")

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, ROW_OPTIONS)
        read_text_head(path)
        rows = _ListRows(path)
        first = [row.values for row in islice(rows.rows(0), PROBED_ROWS) if row.fault is None]
        if has_conversations(first):
            mapping = _conversation_mapping(self.name, options, first, os.path.dirname(path))
            return make_table_source(rows, mapping, lambda: first, has_file_references=True)
        media = find_media_fields(self.name, options, first) if first else ()
        base = find_base(os.path.dirname(path), list_references(first, media))
        key = "id" if first and all("id" in row for row in first) else ":stem" if media else ":row"
        mapping = RowMapping.from_options(options, base=base, media=media, key=key)
        return make_table_source(rows, mapping, lambda: first, has_file_references=bool(media))


IMPORTER = LlavaImporter()


def _conversation_mapping(
    format_name: str, options: Options, first: Sequence[Mapping[str, Any]], folder: str
) -> RowMapping:
    """How conversations become samples. `first`: the first rows. `folder`: the one that holds their file.

    Several conversations often share an image, so that only an `id` in every row is a key, never the image's name.
    """
    media = conversation_media_fields(format_name, options, first)
    base = find_base(folder, list_conversation_references(first, media))
    key = "id" if all("id" in row for row in first) else ":row"
    return RowMapping.from_options(options, base=base, media=media, key=key, is_conversation=True)


class _ListRows:
    def __init__(self, path: str) -> None:
        self._path = path
        self._file = JsonFile(path)
        self._checkpoints = RowCheckpoints()
        begin = self._file.value_start()
        if self._file.first_byte(begin) != b"[":
            self._file.close()
            raise DatasetError(
                "the file is not a JSON list",
                hint="pass a file with a list of objects",
                where=path_for_message(path),
                code="WDS233",
            )

    def rows(self, start: int) -> Iterator[SourceRow]:
        spot = self._checkpoints.last_before(start)
        at = spot.offset or self._file.value_start() + 1
        end = at
        for number, (begin, end) in enumerate(self._file.elements_from(at), spot.row):
            self._checkpoints.add(RowPosition(number, 0, begin, 0))
            if number >= start:
                yield self._row(number, self._file.read_bytes(begin, end))
        self._file.check_end_of_list(end)

    def _row(self, number: int, data: bytes) -> SourceRow:
        where = f"{path_for_message(self._path)}, item {number:,}"
        fault: WdsctlError | None = None
        try:
            value = read_json(data)
        except UnicodeDecodeError:
            value, fault = {}, _row_error("the item is not UTF-8", where, "WDS124")
        except ValueError as error:
            value, fault = {}, _row_error(f"the item cannot be read: {error}", where, "WDS121")
        if not isinstance(value, dict):
            value, fault = {}, _row_error("the item is not a JSON object", where, "WDS121")
        return SourceRow(number, where, value, fault, os.path.dirname(self._path))

    def files(self) -> Sequence[str]:
        return (self._path,)

    def close(self) -> None:
        self._file.close()


def _row_error(message: str, where: str, code: str) -> WdsctlError:
    return DatasetError(message, hint="correct or remove the item", where=where, code=code)
