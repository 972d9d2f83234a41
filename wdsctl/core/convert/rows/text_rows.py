"""Rows of text files, one after the other: from a place near any row on, without holding more than one row."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol

from wdsctl.core.convert.rows.checkpoints import Checkpoints, Spot
from wdsctl.core.convert.rows.samples import Row
from wdsctl.core.errors import DatasetError, InputError, WdsctlError
from wdsctl.core.line_files import UNPACKERS
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named
from wdsctl.core.regular_file import regular
from wdsctl.core.tar import compression

LONGEST = 1 << 30  # bytes of one line: more is no line, and would fill the memory

_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Record(NamedTuple):
    """One row as the reader of a form finds it. `end`, `line`: where the next one begins."""

    values: Mapping[str, Any]
    fault: WdsctlError | None
    first_line: int
    end: int
    line: int


class Reader(Protocol):
    """The form of one file."""

    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        """The rows from `offset` on, where line `line` begins. The file stands there."""


class TextRows:
    """The rows of several files in their order."""

    def __init__(self, paths: Sequence[str], reader: Reader) -> None:
        self._paths = paths
        self._reader = reader
        self._checkpoints = Checkpoints()

    def rows(self, start: int) -> Iterator[Row]:
        """The rows from `start` on. Cost: reading at most 64 rows before it, once the files were read up to there."""
        spot = self._checkpoints.before(start)
        number = spot.row
        for at in range(spot.file, len(self._paths)):
            path = self._paths[at]
            shown, folder = named(path), os.path.dirname(path)
            offset, line = (spot.offset, spot.line) if at == spot.file else (0, 1)
            with translated(path, "read"), open(path, "rb", opener=regular) as file:
                file.seek(offset)
                for record in self._reader.records(file, path, offset, line):
                    if number >= start:
                        where = f"{shown}:{record.first_line}"
                        yield Row(number, where, record.values, record.fault, folder)
                    number += 1
                    self._checkpoints.note(Spot(number, at, record.end, record.line))

    def files(self) -> Sequence[str]:
        return self._paths

    def close(self) -> None:
        """Files are open only while rows are read."""


def lines_of(file: BinaryIO, path: str, offset: int, number: int) -> Iterator[tuple[bytes, int, int]]:
    """(line with its end, where the next begins, the number of the next). A byte order mark is passed over.

    Raises DatasetError WDS232 for a line that is longer than any could be.
    """
    while line := file.readline(LONGEST):
        if len(line) == LONGEST and not line.endswith(b"\n"):
            raise DatasetError(
                f"line {number:,} is longer than 1 GiB",
                hint="this is no file of lines: check what it is with `file`",
                where=named(path),
                code="WDS232",
            )
        text = line if offset else line.removeprefix(codecs.BOM_UTF8)
        offset += len(line)
        number += 1
        yield text, offset, number


def check_text(path: str) -> bytes:
    """The first 64 KiB of a file of text. Raises DatasetError WDS113 or WDS120 if it is none, InputError if empty."""
    with translated(path, "read"), open(path, "rb", opener=regular) as file:
        head = file.read(1 << 16)
    packed = compression(head)
    if packed:
        tool = next((tool for ending, tool in UNPACKERS.items() if packed[:2] in ending), "unpack")
        raise DatasetError(
            f"the file is compressed with {packed}", hint=f"unpack it: `{tool}`", where=named(path), code="WDS113"
        )
    if head.startswith(_WIDE) or b"\0" in head:
        raise DatasetError(
            "the file is binary, or text that is not UTF-8",
            hint="`iconv -f UTF-16 -t UTF-8 OLD > NEW` writes text again",
            where=named(path),
            code="WDS120",
        )
    if not head.removeprefix(codecs.BOM_UTF8).strip():
        raise InputError("the file is empty", hint="check the path", where=named(path), code="WDS003")
    return head
