"""Scans one file of lines: where every line begins and ends. No JSON is parsed, unless keys come from a field.

A line that is not blank is a sample with the one part `json`. Ends of lines are LF or CRLF, mixed as they may be; a
byte order mark is passed over. Newlines are searched for a block at a time (`newlines`), by as many threads as asked.
Cost: about 0.4 ns a byte and 40 ns a line; memory: some blocks, and some 80 bytes a line while the file is scanned.

Source: RFC 8259 (JSON: its whitespace, UTF-8, no byte order mark), https://jsonlines.org (the lines).
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.line_findings import LineFindings
from wdsctl.core.line_keys import NUMBERS, LineKeys, key_of, numbered
from wdsctl.core.newlines import BLOCK, Block, Read, searched
from wdsctl.core.plain_members import Ints
from wdsctl.core.scan_findings import sample_findings
from wdsctl.core.shard_scan import ShardScan, Status
from wdsctl.core.tar import compression

PART = "json"

_PARSED = 16 << 20  # bytes up to which a last line without an end is parsed, to tell whether it was cut
_NEAR_END = 12  # bytes before the end within which the parser stops at a cut: the longest token is shorter
_CR, _OPEN, _CLOSE = b"\r{}"
_LETTER = re.compile(rb"[^ \t\r]")


class Line(NamedTuple):
    """Where one line is, from its first byte to before its end."""

    start: int
    stop: int


class _Closed(NamedTuple):
    """The lines that end in a block, blank ones left out. `odd`: which of them are not `{...}`."""

    starts: Ints
    stops: Ints
    odd: NDArray[np.bool_]


def scan_lines(
    shard: str, read: Read, size: int, keys: LineKeys = NUMBERS, *, block: int = BLOCK, threads: int = 1
) -> ShardScan:
    """Scan a file of `size` bytes; `shard` is the name its findings carry. Raises what `read` raises, nothing else.

    With several `threads`, all of them call `read`. The scan is the same for any number.
    """
    found = LineFindings(shard, keys.prefix(shard))
    head = read(0, min(size, 4096))
    if found.refuses(head, compression(head)):
        return _scan("bad", (), np.empty(0, np.int64), np.empty(0, np.int64), found)
    search = _Search(read, size, found, len(codecs.BOM_UTF8) * head.startswith(codecs.BOM_UTF8))
    fields: list[str | None] = []
    starts: list[Ints] = []
    stops: list[Ints] = []
    lines = 0
    with closing(search.blocks(block, threads)) as blocks:
        for piece, closed in blocks:
            starts.append(closed.starts)
            stops.append(closed.stops)
            if closed.odd.any():
                rows = np.flatnonzero(closed.odd)
                found.not_objects(len(rows), lines + int(rows[0]), int(closed.starts[rows[0]]))
            if keys.field:
                each = map(Line, closed.starts.tolist(), closed.stops.tolist())
                fields += [key_of(_bytes_of(line, piece, read), keys.field) for line in each]
            lines += len(closed.starts)
    status: Status = "ok"
    if search.is_cut:
        status = "partial" if lines else "bad"
    return _scan(status, (keys, shard, fields), _joined(starts), _joined(stops), found)


def _bytes_of(line: Line, piece: Block, read: Read) -> bytes:
    """Lines that began in an earlier block are read once more: few are, or they are long."""
    if line.start < piece.base:
        return read(line.start, line.stop - line.start)
    return piece.data[line.start - piece.base : line.stop - piece.base]


class _Search:
    """Goes through a file block by block. Of a line that is still open it keeps where it began, and no bytes of it."""

    def __init__(self, read: Read, size: int, found: LineFindings, begin: int) -> None:
        self._read = read
        self._size = size
        self._found = found
        self._begin = begin  # of the line that is open
        self._first = -1  # its first byte that is no space; -1 while there is none
        self._last = -1  # its last such byte
        self._was_cr = False  # whether the byte before this block is a CR
        self.is_cut = False

    def blocks(self, block: int, threads: int) -> Generator[tuple[Block, _Closed], None, None]:
        """To be closed, for its threads end then."""
        with closing(searched(self._read, self._begin, self._size, block=block, threads=threads)) as pieces:
            for piece in pieces:
                yield piece, self._closed(*piece)
        if self._first >= 0:
            rest = self._rest()
            if rest is not None:
                yield rest

    def _closed(self, data: bytes, base: int, ends: Ints) -> _Closed:
        if not len(ends):
            self._grow(data)
            return _none()
        first = int(ends[0])
        opened = self._close_open(data[:first], base + first)
        letters = np.frombuffer(data, np.uint8)
        starts, stops = ends[:-1] + 1, ends[1:]
        last = letters[stops - 1]
        if (last == _CR).any():
            stops = stops - ((last == _CR) & (stops > starts))
            last = letters[stops - 1]
        starts, stops, odd = _sorted_out(data, letters, starts, stops, last)
        self._begin = base + int(ends[-1]) + 1
        self._first = self._last = -1
        self._grow(data[int(ends[-1]) + 1 :])
        if opened is None:
            return _Closed(starts + base, stops + base, odd)
        line, is_odd = opened
        return _Closed(
            np.concatenate([[line.start], starts + base]),
            np.concatenate([[line.stop], stops + base]),
            np.concatenate([[is_odd], odd]),
        )

    def _close_open(self, more: bytes, end: int) -> tuple[Line, bool] | None:
        """The line that was open, with the rest of it; None if it is blank."""
        was_cr = self._was_cr
        self._grow(more)
        if self._first < 0:
            return None
        stop = end - (more.endswith(b"\r") if more else was_cr)
        return Line(self._begin, stop), (self._first, self._last) != (_OPEN, _CLOSE)

    def _grow(self, more: bytes) -> None:
        """The line that is open goes on with these bytes."""
        if not more:
            self._was_cr = False
            return
        if self._first < 0:
            letter = _LETTER.search(more)
            self._first = -1 if letter is None else more[letter.start()]
        last = last_letter(more)
        self._last = self._last if last < 0 else last
        self._was_cr = more.endswith(b"\r")

    def _rest(self) -> tuple[Block, _Closed] | None:
        """The last line where nothing ends it: whole, or cut and then no sample."""
        stop = self._size - self._was_cr
        size = stop - self._begin
        is_odd = (self._first, self._last) != (_OPEN, _CLOSE)
        line = self._read(self._begin, size) if size <= _PARSED else b""
        self.is_cut = is_cut(line) if line else self._last != _CLOSE
        if self.is_cut:
            self._found.cut(self._begin)
            return None
        closed = _Closed(np.array([self._begin]), np.array([stop]), np.array([is_odd]))
        return Block(line, self._begin if line else self._size, np.empty(0, np.int64)), closed


def _none() -> _Closed:
    return _Closed(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


def last_letter(data: bytes) -> int:
    """The last byte that is no space; -1 where there is none."""
    stop = len(data)
    while stop > 0:
        tail = data[max(0, stop - 64) : stop].rstrip(b" \t\r")
        if tail:
            return tail[-1]
        stop -= 64
    return -1


def _sorted_out(
    data: bytes, letters: NDArray[np.uint8], starts: Ints, stops: Ints, last: NDArray[np.uint8]
) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Lines of a block without the blank ones, and which of them are not `{...}`. Only odd ones are looked at.

    `last`: the byte before each of `stops`.
    """
    filled = stops > starts
    if not filled.all():
        starts, stops, last = starts[filled], stops[filled], last[filled]
    odd = (letters[starts] != _OPEN) | (last != _CLOSE)
    if not odd.any():
        return starts, stops, odd
    kept = np.ones(len(starts), np.bool_)
    for row in np.flatnonzero(odd).tolist():
        line = data[starts[row] : stops[row]].strip(b" \t\r")
        kept[row] = len(line) > 0
        odd[row] = not (line.startswith(b"{") and line.endswith(b"}"))
    return starts[kept], stops[kept], odd[kept]


def is_cut(line: bytes) -> bool:
    """Whether the parser stumbles over the end of a line, and nothing before it."""
    try:
        json.loads(line)
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string") or error.pos >= len(error.doc.rstrip()) - _NEAR_END
    except (ValueError, RecursionError):
        return False  # an integer of more digits than Python reads, or nesting deeper than its stack
    return False


def _joined(arrays: list[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _scan(
    status: Status,
    naming: tuple[()] | tuple[LineKeys, str, list[str | None]],
    starts: Ints,
    stops: Ints,
    found: LineFindings,
) -> ShardScan:
    count = len(starts)
    keys, key_sizes, is_numbered = _keys(naming, starts, found)
    sizes = stops - starts
    if not count and status == "ok":
        found.no_samples()
    scan = ShardScan(
        status=status,
        keys=keys,
        key_sizes=key_sizes,
        offsets=starts,
        sizes=sizes,
        counts=np.ones(count, np.uint32),
        extensions=(PART,) if count else (),
        part_names=np.zeros(count, np.uint32),
        part_offsets=starts,
        part_sizes=sizes,
        findings=(),
        numbered=naming[0].prefix(naming[1]) if naming and is_numbered else None,
    )
    repeated = () if is_numbered else tuple(sample_findings(found.shard, scan))
    return replace(scan, findings=(*found.all(), *repeated))


def _keys(
    naming: tuple[()] | tuple[LineKeys, str, list[str | None]], starts: Ints, found: LineFindings
) -> tuple[bytes, NDArray[np.uint32], bool]:
    """All keys in one piece, their sizes, and whether they are numbers: those come once each."""
    if not naming:
        return b"", np.empty(0, np.uint32), True
    keys, shard, fields = naming
    prefix = keys.prefix(shard)
    if not keys.field:
        return *numbered(prefix.encode(), len(starts)), True
    without = [i for i, key in enumerate(fields) if key is None]
    if without:
        found.without_field(keys.field, len(without), f"{prefix}{without[0]}", int(starts[without[0]]))
    encoded = [(f"{prefix}{i}" if key is None else key).encode() for i, key in enumerate(fields)]
    return b"".join(encoded), np.fromiter(map(len, encoded), np.uint32, len(encoded)), False
