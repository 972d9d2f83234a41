"""Repair one JSONL file: UTF-8, LF, one object per line. Leaves out and counts all other lines."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from wdsctl.core.json_text import read_json
from wdsctl.core.repair.fixes import Fixes
from wdsctl.core.shards.tar_members import ReadBytes

_BLOCK_BYTES = 4 << 20  # bytes per read


def repair_lines(read: ReadBytes, size: int, fixes: Fixes, encoding: str = "") -> Iterator[bytes]:
    """Yield the lines of the fixed file, with LF. `encoding`: the encoding of lines that are not UTF-8.

    If `encoding` is empty, leaves those lines out. Valid lines keep their bytes. Raises storage errors. Costs as much
    as parsing all lines.
    """
    if read(0, min(2, size)) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        fixes.remaining_problems.append(
            "the file is UTF-16, not UTF-8: convert it with `iconv -f UTF-16 -t UTF-8 OLD > NEW`"
        )
        return
    for number, (line, is_ended) in enumerate(_read_lines(read, size, fixes), 1):
        body = line
        if body.endswith(b"\r"):
            body = body[:-1]
            fixes.add("line ends converted")
        if not body.strip(b" \t\r"):
            fixes.add("blank lines removed")
            continue
        line_fixes = Fixes()
        repaired = _repair_line(body, line_fixes, encoding)
        if repaired is None and not is_ended:
            fixes.add("truncated tail removed")
            fixes.lost_members.append(f"line {number}")
            continue
        fixes.counts += line_fixes.counts
        if repaired is not None:
            yield repaired + b"\n"
        else:
            fixes.lost_members.append(f"line {number}")


def _read_lines(read: ReadBytes, size: int, fixes: Fixes) -> Iterator[tuple[bytes, bool]]:
    """Yield (line without LF, whether it had one). Memory: one block, or one longer line."""
    offset = 0
    if read(0, min(3, size)) == codecs.BOM_UTF8:
        fixes.add("byte order mark removed")
        offset = 3
    unfinished: list[bytes] = []
    while offset < size:
        data = read(offset, min(_BLOCK_BYTES, size - offset))
        offset += len(data)
        first, *rest = data.split(b"\n")
        unfinished.append(first)
        if rest:
            yield b"".join(unfinished), True
            yield from ((line, True) for line in rest[:-1])
            unfinished = [rest[-1]]
    if any(unfinished):
        yield b"".join(unfinished), False


def _repair_line(line: bytes, fixes: Fixes, encoding: str) -> bytes | None:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        try:
            text = line.decode(encoding or "utf-8")
        except (UnicodeDecodeError, LookupError):
            fixes.add("non-UTF-8 lines removed")
            return None
    try:
        is_object = isinstance(read_json(text), dict)
    except ValueError:
        is_object = False
    if not is_object:
        fixes.add("lines without a JSON object removed")
        return None
    repaired = text.encode()
    fixes.add("lines re-encoded as UTF-8", int(repaired != line))
    return repaired
