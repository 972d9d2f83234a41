"""The rows of JSON files: the objects of a list, which may be a member of an object. One row is in memory at a time."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.importers.common.files import is_media_path
from wdsctl.core.importers.common.samples import FileNames, SourceRow
from wdsctl.core.importers.common.source import RowCheckpoints, RowPosition
from wdsctl.core.importers.common.text import JsonFile
from wdsctl.core.json_text import read_json
from wdsctl.core.text import path_for_message

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
        self._starts: list[int] = []  # offset of the first element of each list
        self._checkpoints = RowCheckpoints()
        try:
            for table in tables:
                self._files.append(JsonFile(table.path))
                self._starts.append(_find_list(self._files[-1], table) + 1)
        except BaseException:  # also on Ctrl-C: no caller can close the files yet
            self.close()
            raise

    def rows(self, start: int) -> Iterator[SourceRow]:
        """The rows from `start` on. Cost: parses up to 63 rows before `start`, if an earlier pass reached it."""
        checkpoint = self._checkpoints.last_before(start)
        number = checkpoint.row
        for at in range(checkpoint.file, len(self._files)):
            file = self._files[at]
            stop = begin = checkpoint.offset if at == checkpoint.file and checkpoint.offset else self._starts[at]
            for element, stop in file.elements_from(begin):
                self._checkpoints.add(RowPosition(number, at, element, 0))
                if number >= start:
                    yield self._row(number, at, file.read_bytes(element, stop))
                number += 1
            if file.first_byte(file.value_start()) == b"[":
                file.check_end_of_list(stop)

    def _row(self, number: int, at: int, data: bytes) -> SourceRow:
        table = self._tables[at]
        where = f"{path_for_message(table.path)}, item {number:,}"
        fault: WdsctlError | None = None
        try:
            value = read_json(data)
        except UnicodeDecodeError:
            value, fault = {}, _row_error("the item is not UTF-8", where, "WDS124")
        except ValueError as error:
            value, fault = {}, _row_error(f"the item cannot be read: {error}", where, "WDS121")
        if not isinstance(value, dict):
            value, fault = {}, _row_error("the item is not a JSON object", where, "WDS121")
        return table.names.make_row(number, where, value, fault, table.split)

    def files(self) -> Sequence[str]:
        return [table.path for table in self._tables]

    def close(self) -> None:
        for file in self._files:
            file.close()


def find_lists(path: str) -> dict[str, bool]:
    """Path of each member of a file's object -> whether it is a list of objects. Cost: parses the whole file."""
    file = JsonFile(path)
    try:
        begin = file.value_start()
        return {} if file.first_byte(begin) != b"{" else {name: is_list for name, _, is_list in _members(file, begin)}
    finally:
        file.close()


def _find_list(file: JsonFile, table: JsonTable) -> int:
    """The offset of the list that holds the rows. Reads no further than its first element."""
    begin = file.value_start()
    first = file.first_byte(begin)
    if first == b"[" and not table.member:
        return begin
    names = []
    for name, at, is_list in _members(file, begin) if first == b"{" else ():
        if name == table.member if table.member else is_list:
            return at
        names.append(name)
    message = f"the file has no list {table.member!r}" if table.member else "the file has no list of objects"
    hint = f"its members are {', '.join(names[:10])}" if names else "pass a file with a list of objects"
    if names and is_media_path(names[0]) and not table.member:
        program = "to_entries | map({file: .key, text: .value})"
        hint = f"make a list of objects of the members: jq {shlex.quote(program)} {shlex.quote(table.path)} > rows.json"
    raise DatasetError(message, hint=hint, where=path_for_message(table.path), code="WDS233")


def _members(file: JsonFile, at: int, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, int, bool]]:
    """Yield (path, offset, whether it is a list of objects) of the members of an object, and of objects in it."""
    for name, value in file.members(at):
        path = f"{prefix}{name}"
        first = file.first_byte(value)
        if first == b"{" and depth < _MAX_DEPTH:
            yield path, value, False
            yield from _members(file, value, f"{path}.", depth + 1)
        else:
            element = next(file.elements(value), None) if first == b"[" else None
            yield path, value, element is not None and file.first_byte(element[0]) == b"{"


def _row_error(message: str, where: str, code: str) -> WdsctlError:
    return DatasetError(message, hint="correct or remove the item", where=where, code=code)
