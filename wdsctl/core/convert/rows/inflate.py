"""Shards that were compressed as a whole: bytes out, never more than the index says."""

from __future__ import annotations

import bz2
import zlib
from typing import Any

from wdsctl.core.convert.rows import arrow
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.printable import named

#: By the names that writers of shards use. pyarrow reads those that Python's library does not.
_ARROW = {"zstd": "zstd", "br": "brotli"}
KNOWN = ("zstd", "gz", "bz2", "br", "snappy")


_MOST = 1 << 32  # bytes of a shard: its offsets are 32 bits

LARGEST = 1 << 30  # bytes of a chunk whose size nobody says


def inflated(data: bytes, algorithm: str, size: int, path: str) -> bytes:
    """`data` without its compression; `size` bytes. Raises DatasetError WDS233 where it is damaged, longer or shorter.

    `algorithm` may have a level behind a colon. Raises UsageError WDS236 where pyarrow is needed and missing.
    """
    kind = algorithm.partition(":")[0]
    if kind not in KNOWN:
        raise DatasetError(
            f"the compression {algorithm!r} is not known",
            hint=f"wdsctl reads {', '.join(KNOWN)}",
            where=named(path),
            code="WDS234",
        )
    if not 0 <= size <= _MOST:
        raise _damaged(f"{size:,} bytes should come out, and its offsets are 32 bits", path)
    try:
        plain = _read(data, kind, size)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        if isinstance(error, UsageError):
            raise
        raise _damaged(str(error), path) from error
    if len(plain) != size:
        raise _damaged(f"{len(plain):,} bytes or more come out, and {size:,} should", path)
    return plain


def inflated_whole(data: bytes, path: str, size: int | None = None) -> bytes:
    """`data` without zstd, where `size` may not be known: at most 1 GiB, so that a bomb does not fill the memory."""
    if size is not None:
        return inflated(data, "zstd", size, path)
    try:
        plain = _read(data, "zstd", LARGEST)
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, UsageError):
            raise
        raise _damaged(str(error), path) from error
    if len(plain) > LARGEST:
        raise _damaged("more than 1 GiB comes out", path)
    return plain


def _read(data: bytes, kind: str, size: int) -> bytes:
    """At most one byte more than `size`, so that a bomb is noticed before it goes off."""
    if kind in ("gz", "bz2"):
        unpacker = zlib.decompressobj(wbits=31) if kind == "gz" else bz2.BZ2Decompressor()
        plain = unpacker.decompress(data, size + 1)
        if len(plain) <= size and not unpacker.eof:
            raise EOFError("it is cut short")
        return plain
    library: Any = arrow.loaded("pyarrow", f"{kind} compression")
    if kind == "snappy":
        if _snappy_size(data) != size:  # the library fills up what is too little
            raise ValueError(f"{_snappy_size(data):,} bytes come out")
        return bytes(library.decompress(data, size, "snappy", asbytes=True))
    with library.CompressedInputStream(library.BufferReader(data), _ARROW[kind]) as stream:
        return bytes(stream.read(size + 1))


def _snappy_size(data: bytes) -> int:
    """The length that raw Snappy begins with, seven bits a byte. Source: google/snappy, format_description.txt."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return size
    return -1


def _damaged(why: str, path: str) -> DatasetError:
    return DatasetError(
        f"the compressed file is damaged: {why}",
        hint="copy it again from its origin",
        where=named(path),
        code="WDS233",
    )
