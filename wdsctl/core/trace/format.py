"""The format of trace files: a header that describes the run, and blocks with the origins of some batches each.

A trace file, version 1, little-endian: `WDSTRC1\\n`; u32 length and u32 CRC-32 of the header; the header, JSON (see
`SourceFacts`); then frames. A frame is a head of 60 bytes and a body:

    mark      4s   WTB1
    length    u4   bytes of the body
    crc       u4   CRC-32 of the body
    batches   u4
    samples   u4   of all of them
    width     u4   numbers per origin: 3 (source, pass, id), or 4 if one of them has a step
    low       i8   the number of the first batch
    high      i8   the number of the last, in ascending order
    base      i8   the world's batches when the rank began to draw without a gap
    pass_number      i8   which pass of a finite stream; 0 of an endless one
    head crc  u4   CRC-32 of the 56 bytes before

The body, compressed by zlib: i8 differences between the numbers of the batches (0 for the first), u4 samples of each
batch, then the origins as i8, all first bytes, then all second bytes, and so on. The step of an origin without one is
-1. The origin of a piece that packing cut off is that of its sample. A sample without a restore key has source -1.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.file_limits import scale_limit
from wdsctl.core.json_text import read_json
from wdsctl.core.urls import redact_secrets
from wdsctl.core.version import VERSION as WDSCTL

TRACE_MAGIC = b"WDSTRC1\n"
FRAME_MAGIC = b"WTB1"


_HEAD = struct.Struct("<4s5I4qI")
FRAME_HEAD_BYTES = _HEAD.size
_PREAMBLE = struct.Struct("<II")
PREAMBLE_BYTES = len(TRACE_MAGIC) + _PREAMBLE.size

NO_ORIGIN = (-1, -1, -1)
MAX_BLOCK_BYTES = 16 << 20  # of a block, unpacked: a block ends with 65,536 samples, which take 2 MiB
_INT64_LIMIT = 1 << 63
_LATEST_START = 253_402_300_799_999_999  # microseconds since 1970, at the end of the year 9999
_SLICED_KEY_FIELDS = (
    7  # parts of a restore key of a piece: source, pass, id, step, and start, stop and length of the sample
)


class BlockHeader(NamedTuple):
    length: int
    crc: int
    batches: int
    samples: int
    width: int
    low: int
    high: int
    base: int
    pass_number: int

    @property
    def data_bytes(self) -> int:
        """The size of the body, unpacked."""
        return self.batches * 12 + self.samples * self.width * 8

    @property
    def is_readable(self) -> bool:
        """Whether the sizes are those of a block that fits into memory."""
        return self.data_bytes <= scale_limit(MAX_BLOCK_BYTES) and self.length <= 2 * self.data_bytes + 64


@dataclass(frozen=True, slots=True)
class TraceBlock:
    """The batches of one block, with the origins of their samples.

    `batch_numbers`: (batches,). `origin_starts`: (batches + 1,), the row of each batch's first origin. `origins`:
    (samples, 4) of source, pass, id and step; -1 for a missing value.
    """

    batch_numbers: Int64Array
    origin_starts: Int64Array
    origins: Int64Array


def encode_preamble(header: bytes) -> bytes:
    """Encode the beginning of a file, up to its first frame."""
    return TRACE_MAGIC + _PREAMBLE.pack(len(header), zlib.crc32(header)) + header


def parse_preamble(data: bytes) -> tuple[int, int]:
    """Return (length, CRC-32) of the header, from the first PREAMBLE_BYTES of a file."""
    length, crc = _PREAMBLE.unpack_from(data, len(TRACE_MAGIC))
    return int(length), int(crc)


def encode_block(
    numbers: Sequence[int], sizes: Sequence[int], origins: Sequence[Any], base: int, pass_number: int
) -> bytes:
    """Encode one frame. `origins`: of all batches, concatenated. Takes 1.2 ms for 100 batches of 32 samples."""
    table, width = _table(origins)
    body = zlib.compress(
        np.diff(np.array(numbers, "<i8"), prepend=numbers[0]).tobytes()
        + np.array(sizes, "<u4").tobytes()
        + table.view(np.uint8).reshape(len(origins), width * 8).T.tobytes(),
        1,
    )
    head = _HEAD.pack(
        FRAME_MAGIC,
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


def parse_block_header(data: bytes) -> BlockHeader | None:
    """Parse the head of a frame; None if the bytes are not a valid head."""
    if len(data) < FRAME_HEAD_BYTES:
        return None
    mark, *facts, crc = _HEAD.unpack_from(data)
    return BlockHeader(*facts) if mark == FRAME_MAGIC and zlib.crc32(data[: FRAME_HEAD_BYTES - 4]) == crc else None


def decode_block(head: BlockHeader, body: bytes) -> TraceBlock | None:
    """Decode a block; None if the body does not match the head. Takes 0.2 ms for 100 batches of 32 samples."""
    if not head.is_readable or len(body) != head.length or zlib.crc32(body) != head.crc:
        return None
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(body, head.data_bytes + 1)
    except zlib.error:
        return None
    if len(data) != head.data_bytes or not unpacker.eof or head.width not in {3, 4}:
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
    return TraceBlock(head.low + np.cumsum(steps, dtype=np.int64), first, origins)


def _table(origins: Sequence[Any]) -> tuple[Int64Array, int]:
    """Convert origins to an array (samples, width)."""
    try:
        widths = set(map(len, origins))
        width = widths.pop() if len(widths) == 1 else 0
        if width in {3, 4}:
            flat = np.fromiter(chain.from_iterable(origins), np.dtype("<i8"), len(origins) * width)
            return flat.reshape(-1, width), width
    except (TypeError, ValueError, OverflowError):
        pass  # some origin is not the restore key of a sample: convert them one by one
    rows = [_sample_origin(origin) if _is_restore_key(origin) else NO_ORIGIN for origin in origins]
    width = max(map(len, rows), default=3)
    return np.array([(*row, -1)[:width] for row in rows], "<i8").reshape(len(rows), width), width


def _is_restore_key(origin: Any) -> bool:
    if not isinstance(origin, tuple | list) or len(origin) not in {3, 4, _SLICED_KEY_FIELDS}:
        return False
    return all(isinstance(part, int | np.integer) and -_INT64_LIMIT <= part < _INT64_LIMIT for part in origin)


def _sample_origin(origin: Sequence[int]) -> Sequence[int]:
    """Return the origin of a sample, or of the sample that a piece was cut from, without a step of 0."""
    if len(origin) < _SLICED_KEY_FIELDS:
        return origin
    return origin[:4] if origin[3] else origin[:3]


TRACE_VERSION = 1


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One dataset of the blend. `number`: identifies it in restore keys.

    `root`: a path, or a URL without user, password and query. `catalog`: the folder of its catalog, if known.
    `digest`: a hash of the shards, their sizes and layouts, and the samples of the split in each.
    """

    number: int
    root: str
    split: str
    generation: int
    digest: str
    catalog: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """One rank of one run. `started`: microseconds since 1970. A later run replaces batches of an earlier one."""

    rank: int
    world: int
    started: int
    sources: tuple[SourceFacts, ...]
    run: Mapping[str, Any] = field(default_factory=dict)
    wdsctl: str = WDSCTL


class NewerTraceError(ValueError):
    """A later version of wdsctl wrote the file."""


def run_facts_to_json(facts: RunFacts) -> bytes:
    sources = [{**asdict(source), "root": redact_secrets(source.root)} for source in facts.sources]
    content = {
        "version": TRACE_VERSION,
        "wdsctl": facts.wdsctl,
        "rank": facts.rank,
        "world": facts.world,
        "started": facts.started,
        "run": dict(facts.run),
        "sources": sources,
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")


def run_facts_from_json(data: bytes) -> RunFacts:
    """Parse the facts of a header.

    Raises NewerTraceError for an unknown version, ValueError, TypeError or KeyError for invalid facts.
    """
    content = read_json(data.decode("utf-8", "surrogateescape"))
    if content["version"] > TRACE_VERSION:
        raise NewerTraceError(f"it has version {content['version']}, but this wdsctl reads version {TRACE_VERSION}")
    if not 1 <= content["world"] < _INT64_LIMIT:
        raise ValueError("the number of ranks is impossible")
    facts = RunFacts(
        rank=content["rank"],
        world=content["world"],
        started=content["started"],
        sources=tuple(SourceFacts(**source) for source in content["sources"]),
        run=content["run"],
        wdsctl=content["wdsctl"],
    )
    numbers = [facts.rank, facts.world, facts.started]
    texts = [facts.wdsctl]
    for source in facts.sources:
        numbers += source.number, source.generation
        texts += source.root, source.split, source.digest, source.catalog
    if {*map(type, numbers)} != {int} or {*map(type, texts)} != {str}:
        raise TypeError
    if not 0 <= facts.started <= _LATEST_START:
        raise ValueError("the time of its start is impossible")
    return facts
