"""Repairs one file of lines: UTF-8, LF, an object a line. What cannot be that is left out and counted."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator

from wdsctl.core.members import Read
from wdsctl.core.repairs.fixes import Fixes

_BLOCK = 4 << 20  # bytes read at a time


def repaired_lines(read: Read, size: int, fixes: Fixes, encoding: str = "") -> Iterator[bytes]:
    """The fixed file, line by line, with LF. `encoding`: of the lines that are not UTF-8; empty: leave them out.

    Lines that are sound stay as they are, byte for byte. Raises what reading raises. Cost: that of parsing all lines.
    """
    if read(0, min(2, size)) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        fixes.left.append("it is UTF-16, not UTF-8: `iconv -f UTF-16 -t UTF-8 OLD > NEW` writes it again")
        return
    for number, (line, is_ended) in enumerate(_lines(read, size, fixes), 1):
        body = line
        if body.endswith(b"\r"):
            body = body[:-1]
            fixes.add("line ends changed")
        if not body.strip(b" \t\r"):
            fixes.add("blank lines left out")
            continue
        of_line = Fixes()
        made = _made(body, of_line, encoding)
        if made is None and not is_ended:
            fixes.add("tail cut")
            fixes.lost.append(f"line {number}")
            continue
        fixes.counts += of_line.counts
        if made is not None:
            yield made + b"\n"
        else:
            fixes.lost.append(f"line {number}")


def _lines(read: Read, size: int, fixes: Fixes) -> Iterator[tuple[bytes, bool]]:
    """Lines without their LF, and whether they had one. Memory: a block, or one longer line."""
    at = 0
    if read(0, min(3, size)) == codecs.BOM_UTF8:
        fixes.add("byte order mark left out")
        at = 3
    open_: list[bytes] = []
    while at < size:
        data = read(at, min(_BLOCK, size - at))
        at += len(data)
        first, *rest = data.split(b"\n")
        open_.append(first)
        if rest:
            yield b"".join(open_), True
            yield from ((line, True) for line in rest[:-1])
            open_ = [rest[-1]]
    if any(open_):
        yield b"".join(open_), False


def _made(line: bytes, fixes: Fixes, encoding: str) -> bytes | None:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        again = _again(line, encoding)
        if again is None:
            fixes.add("lines left out that are not UTF-8")
            return None
        text = again
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        fixes.add("lines left out that are no JSON objects")
        return None
    made = text.encode()
    fixes.add("lines encoded again", int(made != line))
    return made


def _again(line: bytes, encoding: str) -> str | None:
    if not encoding:
        return None
    try:
        return line.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None
