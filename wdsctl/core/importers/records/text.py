"""Read the rows of text files in order, starting near any row, with one row in memory.

Large JSON files are mapped; a window of the text is searched for the elements of a list or the members of an object.
Source: RFC 8259 (the grammar).
"""

from __future__ import annotations

import codecs
import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol

from wdsctl.core.dataset.shard_names import UNPACK_COMMANDS
from wdsctl.core.errors import DatasetError, InputError, WdsctlError, translate_os_errors
from wdsctl.core.importers.records.samples import SourceRow
from wdsctl.core.importers.records.source import RowCheckpoints, RowPosition
from wdsctl.core.safe_open import regular_file_opener
from wdsctl.core.tar_header import detect_compression
from wdsctl.core.text import path_for_message

MAX_LINE_BYTES = 1 << 30  # limit that keeps a file without line ends from filling the memory

_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Record(NamedTuple):
    """One row, as a `RecordReader` yields it. `end`, `line`: byte offset and line number where the next row begins."""

    values: Mapping[str, Any]
    fault: WdsctlError | None
    first_line: int
    end: int
    line: int


class RecordReader(Protocol):
    """Parses the rows of one file."""

    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        """The rows from byte `offset` on, where line `line` begins. The file is positioned at `offset`."""


class TextRows:
    """The rows of several files, in the order of the files."""

    def __init__(self, paths: Sequence[str], reader: RecordReader) -> None:
        self._paths = paths
        self._reader = reader
        self._checkpoints = RowCheckpoints()

    def rows(self, start: int) -> Iterator[SourceRow]:
        """The rows from `start` on. Cost: reads up to 63 rows before `start`, if an earlier pass reached it."""
        spot = self._checkpoints.last_before(start)
        number = spot.row
        for at in range(spot.file, len(self._paths)):
            path = self._paths[at]
            shown, folder = path_for_message(path), os.path.dirname(path)
            offset, line = (spot.offset, spot.line) if at == spot.file else (0, 1)
            with translate_os_errors(path, "read"), open(path, "rb", opener=regular_file_opener) as file:
                file.seek(offset)
                for record in self._reader.records(file, path, offset, line):
                    if number >= start:
                        where = f"{shown}:{record.first_line}"
                        yield SourceRow(number, where, record.values, record.fault, folder)
                    number += 1
                    self._checkpoints.add(RowPosition(number, at, record.end, record.line))

    def files(self) -> Sequence[str]:
        return self._paths

    def close(self) -> None:
        """Do nothing: files are open only while rows are read."""


def iter_lines(file: BinaryIO, path: str, offset: int, number: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield (line with its line end, offset of the next line, number of the next line). Skips a byte order mark.

    Raises DatasetError WDS232 for a line of more than 1 GiB.
    """
    while line := file.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise DatasetError(
                f"line {number:,} is longer than 1 GiB",
                hint="this is no file of lines: check what it is with `file`",
                where=path_for_message(path),
                code="WDS232",
            )
        text = line if offset else line.removeprefix(codecs.BOM_UTF8)
        offset += len(line)
        number += 1
        yield text, offset, number


def read_text_head(path: str) -> bytes:
    """The first 64 KiB of a text file.

    Raises DatasetError WDS113 if the file is compressed, WDS120 if it is binary or UTF-16; InputError WDS003 if it is
    empty.
    """
    with translate_os_errors(path, "read"), open(path, "rb", opener=regular_file_opener) as file:
        head = file.read(1 << 16)
    packed = detect_compression(head)
    if packed:
        tool = next((tool for ending, tool in UNPACK_COMMANDS.items() if packed[:2] in ending), "unpack")
        raise DatasetError(
            f"the file is compressed with {packed}",
            hint=f"unpack it: `{tool}`",
            where=path_for_message(path),
            code="WDS113",
        )
    if head.startswith(_UTF16_BOMS) or b"\0" in head:
        raise DatasetError(
            "the file is binary, or text that is not UTF-8",
            hint="if it is text, convert it to UTF-8: `iconv -f UTF-16 -t UTF-8 OLD > NEW`",
            where=path_for_message(path),
            code="WDS120",
        )
    if not head.removeprefix(codecs.BOM_UTF8).strip():
        raise InputError("the file is empty", hint="check the path", where=path_for_message(path), code="WDS003")
    return head


WINDOW_BYTES = 1 << 20
MAX_ELEMENT_BYTES = 1 << 30  # bytes of one element

_MAX_TOKEN_BYTES = 12  # at the cut end of a window, the parser stops within so many bytes: every token is shorter
_NUMBER_CHARACTERS = "0123456789+-.eE"
_UTF8_BOM = b"\xef\xbb\xbf"


class JsonFile:
    """A mapped JSON file. Positions are byte offsets. Methods raise DatasetError WDS233 for invalid JSON."""

    def __init__(self, path: str, *, window: int = WINDOW_BYTES) -> None:
        self._path = path
        self._window = window
        with translate_os_errors(path, "read"), open(path, "rb", opener=regular_file_opener) as file:
            file.seek(0, 2)
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else b""
        self._base = 0
        self._text = ""
        self._parser = json.JSONDecoder()

    def close(self) -> None:
        if isinstance(self._data, mmap.mmap):
            self._data.close()

    def read_bytes(self, start: int, stop: int) -> bytes:
        return self._data[start:stop]

    def parse(self, start: int, stop: int) -> Any:
        """Parse the value in a range of bytes. The search finds ranges in bytes; only this checks for valid UTF-8."""
        try:
            return json.loads(self._data[start:stop])
        except (ValueError, RecursionError) as error:
            why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            raise self._damaged_error(why, start) from error

    def value_start(self) -> int:
        """The offset of the file's value, after a byte order mark and blanks."""
        return self._skip_blanks(len(_UTF8_BOM) if self._data[:3] == _UTF8_BOM else 0)

    def first_byte(self, at: int) -> bytes:
        """The first byte of the value at offset `at`: `[` of a list, `{` of an object. Empty at the end of the file."""
        return self._data[at : at + 1]

    def elements(self, at: int) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of each element of the list whose bracket is at offset `at`."""
        return self.elements_from(at + 1)

    def elements_from(self, at: int) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of each element from offset `at` on: an element's first byte, or blanks before it."""
        at = self._skip_blanks(at)
        while self.first_byte(at) != b"]":
            at = self._skip_blanks(at + 1) if self.first_byte(at) == b"," else at
            stop = self._value_end(at)
            yield at, stop
            at = self._skip_blanks(stop)
            if self.first_byte(at) not in (b",", b"]"):
                raise self._damaged_error("a list goes on without a comma, or is cut", at)

    def members(self) -> Iterator[tuple[str, int]]:
        """Yield (name, offset of the value) of each member of the file's object."""
        at = self._skip_blanks(self.value_start() + 1)
        while self.first_byte(at) != b"}":
            at = self._skip_blanks(at + 1) if self.first_byte(at) == b"," else at
            stop = self._value_end(at)
            if self.first_byte(at) != b'"' or self.first_byte(value := self._skip_blanks(stop)) != b":":
                raise self._damaged_error("an object is broken or cut", at)
            value = self._skip_blanks(value + 1)
            yield self.parse(at, stop), value
            at = self._skip_blanks(self._member_end(value))
            if self.first_byte(at) not in (b",", b"}"):
                raise self._damaged_error("an object goes on without a comma, or is cut", at)

    def _member_end(self, value: int) -> int:
        """The offset after a member's value. Lists are searched by element: only elements have a limit."""
        if self.first_byte(value) != b"[":
            return self._value_end(value)
        last = value + 1
        for _, last in self.elements(value):  # noqa: B007 - the last one counts
            pass
        return self._skip_blanks(last) + 1

    def _skip_blanks(self, at: int) -> int:
        while self._data[at : at + 1] in (b" ", b"\t", b"\r", b"\n") and at < len(self._data):
            at += 1
        return at

    def _value_end(self, at: int) -> int:
        """The offset after the value that begins at `at`. Decodes Latin-1, in which one character is one byte."""
        size = self._window
        if not self._base <= at < self._base + len(self._text):
            self._load_window(at, size)
        while True:
            is_all = self._base + len(self._text) >= len(self._data)
            try:
                _, end = self._parser.raw_decode(self._text, at - self._base)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _MAX_TOKEN_BYTES
                if is_all or not is_cut or size >= MAX_ELEMENT_BYTES:
                    why = "the file is cut" if is_cut and is_all else error.msg
                    raise self._damaged_error(why, self._base + error.pos) from error
            except (ValueError, RecursionError) as error:
                raise self._damaged_error(str(error), at) from error
            else:
                # A number that the window cuts parses as a shorter one. It is complete if another character follows.
                if (
                    is_all
                    or end + _MAX_TOKEN_BYTES < len(self._text)
                    or self._text[end : end + 1].strip(_NUMBER_CHARACTERS)
                ):
                    return self._base + end
            # The window ended inside the value: load it again from the value's first byte, each time four times larger.
            size = size if self._base < at else size * 4
            self._load_window(at, size)

    def _load_window(self, at: int, size: int) -> None:
        self._base, self._text = at, self._data[at : at + size].decode("latin-1")

    def _damaged_error(self, why: str, at: int) -> DatasetError:
        return DatasetError(
            f"the JSON cannot be read: {why}",
            hint="copy the file again from its origin; `python -m json.tool FILE > /dev/null` looks through it",
            where=f"{path_for_message(self._path)} (byte {at:,})",
            code="WDS233",
        )
