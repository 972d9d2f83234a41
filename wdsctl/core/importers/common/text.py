"""Read the rows of text files in order, starting near any row, with one row in memory.

Large JSON files are mapped; a window of the text is searched for the elements of a list or the members of an object.
Source: RFC 8259 (the grammar).
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol

from wdsctl.core.dataset.shard_names import UNPACK_COMMANDS
from wdsctl.core.errors import DatasetError, InputError, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.file_limits import MAX_LINE_BYTES, long_line_error, scale_limit
from wdsctl.core.importers.common.compressed import open_text_file
from wdsctl.core.importers.common.samples import FileNames, SourceRow
from wdsctl.core.importers.common.source import RowCheckpoints, RowPosition
from wdsctl.core.importers.protocol import Options
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.storage import source_files
from wdsctl.core.tar_header import detect_compression
from wdsctl.core.text import path_for_message

_UTF16_BOMS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
_UTF16_LINE_ENDS = {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}
_MIN_BYTES_PER_NUL = 20  # a file with more NULs than this is binary

#: What `-O encoding=` takes. In all but UTF-16, the byte of a line end is never part of another character.
ENCODINGS = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin1", "latin2", "iso-8859-15", "cp1250", "cp1251", "cp1252"),
    *("koi8-r", "shift-jis", "euc-jp", "euc-kr", "cp949", "gb18030", "big5"),
)


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

    def __init__(
        self,
        paths: Sequence[str],
        readers: RecordReader | Sequence[RecordReader],
        names: Sequence[FileNames] = (),
        splits: Sequence[str] = (),
        others: Sequence[str] = (),
    ) -> None:
        """`readers`: one for all files, or one for each. `others`: further files that they read.

        `names`: how each file names others; empty: relative to its folder. `splits`: the split of each file.
        """
        self._paths = paths
        self._readers = readers if isinstance(readers, Sequence) else [readers] * len(paths)
        self._names = names or [FileNames(os.path.dirname(path)) for path in paths]
        self._splits = splits or [""] * len(paths)
        self._others = others
        self._checkpoints = RowCheckpoints()

    def rows(self, start: int) -> Generator[SourceRow, None, None]:
        """The rows from `start` on. A file is open until the generator ends or is closed.

        Cost: reads up to 63 rows before `start`, if an earlier pass reached it.
        """
        checkpoint = self._checkpoints.last_before(start)
        number = checkpoint.row
        for at in range(checkpoint.file, len(self._paths)):
            path = self._paths[at]
            shown, names, split = path_for_message(path), self._names[at], self._splits[at]
            offset, line = (checkpoint.offset, checkpoint.line) if at == checkpoint.file else (0, 1)
            with translate_os_errors(path, "read"), open_text_file(path, offset) as file:
                for record in self._readers[at].records(file, path, offset, line):
                    if number >= start:
                        where = f"{shown}:{record.first_line}"
                        yield names.make_row(number, where, record.values, record.fault, split)
                    number += 1
                    self._checkpoints.add(RowPosition(number, at, record.end, record.line))

    def files(self) -> Sequence[str]:
        return [*self._paths, *self._others]

    def close(self) -> None:
        """Do nothing: files are open only while rows are read."""


def iter_text_lines(
    file: BinaryIO, path: str, offset: int, number: int, encoding: str = "utf-8"
) -> Iterator[tuple[bytes, int, int]]:
    """Yield (line with its line end, offset of the next line, number of the next line). Skips a byte order mark.

    Raises DatasetError WDS232 for a line of more than 256 MiB.
    """
    is_utf16 = encoding in _UTF16_BOMS
    bom = _UTF16_BOMS.get(encoding, codecs.BOM_UTF8)
    limit = scale_limit(MAX_LINE_BYTES)
    while line := _read_utf16_line(file, encoding, limit) if is_utf16 else file.readline(limit):
        if len(line) >= limit and not line.endswith((b"\n", b"\n\0")):
            raise long_line_error(f"line {number:,}", limit, path)
        text = line if offset else line.removeprefix(bom)
        offset += len(line)
        number += 1
        yield text, offset, number


def _read_utf16_line(file: BinaryIO, encoding: str, limit: int) -> bytes:
    """Read up to the next line end in UTF-16. The byte 0x0A is half of other characters too."""
    line = b""
    while len(line) < limit and (piece := file.readline(limit - len(line))):
        line += piece
        if encoding == "utf-16-le" and line.endswith(b"\n") and len(line) % 2:
            line += file.read(1)
        if line.endswith(_UTF16_LINE_ENDS[encoding]) and len(line) % 2 == 0:
            break
    return line


def text_encoding(head: bytes, options: Options) -> str:
    """The encoding of a text file: the option `encoding`, or that of the byte order mark in `head`, or UTF-8.

    Raises UsageError for an encoding that wdsctl does not read.
    """
    named = options.get("encoding", "").lower().replace("_", "-")
    found = next((encoding for encoding, bom in _UTF16_BOMS.items() if head.startswith(bom)), "")
    if named and named not in ENCODINGS:
        raise UsageError(
            f"wdsctl does not support the encoding {named!r}",
            hint=f"{did_you_mean(named, ENCODINGS)} it reads {', '.join(ENCODINGS)}".strip(),
        )
    if named == "utf-16":
        return found or "utf-16-le"
    return named or found or "utf-8"


def decode_line(line: bytes, encoding: str) -> str:
    """Decode a line. A byte that is not in the encoding becomes half a surrogate pair, which no text in UTF-8 has."""
    try:
        return line.decode(encoding)
    except UnicodeDecodeError:
        if encoding in _UTF16_BOMS:
            return "\udcff" + line.decode(encoding, "replace")
        return line.decode(encoding, "surrogateescape")


def read_text_head(
    path: str, *, encoding: str = "", takes_utf16: bool = False, takes_compressed: bool = False
) -> bytes:
    """The first 64 KiB of a text file.

    `encoding`: what the user names, if anything. `takes_utf16`: whether the caller reads UTF-16 with a byte order mark.
    `takes_compressed`: whether it reads compressed files. Raises DatasetError WDS113 if the file is compressed and it
    does not, WDS120 if it is binary or UTF-16, WDS233 if it is damaged; InputError WDS003 if it is empty.
    """
    if takes_compressed:
        with translate_os_errors(path, "read"), open_text_file(path) as content:
            head = content.read(1 << 16)
    else:
        with translate_os_errors(path, "read"):
            head = source_files.read_start(path, 1 << 16)
    packed = detect_compression(head)
    if packed:
        tool = next((tool for ending, tool in UNPACK_COMMANDS.items() if packed[:2] in ending), "unpack")
        raise DatasetError(
            f"the file is compressed with {packed}",
            hint=f"unpack it: `{tool}`",
            where=path_for_message(path),
            code="WDS113",
        )
    is_utf16 = takes_utf16 and (head.startswith(tuple(_UTF16_BOMS.values())) or encoding.lower().startswith("utf-16"))
    # A single NUL is the fault of its row; many are another encoding.
    if not is_utf16 and (
        head.startswith(tuple(_UTF16_BOMS.values())) or head.count(0) * _MIN_BYTES_PER_NUL >= max(1, len(head))
    ):
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
        with translate_os_errors(path, "read"):
            self._data = source_files.map_source(path)
        self._base = 0
        self._text = ""
        self._parser = json.JSONDecoder()

    def close(self) -> None:
        if not isinstance(self._data, bytes):
            self._data.close()

    def read_bytes(self, start: int, stop: int) -> bytes:
        return self._data[start:stop]

    def parse(self, start: int, stop: int) -> Any:
        """Parse the value in a range of bytes. The search finds ranges in bytes; only this checks for valid UTF-8."""
        try:
            return read_json(self._data[start:stop])
        except ValueError as error:
            why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            raise self._damaged_error(why, start) from error

    def value_start(self) -> int:
        """The offset of the file's value, after a byte order mark and blanks."""
        return self._skip_blanks(len(_UTF8_BOM) if self._data[:3] == _UTF8_BOM else 0)

    def first_byte(self, at: int) -> bytes:
        """The first byte of the value at offset `at`: `[` of a list, `{` of an object. Empty at the end of the file."""
        return self._data[at : at + 1]

    def check_end_of_list(self, at: int) -> None:
        """Check that only blanks follow the file's own list. `at`: the end of its last element, or blanks after it.

        A second list, as in joined files, would be lost.
        """
        self._check_end(self._skip_blanks(at) + 1)

    def _check_end(self, at: int) -> None:
        """Raise DatasetError if more than blanks follow the offset after the file's value."""
        at = self._skip_blanks(at)
        if at < len(self._data):
            raise self._damaged_error("more text follows the end of the list or object", at)

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
                raise self._damaged_error("a list lacks a comma, or is truncated", at)

    def members(self, at: int = -1) -> Iterator[tuple[str, int]]:
        """Yield (name, offset of the value) of each member of the object at offset `at`; by default the file's.

        Of the file's object, also checks that nothing follows.
        """
        begin = self.value_start()
        for _, name, value in self.members_from((begin if at < 0 else at) + 1, is_whole=at in (-1, begin)):
            yield name, value

    def members_from(self, at: int, *, is_whole: bool) -> Iterator[tuple[int, str, int]]:
        """Yield (offset, name, offset of the value) of each member from offset `at` on: its first byte, or blanks or a
        comma before it. `is_whole`: check that nothing follows the object.
        """
        at = self._skip_blanks(at)
        while self.first_byte(at) != b"}":
            at = self._skip_blanks(at + 1) if self.first_byte(at) == b"," else at
            stop = self._value_end(at)
            if self.first_byte(at) != b'"' or self.first_byte(value := self._skip_blanks(stop)) != b":":
                raise self._damaged_error("an object is damaged or truncated", at)
            value = self._skip_blanks(value + 1)
            yield at, self.parse(at, stop), value
            at = self._skip_blanks(self._member_end(value))
            if self.first_byte(at) not in (b",", b"}"):
                raise self._damaged_error("an object lacks a comma, or is truncated", at)
        if is_whole:
            self._check_end(at + 1)

    def value_end(self, at: int) -> int:
        """The offset after the value that begins at offset `at`."""
        return self._value_end(at)

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
                    why = "the file is truncated" if is_cut and is_all else error.msg
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
        comma = self._trailing_comma(at)
        at = at if comma < 0 else comma
        line = _count_lines(self._data, at) + 1
        if comma >= 0:
            why, hint = "a comma follows the last item of a list or object", f"remove the comma in line {line:,}"
        else:
            hint = "copy the file again from its origin; `python -m json.tool FILE > /dev/null` checks it"
        return DatasetError(
            f"the JSON cannot be read: {why}",
            hint=hint,
            where=f"{path_for_message(self._path)}:{line} (byte {at:,})",
            code="WDS233",
        )

    def _trailing_comma(self, at: int) -> int:
        """The offset of a comma before a closing bracket at or around offset `at`; -1 if there is none.

        Python's versions report different positions for such commas.
        """
        if self.first_byte(at) == b",":
            return at if self.first_byte(self._skip_blanks(at + 1)) in (b"]", b"}") else -1
        if self.first_byte(at) not in (b"]", b"}"):
            return -1
        at -= 1
        while at > 0 and self.first_byte(at) in (b" ", b"\t", b"\r", b"\n"):
            at -= 1
        return at if self.first_byte(at) == b"," else -1


def _count_lines(data: Any, stop: int) -> int:
    """The number of line ends before an offset. Cost: reads the bytes before it, in pieces."""
    return sum(data[at : min(at + WINDOW_BYTES, stop)].count(b"\n") for at in range(0, stop, WINDOW_BYTES))


_QUOTES = "\"')]\u201d\u00bb\u300d\u300f"
_ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")  # of sentences
_ENDS_WITHOUT_BLANKS = _ENDS[-3:]  # of languages without blanks between words


def is_sentence(text: str) -> bool:
    """Whether a text has eight words, or three and a sign at the end."""
    words, end = text.split(None, 7), text.strip().rstrip(_QUOTES)
    return len(words) > 7 or (len(words) > 2 and end.endswith(_ENDS)) or end.endswith(_ENDS_WITHOUT_BLANKS)
