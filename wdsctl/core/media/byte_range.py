"""A part of a shard as a small seekable file that reads, by pages, only what is asked of it, and gives up in time."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from wdsctl.core.errors import WdsctlError
from wdsctl.core.storage import Storage

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PAGE = 256 << 10  # bytes: one request to a store far away, not eight
MOST = 16 << 20  # bytes read before giving up: the table of contents of a film of hours has a few MB
KEPT = 64  # pages of a file that is read from end to end: its sound may lie far from its pictures

#: (offset from the beginning of the part, bytes) -> exactly these bytes, or a WdsctlError.
Read = Callable[[int, int], bytes]


class ByteRange(io.RawIOBase):
    """`size` bytes that `read` fetches, of which `head` are known already. Pages stay: no byte is fetched twice.

    Of a file that is read from end to end only the newest `kept` pages stay.

    Errors do not pass through the C code that reads from here: past one, or past `most` bytes, the file seems to end.
    `failure` and `is_spent` say that it does not. Closing it closes nothing else.
    """

    def __init__(self, read: Read, size: int, *, head: bytes = b"", most: int = MOST, kept: int | None = None) -> None:
        super().__init__()
        self.kept = kept
        self.size = size
        self.head = head
        self.most = most
        self.fetched = 0  # bytes
        self.is_spent = False
        self.failure: WdsctlError | None = None
        self._read = read
        self._pages: dict[int, bytes] = {}
        self._at = 0

    @classmethod
    def of(cls, storage: Storage, path: str, offset: int, size: int, *, head: bytes = b"") -> ByteRange:
        return cls(lambda at, length: storage.read(path, offset + at, length), size, head=head)

    @classmethod
    def whole(cls, storage: Storage, path: str, offset: int, size: int) -> ByteRange:
        """One that may be read from end to end, in bounded memory."""
        return cls(lambda at, length: storage.read(path, offset + at, length), size, most=2 * size, kept=KEPT)

    @classmethod
    def in_memory(cls, data: bytes) -> ByteRange:
        return cls(lambda at, length: data[at : at + length], len(data), head=data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        # Damaged headers point anywhere: before the beginning is the beginning, behind the end nothing is read.
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Short at the end of the file only: Pillow takes anything less for the end."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            piece = self._piece(len(view) - done)
            if not piece:
                break
            view[done : done + len(piece)] = piece
            done += len(piece)
            self._at += len(piece)
        return done

    def _piece(self, most: int) -> bytes:
        """Bytes from where the file stands: what one page, or the head, has of them."""
        end = min(self._at + most, self.size)
        if end <= self._at:
            return b""
        if self._at < len(self.head):
            return self.head[self._at : end]
        number = self._at // PAGE
        page = self._pages.get(number)
        if page is None:
            page = self._fetched(number * PAGE)
            if not page:
                return b""
            if self.kept is not None and len(self._pages) >= self.kept:
                del self._pages[next(iter(self._pages))]
            self._pages[number] = page
        return page[self._at - number * PAGE : end - number * PAGE]

    def _fetched(self, start: int) -> bytes:
        length = min(PAGE, self.size - start)
        if self.is_spent or self.failure:
            return b""
        if self.fetched + length > self.most:
            self.is_spent = True
            return b""
        try:
            page = self._read(start, length)
        except WdsctlError as error:
            self.failure = error
            return b""
        self.fetched += length
        return page
