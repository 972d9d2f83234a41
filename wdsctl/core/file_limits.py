"""How much wdsctl reads from a file as a whole, and how much may come out of a small one.

A file of a few bytes may have a hole of any size, or unpack to any size. `docs/limits.md` lists all limits. The user
raises them with WDSCTL_LIMIT_FACTOR.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.text import path_for_message

LIMIT_FACTOR_VARIABLE = "WDSCTL_LIMIT_FACTOR"

MAX_DOCUMENT_BYTES = 64 << 20  # a text that is parsed as a whole: YAML, JSON, Python
MAX_INDEX_BYTES = 256 << 20  # a text with a line or an entry for each of many files or samples
MAX_TABLE_BYTES = 1 << 30  # a table that wdsctl wrote for a command: results of units, units of a stage
MAX_LINE_BYTES = 256 << 20  # of a file of lines, and of a row of it; reading one takes twice as much memory

MIN_UNPACKED_BYTES = 256 << 20  # come out of any file, however small
MAX_UNPACKED_RATIO = 1024  # bytes that come out of each byte of a larger file, piece by piece
ROW_BYTES = 1024  # counted for a row of a compressed table, which becomes a sample, however short the row is
MAX_HELD_RATIO = 64  # the same if all of them are in memory at a time

#: What an error advises for a file that exceeds a limit and is valid.
RAISE_LIMITS_HINT = f"set {LIMIT_FACTOR_VARIABLE}=8, which multiplies such limits"

_MAX_FACTOR = 1 << 20
_ZIP_END_BYTES = (1 << 16) + 128  # in which a zip ends: its last records, and a comment
_ZIP_BYTES_PER_DIRECTORY_BYTE = 16  # at least: an entry of 100 bytes is that of a file of two kilobytes or more
_MAX_U32 = (1 << 32) - 1  # the length is in another record


def scale_limit(limit: int) -> int:
    """A limit as the user has raised it. Raises UsageError for a factor that is no whole number from 1 on."""
    factor = os.environ.get(LIMIT_FACTOR_VARIABLE, "") or "1"
    if not (factor.isascii() and factor.isdecimal() and 1 <= int(factor[:10]) <= _MAX_FACTOR):
        raise UsageError(
            f"{LIMIT_FACTOR_VARIABLE} is {factor!r}, not a whole number from 1 to {_MAX_FACTOR:,}",
            hint=f"pass a factor, such as `{LIMIT_FACTOR_VARIABLE}=8`",
        )
    return limit * int(factor)


def read_whole(file: BinaryIO, path: str, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """The content of an open file from its start. Raises InputError WDS421 if it has more bytes than `limit`."""
    size = file.seek(0, os.SEEK_END)
    check_whole_size(size, path, limit)
    file.seek(0)
    return file.read(size)


def check_whole_size(size: int, path: str, limit: int = MAX_DOCUMENT_BYTES) -> None:
    """Raise InputError WDS421 if a file has more bytes than wdsctl reads as a whole."""
    allowed = scale_limit(limit)
    if size > allowed:
        raise InputError(
            f"the file has {size:,} bytes, and wdsctl reads files of this kind up to {allowed:,}",
            where=path_for_message(path),
            hint=f"check the content of the file; if it is valid, {RAISE_LIMITS_HINT}",
            code="WDS421",
        )


def iter_lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    """The lines of a file with their ends. Raises DatasetError WDS232 for a line of more than 256 MiB."""
    limit = scale_limit(MAX_LINE_BYTES)
    number = 0
    while line := file.readline(limit):
        number += 1
        if len(line) >= limit and not line.endswith(b"\n"):
            raise long_line_error(f"line {number:,}", limit, path)
        yield line


def long_line_error(what: str, limit: int, path: str) -> DatasetError:
    """Build the error for a line or a row that is longer than `limit` bytes."""
    return DatasetError(
        f"{what} is longer than {limit >> 20:,} MiB",
        hint="check the type of the file with `file`: the content may not be lines of text; if it is valid, "
        f"{RAISE_LIMITS_HINT}",
        where=path_for_message(path),
        code="WDS232",
    )


def held_limit(packed_bytes: int) -> int:
    """How many bytes that are in memory at a time may come out of so many packed ones."""
    return scale_limit(max(MIN_UNPACKED_BYTES, MAX_HELD_RATIO * packed_bytes))


def stream_limit(packed_bytes: int) -> int:
    """How many bytes may come, piece by piece, out of so many packed ones."""
    return scale_limit(max(MIN_UNPACKED_BYTES, MAX_UNPACKED_RATIO * packed_bytes))


def unpacked_size_error(allowed: int, path: str, *, hint: str = "", code: str = "WDS233") -> DatasetError:
    """Build the error for a file of which more bytes come out than `allowed`."""
    return DatasetError(
        f"more than {allowed >> 20:,} MiB come out of this file, which is out of proportion to its size",
        where=path_for_message(path),
        hint=f"if the file is valid, {hint or RAISE_LIMITS_HINT}",
        code=code,
    )


def check_zip_directory(file: BinaryIO, path: str) -> None:
    """Raise InputError WDS421 if the list of files in a zip is longer than the files in it need.

    `zipfile` reads the list as a whole, and each of its entries takes 13 times as much memory. Looks at each place that
    may be the end of the zip. Leaves the file at its start.
    """
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - _ZIP_END_BYTES)
    file.seek(start)
    tail = file.read(size - start)
    file.seek(0)
    stated = [
        int(struct.unpack_from(form, tail, at + offset)[0])
        for magic, form, offset in ((b"PK\5\6", "<I", 12), (b"PK\6\6", "<Q", 40))
        for at in _find_all(tail, magic)
        if at + offset + struct.calcsize(form) <= len(tail)
    ]
    longest = max((length for length in stated if length != _MAX_U32), default=0)
    if longest > scale_limit(max(MAX_DOCUMENT_BYTES, size // _ZIP_BYTES_PER_DIRECTORY_BYTE)):
        raise InputError(
            f"the zip of {size:,} bytes has a list of files of {longest:,} bytes",
            where=path_for_message(path),
            hint=f"check the content of the zip; if it is valid, {RAISE_LIMITS_HINT}",
            code="WDS421",
        )


def _find_all(data: bytes, magic: bytes) -> Iterator[int]:
    at = data.find(magic)
    while at >= 0:
        yield at
        at = data.find(magic, at + 1)
