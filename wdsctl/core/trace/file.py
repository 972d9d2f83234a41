"""One trace file as a reader sees it: its header, where its blocks are, and what of it cannot be read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

import numpy as np

from wdsctl.core.os_errors import translated
from wdsctl.core.trace.block import (
    HEAD_BYTES,
    LEAD_BYTES,
    MAGIC,
    MARK,
    Block,
    Head,
    Ints,
    decode,
    parse_head,
    parse_lead,
)
from wdsctl.core.trace.facts import NewerTraceError, RunFacts, from_json

_PIECE = 1 << 20  # bytes looked through at once for where the blocks go on

Kind = Literal["cut", "damaged", "newer", "gap"]


@dataclass(frozen=True, slots=True)
class Flaw:
    """What of a file cannot be read, from byte `at` on. `cut`: its end is missing, as a killed run leaves it. `gap`:
    batches are missing before the block there, as a disk that was full leaves it."""

    path: str
    at: int
    kind: Kind
    message: str


@dataclass(frozen=True)
class TraceFile:
    """`places`: (blocks, 6) of low, high, base, pass, the byte of the head, batches: 48 bytes for some 100 batches."""

    path: str
    facts: RunFacts
    places: Ints
    flaws: tuple[Flaw, ...]


def open_file(path: str) -> TraceFile | Flaw:
    """The file, or why nothing of it can be read. Reads its header and the heads of its blocks."""
    with translated(path, "read"), open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        facts = _facts(file, path, size)
        if isinstance(facts, Flaw):
            return facts
        flaws: list[Flaw] = []
        rows = list(_heads(file, path, file.tell(), size, flaws))
        places = np.array(rows, np.int64).reshape(-1, 6)
        return TraceFile(path, facts, places, (*flaws, *_gaps(path, facts, places)))


def read_block(file: TraceFile, at: int) -> Block | Flaw:
    """The block whose head is at this byte, or why it cannot be read."""
    with translated(file.path, "read"), open(file.path, "rb", buffering=0) as handle:
        handle.seek(at)
        head = parse_head(handle.read(HEAD_BYTES))
        block = None if head is None else decode(head, handle.read(head.length))
    return block or _damaged(file.path, at, "a block of it")


def _facts(file: BinaryIO, path: str, size: int) -> RunFacts | Flaw:
    """What the header says. The file stands behind it afterwards."""
    start = file.read(LEAD_BYTES)
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        return Flaw(path, 0, "damaged", "it is no trace file")
    length, crc = parse_lead(start) if len(start) == LEAD_BYTES else (size, 0)
    if LEAD_BYTES + length > size:
        return _cut(path, 0)
    header = file.read(length)
    try:
        return from_json(header) if zlib.crc32(header) == crc else _damaged(path, 0, "its header")
    except NewerTraceError as error:
        return Flaw(path, 0, "newer", str(error))
    except (ValueError, TypeError, KeyError):
        return _damaged(path, 0, "its header")


def _heads(file: BinaryIO, path: str, at: int, size: int, flaws: list[Flaw]) -> Iterator[tuple[int, ...]]:
    while at < size:
        file.seek(at)
        data = file.read(HEAD_BYTES)
        head = parse_head(data)
        if head is None:
            following = _next_head(file, at + 1, size)
            if following is None and MARK.startswith(data[: len(MARK)]) and len(data) < HEAD_BYTES:
                flaws.append(_cut(path, at))
            else:
                flaws.append(_damaged(path, at, "a part of it"))
            if following is None:
                return
            at = following
            continue
        end = at + HEAD_BYTES + head.length
        if end > size:
            flaws.append(_cut(path, at))
            return
        yield _place(head, at)
        at = end


def _gaps(path: str, facts: RunFacts, places: Ints) -> Iterator[Flaw]:
    """Where the rank drew on, in the pass it was in, and later than at its next batch: it began another stretch."""
    before, after = places[:-1], places[1:]
    is_later = (
        (after[:, 3] == before[:, 3]) & (after[:, 2] != before[:, 2]) & (after[:, 0] > before[:, 1] + facts.world)
    )
    for i in np.flatnonzero(is_later).tolist():
        first, last = int(before[i, 1]) + facts.world, int(after[i, 0]) - facts.world
        message = (
            f"batches {first:,} to {last:,} of rank {facts.rank} are missing: they could not be written, or the job "
            "went on from a later state there"
        )
        yield Flaw(path, int(after[i, 4]), "gap", message)


def _place(head: Head, at: int) -> tuple[int, ...]:
    return head.low, head.high, head.base, head.pass_number, at, head.batches


def _next_head(file: BinaryIO, at: int, size: int) -> int | None:
    """Where the next whole head is; None where there is none."""
    while at < size:
        file.seek(at)
        data = file.read(_PIECE + HEAD_BYTES)
        found = data.find(MARK)
        while 0 <= found < _PIECE:
            if parse_head(data[found : found + HEAD_BYTES]) is not None:
                return at + found
            found = data.find(MARK, found + 1)
        at += _PIECE
    return None


def _cut(path: str, at: int) -> Flaw:
    return Flaw(path, at, "cut", "its end is missing: the run was killed while it wrote, or is writing now")


def _damaged(path: str, at: int, what: str) -> Flaw:
    return Flaw(path, at, "damaged", f"{what} is damaged")
