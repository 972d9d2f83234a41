"""Scan one JSONL file: find where every line begins and ends. JSON is parsed only if keys come from a field.

A line that is not blank is a sample with one part, `json`. Lines end with LF or CRLF, also mixed. The scan skips a byte
order mark.

The scan searches for newlines block by block. Threads may read blocks ahead, since reading is half of the work and
releases the GIL. The caller's thread does the searching, because its many short calls would wait for the GIL. Blocks
arrive in file order for any number of threads. Cost: about 0.4 ns a byte (0.25 with blocks read ahead) and 40 ns a
line. Memory: two blocks a thread, and about 80 bytes a line during the scan.

Sources: RFC 8259 (JSON: whitespace, UTF-8, no byte order mark), https://jsonlines.org (lines).
"""

from __future__ import annotations

import codecs
import json
import re
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import islice, starmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.json_text import read_json
from wdsctl.core.shards.jsonl_findings import JsonlFindings
from wdsctl.core.shards.jsonl_keys import LINE_NUMBER_KEYS, JsonlKeyRule, build_numbered_keys, read_key_field
from wdsctl.core.shards.shard_scan import ShardScan, ShardStatus
from wdsctl.core.shards.tar_findings import duplicate_findings
from wdsctl.core.tar_header import detect_compression

ReadBytes = Callable[[int, int], bytes]
Extent = tuple[int, int]  # offset and size

SCAN_BLOCK_BYTES = (
    2 << 20
)  # bytes of a block: few enough for the cache, and enough that threads seldom wait for one another

_BLOCKS_PER_THREAD = 2  # blocks in flight for each thread: one that it reads, and the next one
_MIN_BLOCKS_FOR_THREADS = 2  # files of so few blocks are read before a thread has started
_LF = ord("\n")


class NewlineBlock(NamedTuple):
    data: bytes
    base: int  # offset of the block in the file
    newlines: Int64Array  # offsets of its line feeds in `data`


def iter_newline_blocks(
    read: ReadBytes, start: int, size: int, *, block_bytes: int = SCAN_BLOCK_BYTES, threads: int = 1
) -> Generator[NewlineBlock, None, None]:
    """Yield the blocks of a file of `size` bytes, from `start` on. Raises what `read` raises.

    With several threads, all but the caller's read ahead, and call `read` in parallel.
    """
    ranges = [(at, min(block_bytes, size - at)) for at in range(start, size, block_bytes)]
    if threads <= 1 or len(ranges) <= _MIN_BLOCKS_FOR_THREADS:
        yield from _blocks(ranges, starmap(read, ranges))
        return
    pool = ThreadPoolExecutor(threads - 1, thread_name_prefix="wdsctl-lines")
    try:
        yield from _blocks(ranges, _read_ahead(pool, read, ranges, _BLOCKS_PER_THREAD * (threads - 1)))
    finally:
        pool.shutdown(cancel_futures=True)


def _blocks(extents: Sequence[Extent], chunks: Iterable[bytes]) -> Iterator[NewlineBlock]:
    for (at, _), data in zip(extents, chunks, strict=True):
        yield NewlineBlock(data, at, find_newlines(data))


def _read_ahead(
    pool: ThreadPoolExecutor, read: ReadBytes, extents: Sequence[Extent], in_flight: int
) -> Iterator[bytes]:
    left = iter(extents)
    waiting = deque(pool.submit(read, *block_range) for block_range in islice(left, in_flight))
    while waiting:
        data = waiting.popleft().result()
        waiting.extend(pool.submit(read, *block_range) for block_range in islice(left, 1))
        yield data


def find_newlines(data: bytes) -> Int64Array:
    """Return the offsets of the line feeds.

    Compares words of eight bytes: most words have no line feed, and most of the others have one.
    """
    hits = np.frombuffer(data, np.uint8) == _LF
    aligned = len(hits) // 8 * 8
    words = hits[:aligned].view("<u8")
    filled = np.flatnonzero(words != 0)
    found = words[filled]
    if (found & (found - np.uint64(1))).any():
        return np.flatnonzero(hits)
    # A word with one hit is a power of two. Its float has the exponent in the upper bits; an eighth of it is the byte.
    exponents = (found.astype(np.float64).view(np.int64) >> 52) - 1023
    positions = (filled << 3) + (exponents >> 3)
    rest = np.flatnonzero(hits[aligned:]) + aligned
    return np.concatenate([positions, rest]) if len(rest) else positions


JSON_PART = "json"

_MAX_PARSED_BYTES = 16 << 20  # bytes; a longer last line without a newline is not parsed to find out if it is cut
_NEAR_END = 12  # bytes; the parser stops at most so far before a cut, as the longest token is shorter
_CR, _OPEN, _CLOSE = b"\r{}"
_LETTER = re.compile(rb"[^ \t\r]")


class LineSpan(NamedTuple):
    """Offsets of a line: its first byte, and the end of its content."""

    start: int
    stop: int


class _CompleteLines(NamedTuple):
    """The lines that end in a block, without blank ones. `is_not_object`: which of them are not `{...}`."""

    starts: Int64Array
    stops: Int64Array
    is_not_object: NDArray[np.bool_]


def scan_jsonl(
    shard: str,
    read: ReadBytes,
    size: int,
    key_rule: JsonlKeyRule = LINE_NUMBER_KEYS,
    *,
    block_bytes: int = SCAN_BLOCK_BYTES,
    threads: int = 1,
) -> ShardScan:
    """Scan a file of `size` bytes; findings name it `shard`. Raises what `read` raises, nothing else.

    With several `threads`, all of them call `read`. The result is the same for any number of threads.
    """
    found = JsonlFindings(shard, key_rule.prefix(shard))
    head = read(0, min(size, 4096))
    if found.check_head(head, detect_compression(head)):
        return _build_scan("bad", (), np.empty(0, np.int64), np.empty(0, np.int64), found)
    search = _LineScanner(read, size, found, len(codecs.BOM_UTF8) * head.startswith(codecs.BOM_UTF8))
    fields: list[str | None] = []
    starts: list[Int64Array] = []
    stops: list[Int64Array] = []
    lines = 0
    with closing(search.blocks(block_bytes, threads)) as blocks:
        for piece, closed in blocks:
            starts.append(closed.starts)
            stops.append(closed.stops)
            if closed.is_not_object.any():
                rows = np.flatnonzero(closed.is_not_object)
                found.add_non_objects(len(rows), lines + int(rows[0]), int(closed.starts[rows[0]]))
            if key_rule.field:
                each = map(LineSpan, closed.starts.tolist(), closed.stops.tolist())
                fields += [read_key_field(_read_line(line, piece, read), key_rule.field) for line in each]
            lines += len(closed.starts)
    status: ShardStatus = "ok"
    if search.is_truncated:
        status = "partial" if lines else "bad"
    return _build_scan(status, (key_rule, shard, fields), _concatenate(starts), _concatenate(stops), found)


def _read_line(line: LineSpan, block: NewlineBlock, read: ReadBytes) -> bytes:
    """Return the bytes of a line. A line that begins in an earlier block is read again: such lines are few, or long."""
    if line.start < block.base:
        return read(line.start, line.stop - line.start)
    return block.data[line.start - block.base : line.stop - block.base]


class _LineScanner:
    """Goes through a file block by block. For a line that a block leaves open it keeps the start, not the bytes."""

    def __init__(self, read: ReadBytes, size: int, findings: JsonlFindings, begin: int) -> None:
        self._read = read
        self._size = size
        self._findings = findings
        self._begin = begin  # offset of the open line
        self._first_byte = -1  # its first byte that is not blank; -1 if there is none so far
        self._last_byte = -1  # its last byte that is not blank
        self._was_cr = False  # whether the last byte seen is a CR
        self.is_truncated = False

    def blocks(self, block_bytes: int, threads: int) -> Generator[tuple[NewlineBlock, _CompleteLines], None, None]:
        """Yield each block with the lines that end in it. Close the generator, so that its threads end."""
        with closing(
            iter_newline_blocks(self._read, self._begin, self._size, block_bytes=block_bytes, threads=threads)
        ) as pieces:
            for piece in pieces:
                yield piece, self._take_lines(*piece)
        if self._first_byte >= 0:
            rest = self._rest()
            if rest is not None:
                yield rest

    def _take_lines(self, data: bytes, base: int, ends: Int64Array) -> _CompleteLines:
        if not len(ends):
            self._extend_open_line(data)
            return _CompleteLines(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))
        first = int(ends[0])
        opened = self._close_open_line(data[:first], base + first)
        letters = np.frombuffer(data, np.uint8)
        starts, stops = ends[:-1] + 1, ends[1:]
        last = letters[stops - 1]
        if (last == _CR).any():
            stops = stops - ((last == _CR) & (stops > starts))
            last = letters[stops - 1]
        starts, stops, odd = _drop_blank_lines(data, letters, starts, stops, last)
        self._begin = base + int(ends[-1]) + 1
        self._first_byte = self._last_byte = -1
        self._extend_open_line(data[int(ends[-1]) + 1 :])
        if opened is None:
            return _CompleteLines(starts + base, stops + base, odd)
        line, is_odd = opened
        return _CompleteLines(
            np.concatenate([[line.start], starts + base]),
            np.concatenate([[line.stop], stops + base]),
            np.concatenate([[is_odd], odd]),
        )

    def _close_open_line(self, more: bytes, end: int) -> tuple[LineSpan, bool] | None:
        """Return the open line, ended by the bytes `more`, and whether it is not `{...}`. None if it is blank."""
        was_cr = self._was_cr
        self._extend_open_line(more)
        if self._first_byte < 0:
            return None
        stop = end - (more.endswith(b"\r") if more else was_cr)
        return LineSpan(self._begin, stop), (self._first_byte, self._last_byte) != (_OPEN, _CLOSE)

    def _extend_open_line(self, more: bytes) -> None:
        """Add these bytes to the open line."""
        if not more:
            self._was_cr = False
            return
        if self._first_byte < 0:
            letter = _LETTER.search(more)
            self._first_byte = -1 if letter is None else more[letter.start()]
        last = last_non_blank_byte(more)
        self._last_byte = self._last_byte if last < 0 else last
        self._was_cr = more.endswith(b"\r")

    def _rest(self) -> tuple[NewlineBlock, _CompleteLines] | None:
        """Return the last line if no newline ends it. A cut line is not a sample: it becomes a finding."""
        stop = self._size - self._was_cr
        size = stop - self._begin
        is_odd = (self._first_byte, self._last_byte) != (_OPEN, _CLOSE)
        line = self._read(self._begin, size) if size <= _MAX_PARSED_BYTES else b""
        self.is_truncated = is_truncated_json(line) if line else self._last_byte != _CLOSE
        if self.is_truncated:
            self._findings.add_truncated_line(self._begin)
            return None
        closed = _CompleteLines(np.array([self._begin]), np.array([stop]), np.array([is_odd]))
        return NewlineBlock(line, self._begin if line else self._size, np.empty(0, np.int64)), closed


def last_non_blank_byte(data: bytes) -> int:
    """Return the last byte that is not a space, tab or CR; -1 if there is none."""
    stop = len(data)
    while stop > 0:
        tail = data[max(0, stop - 64) : stop].rstrip(b" \t\r")
        if tail:
            return tail[-1]
        stop -= 64
    return -1


def _drop_blank_lines(
    data: bytes, letters: NDArray[np.uint8], starts: Int64Array, stops: Int64Array, last: NDArray[np.uint8]
) -> tuple[Int64Array, Int64Array, NDArray[np.bool_]]:
    """Return the lines of a block without blank ones, and which of them are not `{...}`.

    `last`: the byte before each of `stops`. Only lines whose first or last byte is unusual are examined.
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


def is_truncated_json(line: bytes) -> bool:
    """Whether JSON parsing fails at the end of the line, and not before it."""
    try:
        read_json(line)
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string") or error.pos >= len(error.doc.rstrip()) - _NEAR_END
    except ValueError:
        return False  # an integer of more digits than Python reads, or nesting deeper than its stack
    return False


def _concatenate(arrays: list[Int64Array]) -> Int64Array:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _build_scan(
    status: ShardStatus,
    key_source: tuple[()] | tuple[JsonlKeyRule, str, list[str | None]],
    starts: Int64Array,
    stops: Int64Array,
    findings: JsonlFindings,
) -> ShardScan:
    count = len(starts)
    keys, key_sizes, is_numbered = _build_keys(key_source, starts, findings)
    sizes = stops - starts
    if not count and status == "ok":
        findings.add_no_samples()
    scan = ShardScan(
        status=status,
        keys=keys,
        key_sizes=key_sizes,
        offsets=starts,
        sizes=sizes,
        counts=np.ones(count, np.uint32),
        extensions=(JSON_PART,) if count else (),
        part_names=np.zeros(count, np.uint32),
        part_offsets=starts,
        part_sizes=sizes,
        findings=(),
        numbered_key_prefix=key_source[0].prefix(key_source[1]) if key_source and is_numbered else None,
    )
    repeated = () if is_numbered else tuple(duplicate_findings(findings.shard, scan))
    return replace(scan, findings=(*findings.to_findings(), *repeated))


def _build_keys(
    key_source: tuple[()] | tuple[JsonlKeyRule, str, list[str | None]], starts: Int64Array, findings: JsonlFindings
) -> tuple[bytes, NDArray[np.uint32], bool]:
    """Return all keys joined, their sizes, and whether they are line numbers, which cannot repeat."""
    if not key_source:
        return b"", np.empty(0, np.uint32), True
    keys, shard, fields = key_source
    prefix = keys.prefix(shard)
    if not keys.field:
        return *build_numbered_keys(prefix.encode(), len(starts)), True
    without = [i for i, key in enumerate(fields) if key is None]
    if without:
        findings.add_missing_field(keys.field, len(without), f"{prefix}{without[0]}", int(starts[without[0]]))
    encoded = [(f"{prefix}{i}" if key is None else key).encode() for i, key in enumerate(fields)]
    return b"".join(encoded), np.fromiter(map(len, encoded), np.uint32, len(encoded)), False
