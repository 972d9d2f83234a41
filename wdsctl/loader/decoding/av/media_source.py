"""The sources that `AVDecoder` reads: bytes, the path of a file, an open file, or a part of a shard.

A decoder opens its source for every call and closes it afterwards. All sources but open files can be pickled.

A part of a shard is read in blocks, of which the latest are kept: a demuxer reads video and audio in separate passes
and seeks back and forth. A clip of two seconds of a file of gigabytes takes some blocks of the table of contents and
some where the clip is.
"""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from wdsctl.core.errors import UsageError, WdsctlError, translate_os_errors
from wdsctl.core.media.byte_range import ReadAt
from wdsctl.core.random_access import RandomAccessFile
from wdsctl.core.safe_open import open_named
from wdsctl.core.urls import is_url
from wdsctl.loader.samples.lazy_part import LazyPart

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


LOCAL_BLOCK_BYTES = 16 << 10
REMOTE_BLOCK_BYTES = 256 << 10  # of object stores, where a request costs milliseconds
CACHED_BLOCK_BYTES = 16 << 20


class RangeStream(RandomAccessFile):
    """`size` bytes that `read` fetches in blocks. `fetched`: bytes that were read; bytes read twice count twice.

    An error of `read` does not pass through FFmpeg's C code: it is kept in `failure`, and the file seems to end. The
    caller that opened the stream raises it. Closing calls `on_close` once.
    """

    def __init__(
        self,
        read: ReadAt,
        size: int,
        *,
        block_bytes: int = LOCAL_BLOCK_BYTES,
        cached_bytes: int = CACHED_BLOCK_BYTES,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(size)
        self.fetched = 0
        self.failure: WdsctlError | None = None
        self._read = read
        self._block_bytes = block_bytes
        self._max_blocks = max(2, cached_bytes // block_bytes)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._on_close = on_close

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer; fewer bytes only at the end of the file."""
        view = memoryview(buffer).cast("B")
        count = min(len(view), self.size - self._position)
        if count <= 0 or self.failure is not None:
            return 0
        try:
            data = self._read_range(self._position, self._position + count)
        except WdsctlError as error:
            self.failure = error
            return 0
        view[:count] = data
        self._position += count
        return count

    def close(self) -> None:
        if not self.closed:
            self._blocks.clear()
            if self._on_close is not None:
                self._on_close()
        super().close()

    def _read_range(self, start: int, end: int) -> bytes:
        first, last = start // self._block_bytes, (end - 1) // self._block_bytes
        missing = [number for number in range(first, last + 1) if number not in self._blocks]
        if missing:
            self._fetch(missing[0], missing[-1])
        blocks = [self._blocks[number] for number in range(first, last + 1)]
        for number in range(first, last + 1):
            self._blocks.move_to_end(number)
        while len(self._blocks) > max(self._max_blocks, last - first + 1):
            self._blocks.popitem(last=False)
        return b"".join(blocks)[start - first * self._block_bytes : end - first * self._block_bytes]

    def _fetch(self, first: int, last: int) -> None:
        """Read blocks `first` to `last` in one request."""
        start, end = first * self._block_bytes, min((last + 1) * self._block_bytes, self.size)
        data = self._read(start, end - start)
        self.fetched += len(data)
        for number in range(first, last + 1):
            offset = (number - first) * self._block_bytes
            self._blocks[number] = data[offset : offset + self._block_bytes]


class MediaSource(Protocol):
    @property
    def keyframes(self) -> bytes:
        """`KeyframeIndex.to_bytes()` of the video if the source knows it, else empty."""

    def open(self) -> io.IOBase:
        """A new seekable binary file, which the caller closes. Raises StorageError, PermissionDenied."""


@dataclass(frozen=True, slots=True)
class MemorySource:
    keyframes = b""
    data: bytes

    def open(self) -> io.IOBase:
        return io.BytesIO(self.data)

    def __repr__(self) -> str:
        return f"{len(self.data):,} bytes"


@dataclass(frozen=True, slots=True)
class FileSource:
    keyframes = b""
    path: str

    def open(self) -> io.IOBase:
        with translate_os_errors(self.path, "read"):
            return cast("io.IOBase", open_named(self.path))

    def __repr__(self) -> str:
        return repr(self.path)


@dataclass(frozen=True, slots=True)
class ShardPartSource:
    part: LazyPart

    @property
    def keyframes(self) -> bytes:
        return self.part.keyframes

    def open(self) -> io.IOBase:
        part = self.part
        block = REMOTE_BLOCK_BYTES if is_url(part.path) else LOCAL_BLOCK_BYTES
        return RangeStream(part.read, len(part), block_bytes=block, on_close=part.release)

    def __repr__(self) -> str:
        return repr(self.part)


@dataclass(frozen=True, slots=True)
class OpenFileSource:
    """A file that the caller opened. A decoder leaves it open, at any position."""

    keyframes = b""
    file: BinaryIO

    def open(self) -> io.IOBase:
        return RangeStream(self._read, self.file.seek(0, io.SEEK_END))

    def _read(self, start: int, size: int) -> bytes:
        self.file.seek(start)
        return self.file.read(size)

    def __reduce__(self) -> Any:
        raise UsageError(
            f"cannot pickle a decoder of an open file: {self.file!r}",
            hint="create AVDecoder with the path of the file, or with its bytes",
        )


def make_media_source(stream: Any) -> MediaSource:
    """The source for what `AVDecoder` was given. Raises UsageError for other types and for text files."""
    if isinstance(stream, LazyPart):
        return ShardPartSource(stream)
    if isinstance(stream, bytes | bytearray | memoryview):
        return MemorySource(bytes(stream))
    if isinstance(stream, str | os.PathLike):
        return FileSource(os.fspath(stream))
    if isinstance(stream, io.BytesIO):
        return MemorySource(stream.getvalue())
    if all(hasattr(stream, name) for name in ("read", "seek")) and not isinstance(stream, io.TextIOBase):
        return OpenFileSource(cast("BinaryIO", stream))
    raise UsageError(
        f"AVDecoder cannot read {type(stream).__name__}",
        hint="pass bytes, a path, a seekable file opened in binary mode, or a LazyPart",
    )
