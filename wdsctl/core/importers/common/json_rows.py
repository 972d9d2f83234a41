"""The rows of JSON files: the objects of a list, which may be a member of an object; or the members of an object, if
these are rows: `{"7": {"image": ...}, "8": ...}`, or `{"7.jpg": "a cat", ...}`. One row is in memory at a time.
"""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.importers.common.commands import repeat_command
from wdsctl.core.importers.common.files import PROBED_ROWS, is_media_path
from wdsctl.core.importers.common.folder_files import split_of_folder
from wdsctl.core.importers.common.samples import FileNames, SourceRow
from wdsctl.core.importers.common.source import RowCheckpoints, RowPosition
from wdsctl.core.importers.common.text import JsonFile
from wdsctl.core.importers.common.values import read_head
from wdsctl.core.json_text import read_json
from wdsctl.core.text import path_for_message

_PROBED_MEMBERS = 10
_MAX_DEPTH = 3  # objects within objects that are searched for the list


class JsonTable(NamedTuple):
    """A file with rows. `names`: how the rows name files. `member`: the path of the list, such as `data.items`; empty
    for the first list of objects, or the file's own list.
    """

    path: str
    names: FileNames
    split: str = ""
    member: str = ""


class JsonRows:
    """The rows of several files, in the order of the files.

    Raises DatasetError WDS233 if a file has no list of objects.
    """

    def __init__(self, tables: Sequence[JsonTable]) -> None:
        self._tables = tables
        self._files: list[JsonFile] = []
        self._starts: list[int] = []  # offset of the first element of each list, or member of each object
        self._are_members: list[bool] = []
        self._checkpoints = RowCheckpoints()
        try:
            for table in tables:
                self._files.append(JsonFile(table.path))
                at = _find_rows(self._files[-1], table)
                self._starts.append(at + 1)
                self._are_members.append(self._files[-1].first_byte(at) == b"{")
        except BaseException:  # also on Ctrl-C: no caller can close the files yet
            self.close()
            raise

    def rows(self, start: int) -> Iterator[SourceRow]:
        """The rows from `start` on. Cost: parses up to 63 rows before `start`, if an earlier pass reached it."""
        checkpoint = self._checkpoints.last_before(start)
        number = checkpoint.row
        for at in range(checkpoint.file, len(self._files)):
            file = self._files[at]
            begin = checkpoint.offset if at == checkpoint.file and checkpoint.offset else self._starts[at]
            spans = self._members_of(at, begin) if self._are_members[at] else self._elements_of(at, begin)
            for place, name, element, stop in spans:
                self._checkpoints.add(RowPosition(number, at, place, 0))
                if number >= start:
                    yield self._row(number, at, file.read_bytes(element, stop), name)
                number += 1

    def _elements_of(self, at: int, begin: int) -> Iterator[tuple[int, str, int, int]]:
        """(offset, no name, start, stop) of the elements of a list, from an offset on."""
        file, stop = self._files[at], begin
        for element, stop in file.elements_from(begin):
            yield element, "", element, stop
        if file.first_byte(file.value_start()) == b"[":
            file.check_end_of_list(stop)

    def _members_of(self, at: int, begin: int) -> Iterator[tuple[int, str, int, int]]:
        """(offset, name, start, stop) of the members of an object, from an offset on."""
        file = self._files[at]
        is_whole = self._starts[at] == file.value_start() + 1
        for place, name, value in file.members_from(begin, is_whole=is_whole):
            yield place, name, value, file.value_end(value)

    def _row(self, number: int, at: int, data: bytes, name: str) -> SourceRow:
        table = self._tables[at]
        where = f"{path_for_message(table.path)}, item {number:,}"
        fault: WdsctlError | None = None
        try:
            value = read_json(data)
        except UnicodeDecodeError:
            value, fault = {}, _row_error("the item is not UTF-8", where, "WDS124")
        except ValueError as error:
            value, fault = {}, _row_error(f"the item cannot be read: {error}", where, "WDS121")
        if self._are_members[at] and isinstance(value, str):
            value = {"text": value}
        if not isinstance(value, dict):
            value, fault = {}, _row_error("the item is not a JSON object", where, "WDS121")
        if self._are_members[at] and fault is None:
            value = _with_member_name(value, name)
        return table.names.make_row(number, where, value, fault, table.split)

    def files(self) -> Sequence[str]:
        return [table.path for table in self._tables]

    def close(self) -> None:
        for file in self._files:
            file.close()


def _with_member_name(row: dict[str, Any], name: str) -> dict[str, Any]:
    """A row with the name of its member as its first field: `file` for the path of a medium, or else `id`."""
    if name in (str(row.get("id")), row.get("file")):
        return row
    fields = ("file", "id", "member") if is_media_path(name) else ("id", "member")
    field = next((field for field in fields if field not in row), "")
    return {field: name, **row} if field else row


def find_lists(path: str) -> dict[str, bool]:
    """Path of each member of a file's object -> whether it holds rows; empty if the object itself holds rows.

    Cost: parses the whole file.
    """
    file = JsonFile(path)
    try:
        begin = file.value_start()
        if file.first_byte(begin) != b"{" or _are_rows(file, begin):
            return {}
        return {name: has_rows for name, _, has_rows in _members(file, begin)}
    finally:
        file.close()


def find_damage(path: str) -> WdsctlError | None:
    """Why the JSON of a file cannot be read, as far as the rows that recognise it; None if it can."""
    file: JsonFile | None = None
    try:
        file = JsonFile(path)
        begin = file.value_start()
        if file.first_byte(begin) == b"[":
            deque(islice(file.elements(begin), PROBED_ROWS), maxlen=0)
        elif file.first_byte(begin) == b"{":
            deque(_members(file, begin), maxlen=0)
    except WdsctlError as error:
        return error
    finally:
        if file is not None:
            file.close()
    return None


def _find_rows(file: JsonFile, table: JsonTable) -> int:
    """The offset of the list, or of the object, that holds the rows. Reads no further than its first elements."""
    begin = file.value_start()
    first = file.first_byte(begin)
    if first == b"[" and not table.member:
        return begin
    if not table.member and _are_rows(file, begin):
        return begin
    names = []
    for name, at, has_rows in _members(file, begin) if first == b"{" else ():
        if name == table.member if table.member else has_rows:
            return at
        names.append(name)
    message = f"the file has no list {table.member!r}" if table.member else "the file has no list of objects"
    hint = f"its members are {', '.join(names[:10])}" if names else "pass a file with a list of objects"
    if not table.member and first == b"{" and _are_texts(file, begin):
        hint = _texts_hint(table.path)
    raise DatasetError(message, hint=hint, where=path_for_message(table.path), code="WDS233")


def _are_texts(file: JsonFile, at: int) -> bool:
    """Whether an object has several members, all texts: a text for each name, such as `{"b1": "a dog"}`."""
    members = list(islice(file.members(at), _PROBED_MEMBERS))
    return len(members) > 1 and all(file.first_byte(value) == b'"' for _, value in members)


def _texts_hint(path: str) -> str:
    table = f"{os.path.splitext(path)[0]}.jsonl"
    code = (
        f"import json; rows = json.load(open({path!r}, encoding='utf-8')); open({table!r}, 'x').writelines("
        "json.dumps({'file': name, 'text': text}) + '\\n' for name, text in rows.items())"
    )
    return (
        f"if each member is the text of a file, write a table: `python -c {shlex.quote(code)}`; "
        f"then prepare it: {repeat_command(path, table, {})}"
    )


def _are_rows(file: JsonFile, at: int) -> bool:
    """Whether the members of an object are rows: objects that share a field with a text, a number or a boolean, or
    texts whose names are those of media.

    Two objects must share all their fields: more often, they describe two things. Members named like splits are none.
    """
    if file.first_byte(at) != b"{":
        return False
    rows: list[dict[str, Any]] = []
    for name, value in islice(file.members(at), _PROBED_MEMBERS):
        if file.first_byte(value) == b'"' and is_media_path(name):
            rows.append({"text": ""})
        elif file.first_byte(value) != b"{" or split_of_folder(name):
            return False
        else:
            rows.append(file.parse(value, file.value_end(value)))
        if not rows[-1].keys() & rows[0].keys():
            return False
    if len(rows) < 2 or (len(rows) == 2 and rows[0].keys() != rows[1].keys()):
        return False
    shared = set.intersection(*(set(row) for row in rows))
    return any(isinstance(row[name], str | int | float) for row in rows for name in shared)


def begins_with_list(path: str) -> bool:
    """Whether a file of lines is one JSON list of objects: its first line is a part of the list, or all of it."""
    head = read_head(path).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head.startswith(b"[") or head[1:].lstrip()[:1] not in (b"{", b"]"):
        return False
    line, _, rest = head.partition(b"\n")
    try:
        read_json(line)
    except ValueError:
        return True
    return not rest.strip()


def _members(file: JsonFile, at: int, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, int, bool]]:
    """Yield (path, offset, whether it is a list of objects, or an object of rows) of the members of an object, and of
    objects in it that are no rows.
    """
    for name, value in file.members(at):
        path = f"{prefix}{name}"
        first = file.first_byte(value)
        if first == b"{" and depth < _MAX_DEPTH:
            has_rows = _are_rows(file, value)
            yield path, value, has_rows
            if not has_rows:
                yield from _members(file, value, f"{path}.", depth + 1)
        else:
            element = next(file.elements(value), None) if first == b"[" else None
            yield path, value, element is not None and file.first_byte(element[0]) == b"{"


def _row_error(message: str, where: str, code: str) -> WdsctlError:
    return DatasetError(message, hint="correct or remove the item", where=where, code=code)
