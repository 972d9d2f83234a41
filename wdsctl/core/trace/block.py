"""A block of a trace: the origins of some batches, as one frame that a reader can check and skip.

A trace file, version 1, little-endian: `WDSTRC1\\n`; u32 length and u32 CRC-32 of the header; the header, JSON (see
`facts.py`); then frames. A frame is a head of 60 bytes and a body:

    mark      4s   WTB1
    length    u4   bytes of the body
    crc       u4   CRC-32 of the body
    batches   u4
    samples   u4   of all of them
    width     u4   numbers an origin: 3 (source, pass, id), or 4 where one of them has a step
    low       i8   the number of the first batch
    high      i8   the number of the last, none of them smaller than the one before it
    base      i8   the world's batches when the rank began to draw without a gap
    pass_number      i8   which pass of a finite stream; 0 of an endless one
    head crc  u4   CRC-32 of the 56 bytes before

The body, compressed by zlib: i8 what each batch's number is above the one before (0 of the first), u4 samples of each
batch, then the origins as i8, all first bytes together, then all second bytes, and so on. An origin without a step has
-1 there. Of a piece, which packing cut off a sample, the origin is the sample's. An origin of source -1 is of a sample
that has no restore key.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAGIC = b"WDSTRC1\n"
MARK = b"WTB1"

Ints = NDArray[np.int64]

_HEAD = struct.Struct("<4s5I4qI")
HEAD_BYTES = _HEAD.size
_LEAD = struct.Struct("<II")
LEAD_BYTES = len(MAGIC) + _LEAD.size

NOBODY = (-1, -1, -1)
_LIMIT = 1 << 63
_PIECE = 7  # parts of a restore key of a piece: source, pass, id, step, and start, stop and length of the sample


class Head(NamedTuple):
    length: int
    crc: int
    batches: int
    samples: int
    width: int
    low: int
    high: int
    base: int
    pass_number: int


@dataclass(frozen=True, slots=True)
class Block:
    """`numbers`: (batches,). `first`: (batches + 1,), the row of each batch's first origin. `origins`: (samples, 4) of
    source, pass, id and step; -1 where there is none."""

    numbers: Ints
    first: Ints
    origins: Ints


def lead(header: bytes) -> bytes:
    """The beginning of a file, up to its first frame."""
    return MAGIC + _LEAD.pack(len(header), zlib.crc32(header)) + header


def parse_lead(data: bytes) -> tuple[int, int]:
    """(length, CRC-32) of the header, from the first LEAD_BYTES of a file."""
    length, crc = _LEAD.unpack_from(data, len(MAGIC))
    return int(length), int(crc)


def encode(numbers: Sequence[int], sizes: Sequence[int], origins: Sequence[Any], base: int, pass_number: int) -> bytes:
    """One frame. `origins` of all batches one after the other. 1.2 ms for 100 batches of 32."""
    table, width = _table(origins)
    body = zlib.compress(
        np.diff(np.array(numbers, "<i8"), prepend=numbers[0]).tobytes()
        + np.array(sizes, "<u4").tobytes()
        + table.view(np.uint8).reshape(len(origins), width * 8).T.tobytes(),
        1,
    )
    head = _HEAD.pack(
        MARK,
        len(body),
        zlib.crc32(body),
        len(numbers),
        len(origins),
        width,
        numbers[0],
        numbers[-1],
        base,
        pass_number,
        0,
    )[:-4]
    return head + zlib.crc32(head).to_bytes(4, "little") + body


def parse_head(data: bytes) -> Head | None:
    """The head in these bytes; None where they are none."""
    if len(data) < HEAD_BYTES:
        return None
    mark, *facts, crc = _HEAD.unpack_from(data)
    return Head(*facts) if mark == MARK and zlib.crc32(data[: HEAD_BYTES - 4]) == crc else None


def decode(head: Head, body: bytes) -> Block | None:
    """The block; None where the body is not what the head promises. 0.2 ms for 100 batches of 32."""
    if len(body) != head.length or zlib.crc32(body) != head.crc:
        return None
    whole = head.batches * 12 + head.samples * head.width * 8
    try:
        data = zlib.decompress(body, bufsize=max(1, whole))
    except zlib.error:
        return None
    if len(data) != whole or head.width not in {3, 4}:
        return None
    steps = np.frombuffer(data, "<i8", head.batches)
    sizes = np.frombuffer(data, "<u4", head.batches, head.batches * 8)
    first = np.zeros(head.batches + 1, np.int64)
    np.cumsum(sizes, out=first[1:])
    if first[-1] != head.samples:
        return None
    planes = np.frombuffer(data, np.uint8, offset=head.batches * 12).reshape(head.width * 8, head.samples)
    origins = np.full((head.samples, 4), -1, np.int64)
    origins[:, : head.width] = np.ascontiguousarray(planes.T).view("<i8").reshape(head.samples, head.width)
    return Block(head.low + np.cumsum(steps, dtype=np.int64), first, origins)


def _table(origins: Sequence[Any]) -> tuple[Ints, int]:
    """The origins as (samples, width). Those of one width, as nearly all blocks have them, cost no look at each."""
    try:
        widths = set(map(len, origins))
        width = widths.pop() if len(widths) == 1 else 0
        if width in {3, 4}:
            flat = np.fromiter(chain.from_iterable(origins), np.dtype("<i8"), len(origins) * width)
            return flat.reshape(-1, width), width
    except (TypeError, ValueError, OverflowError):
        pass  # one of them is no restore key of a sample: it is found below
    rows = [_of_sample(origin) if _is_key(origin) else NOBODY for origin in origins]
    width = max(map(len, rows), default=3)
    return np.array([_wide(row, width) for row in rows], "<i8").reshape(len(rows), width), width


def _is_key(origin: Any) -> bool:
    if not isinstance(origin, tuple | list) or len(origin) not in {3, 4, _PIECE}:
        return False
    return all(isinstance(part, int | np.integer) and -_LIMIT <= part < _LIMIT for part in origin)


def _of_sample(origin: Sequence[int]) -> Sequence[int]:
    """The origin of a sample, or of the one that a piece is of: its step is 0 where the sample has none."""
    if len(origin) < _PIECE:
        return origin
    return origin[:4] if origin[3] else origin[:3]


def _wide(row: Iterable[int], width: int) -> tuple[int, ...]:
    return (*row, -1)[:width]
