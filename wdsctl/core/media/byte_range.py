"""A part of a shard, or its bytes, as a seekable file whose reads are limited."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, cast

from wdsctl.core.errors import WdsctlError
from wdsctl.core.media.tiff_tags import do_tags_overlap
from wdsctl.core.random_access import RandomAccessFile
from wdsctl.core.storage.storage import Storage

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from typing_extensions import Buffer


PAGE_BYTES = 256 << 10  # bytes: one request to a remote store instead of eight
MAX_READ_BYTES = 16 << 20  # bytes read at most; the table of contents of a long video has a few MB
MAX_KEPT_PAGES = 64  # pages of a file that is read to its end: its audio may be far from its video

#: Pillow parses an image block by block. A GIF of 25 MB in blocks of 255 bytes needs half of these reads.
_FREE_READS, _BYTES_A_READ = 100_000, 64

#: Pillow unpacks each of these chunks of a PNG, to 1 MiB at most, in 2 ms. Files have one profile and a few texts.
_PACKED_CHUNKS, _READS_A_CHUNK = (b"iCCP", b"zTXt", b"iTXt"), 250

#: (offset from the beginning of the part, bytes) -> exactly these bytes, or a WdsctlError.
ReadAt = Callable[[int, int], bytes]


class TooManyBlocks(ValueError):  # noqa: N818 - the noun is the error
    """An image is read in more pieces than any program writes: it consists of empty blocks, or of the same bytes."""

    def __init__(self, fault: str = "it has too many blocks for its size") -> None:
        super().__init__(fault)


class TagsOverlap(TooManyBlocks):
    """Tags of a TIFF or of EXIF name the same bytes."""

    def __init__(self) -> None:
        super().__init__("its tags overlap")


def check_tags(file: IO[bytes]) -> None:
    """Raise TagsOverlap if tags of a TIFF or of EXIF share bytes that fill the memory. Leaves the file at its start."""
    if do_tags_overlap(file):
        raise TagsOverlap


def image_file(data: Buffer) -> io.BytesIO:
    """Return the bytes of an image as a file for Pillow. `read` raises TooManyBlocks where the blocks would take
    seconds, and hundreds of bytes of memory each. Fewer bytes than the free reads cannot have so many blocks. Raises
    what `check_tags` does.
    """
    file = io.BytesIO(data) if memoryview(data).nbytes <= _FREE_READS else _CountedBytes(data)
    check_tags(file)
    return file


class _CountedBytes(io.BytesIO):
    def __init__(self, data: Buffer) -> None:
        super().__init__(data)
        self._reads_left = _max_reads(self.getbuffer().nbytes)

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._reads_left -= _cost(data)
        if self._reads_left < 0:
            raise TooManyBlocks
        return data


def _cost(data: bytes) -> int:
    """The number of reads that one read counts as."""
    return _READS_A_CHUNK if len(data) == 8 and data[4:] in _PACKED_CHUNKS else 1


def _max_reads(size: int) -> int:
    return _FREE_READS + size // _BYTES_A_READ


class ByteRangeFile(RandomAccessFile):
    """`size` bytes that `read` fetches in pages; `head` are the first bytes, which are known already.

    The file keeps its pages, so that no byte is fetched twice. With `max_kept_pages`, it keeps only the newest ones,
    for a file that is read to its end.

    The C code that reads from here cannot pass exceptions on. After an error, or after `max_read_bytes` bytes, the file
    therefore seems to end; `failure` or `is_over_limit` tells the caller. Closing the file closes nothing else.
    """

    def __init__(
        self,
        read: ReadAt,
        size: int,
        *,
        head: bytes = b"",
        max_read_bytes: int = MAX_READ_BYTES,
        max_kept_pages: int | None = None,
    ) -> None:
        super().__init__(size)
        self.max_kept_pages = max_kept_pages
        self.head = head
        self.max_read_bytes = max_read_bytes
        self.fetched_bytes = 0
        self.is_over_limit = False
        self.failure: WdsctlError | None = None
        self._read = read
        self._pages: dict[int, bytes] = {}
        self._reads_left = math.inf

    def limit_reads(self) -> None:
        """Let reads raise TooManyBlocks as those of `image_file` do. For readers that pass exceptions on.

        Raises what `check_tags` does.
        """
        check_tags(cast(IO[bytes], self))
        self._reads_left = _max_reads(self.size)

    @classmethod
    def from_storage(cls, storage: Storage, path: str, offset: int, size: int, *, head: bytes = b"") -> ByteRangeFile:
        return cls(lambda at, length: storage.read(path, offset + at, length), size, head=head)

    @classmethod
    def for_full_read(cls, storage: Storage, path: str, offset: int, size: int) -> ByteRangeFile:
        """Return a file that can be read to its end in bounded memory."""
        return cls(
            lambda at, length: storage.read(path, offset + at, length),
            size,
            max_read_bytes=2 * size,
            max_kept_pages=MAX_KEPT_PAGES,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> ByteRangeFile:
        return cls(lambda at, length: data[at : at + length], len(data), head=data)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill `buffer`, except at the end of the file: Pillow takes any shorter read for the end."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            piece = self._read_some(len(view) - done)
            if not piece:
                break
            view[done : done + len(piece)] = piece
            done += len(piece)
            self._position += len(piece)
        self._reads_left -= _cost(bytes(view[:done])) if done == 8 else 1
        if self._reads_left < 0:
            raise TooManyBlocks
        return done

    def _read_some(self, most: int) -> bytes:
        """Return bytes from the current position on, as far as one page or the head has them."""
        end = min(self._position + most, self.size)
        if end <= self._position:
            return b""
        if self._position < len(self.head):
            return self.head[self._position : end]
        number = self._position // PAGE_BYTES
        page = self._pages.get(number)
        if page is None:
            page = self._fetch_page(number * PAGE_BYTES)
            if not page:
                return b""
            if self.max_kept_pages is not None and len(self._pages) >= self.max_kept_pages:
                del self._pages[next(iter(self._pages))]
            self._pages[number] = page
        return page[self._position - number * PAGE_BYTES : end - number * PAGE_BYTES]

    def _fetch_page(self, start: int) -> bytes:
        length = min(PAGE_BYTES, self.size - start)
        if self.is_over_limit or self.failure:
            return b""
        if self.fetched_bytes + length > self.max_read_bytes:
            self.is_over_limit = True
            return b""
        try:
            page = self._read(start, length)
        except WdsctlError as error:
            self.failure = error
            return b""
        self.fetched_bytes += length
        return page
