"""What a decoder reads from: bytes, a file by its path, an open file of somebody's, or a range of a shard.

A source is opened for every call of a decoder and closed after it. All of them but somebody's open file can be pickled.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, cast

from wdsctl.core.errors import UsageError
from wdsctl.core.os_errors import translated
from wdsctl.core.urls import is_url
from wdsctl.loader.av.range_stream import FAR, NEAR, RangeStream
from wdsctl.loader.lazy_part import LazyPart


class MediaSource(Protocol):
    @property
    def keyframes(self) -> bytes:
        """`KeyframeIndex.to_bytes()` of the film, where it came with its source; else empty."""

    def open(self) -> io.IOBase:
        """A seekable binary file of its own. Raises StorageError, PermissionDenied."""


@dataclass(frozen=True, slots=True)
class InMemory:
    keyframes = b""
    data: bytes

    def open(self) -> io.IOBase:
        return io.BytesIO(self.data)

    def __repr__(self) -> str:
        return f"{len(self.data):,} bytes"


@dataclass(frozen=True, slots=True)
class OnDisk:
    keyframes = b""
    path: str

    def open(self) -> io.IOBase:
        with translated(self.path, "read"):
            return open(self.path, "rb")

    def __repr__(self) -> str:
        return repr(self.path)


@dataclass(frozen=True, slots=True)
class InShard:
    part: LazyPart

    @property
    def keyframes(self) -> bytes:
        return self.part.keyframes

    def open(self) -> io.IOBase:
        part = self.part
        block = FAR if is_url(part.path) else NEAR
        return RangeStream(part.read, len(part), block=block, on_close=part.release)

    def __repr__(self) -> str:
        return repr(self.part)


@dataclass(frozen=True, slots=True)
class SomebodysFile:
    """It stays open, and stands anywhere after a call."""

    keyframes = b""
    file: BinaryIO

    def open(self) -> io.IOBase:
        return RangeStream(self._read, self.file.seek(0, io.SEEK_END))

    def _read(self, start: int, size: int) -> bytes:
        self.file.seek(start)
        return self.file.read(size)

    def __reduce__(self) -> Any:
        raise UsageError(
            f"a decoder of an open file cannot be pickled: {self.file!r}",
            hint="give AVDecoder the path of the file, or its bytes",
        )


def source_of(stream: Any) -> MediaSource:
    """Raises UsageError for what is none of these, and for text files."""
    if isinstance(stream, LazyPart):
        return InShard(stream)
    if isinstance(stream, bytes | bytearray | memoryview):
        return InMemory(bytes(stream))
    if isinstance(stream, str | os.PathLike):
        return OnDisk(os.fspath(stream))
    if isinstance(stream, io.BytesIO):
        return InMemory(stream.getvalue())
    if all(hasattr(stream, name) for name in ("read", "seek")) and not isinstance(stream, io.TextIOBase):
        return SomebodysFile(cast("BinaryIO", stream))
    raise UsageError(
        f"AVDecoder reads no {type(stream).__name__}",
        hint="give it bytes, a path, a seekable file opened in binary mode, or a LazyPart",
    )
