"""Files that list samples: keys, one a line, or JSONL such as `wdsctl view export --format jsonl` writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from wdsctl.core.errors import InputError
from wdsctl.core.line_files import is_lines
from wdsctl.core.os_errors import translated

_BOM = b"\xef\xbb\xbf"
STDIN = "-"


class Listed(NamedTuple):
    """A sample that is asked for: wherever the key is, or in one shard, or at one place of it."""

    key: str
    shard: str | None = None
    position: int | None = None


def listed(path: str) -> Iterator[Listed]:
    r"""The samples that a file names, in its order; `-` reads stdin. Blank lines are passed over.

    Lines may end in CRLF, the file may begin with a BOM; bytes that are no UTF-8 mean keys with `\xNN` in them, as the
    catalog has them. In a file that ends in .jsonl, each line is an object with `key`, and `shard` and `position`
    where they are known. Raises InputError, StorageError and PermissionDenied.
    """
    is_json = is_lines(path)
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            text = line.removeprefix(_BOM) if number == 1 else line
            text = text.rstrip(b"\r\n")
            if text.strip():
                yield _from_json(text, path, number) if is_json else Listed(text.decode("utf-8", "backslashreplace"))


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == STDIN:
        yield sys.stdin.buffer
        return
    with translated(path, "read"), open(path, "rb") as file:
        yield file


def _from_json(line: bytes, path: str, number: int) -> Listed:
    try:
        value = json.loads(line)
        key, shard, position = value["key"], value.get("shard"), value.get("position")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _unusable(path, number) from error
    is_place = position is None or (type(position) is int and shard is not None)
    if not (isinstance(key, str) and isinstance(shard, str | None) and is_place):
        raise _unusable(path, number)
    return Listed(key, shard, position)


def _unusable(path: str, number: int) -> InputError:
    return InputError(
        f"line {number:,} names no sample",
        where=path,
        hint='write {"key": "0001"} a line, with "shard" where a key repeats; or keys alone, in a .txt file',
    )
