"""A part of a shard as a seekable file that reads what is asked of it, in blocks, and keeps the last ones read.

A demuxer goes through a film twice, for the pictures and for the sound, and jumps a little to and fro; a clip of two
seconds of a film of gigabytes takes some blocks at its table of contents and some where the clip is.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from wdsctl.core.errors import WdsctlError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

NEAR, FAR = 16 << 10, 256 << 10  # bytes of a block: from a disk, and from a store where a request costs milliseconds
KEPT = 16 << 20  # bytes of blocks that are kept

#: (offset from the beginning of the part, bytes) -> exactly these bytes, or a WdsctlError.
Read = Callable[[int, int], bytes]


class RangeStream(io.RawIOBase):
    """`size` bytes that `read` fetches. `fetched`: how many bytes have been read, those read twice counted twice.

    What `read` raises is kept in `failure`, for whoever opened the stream to raise: past it, the file seems to end.
    `on_close` is called once.
    """

    def __init__(
        self,
        read: Read,
        size: int,
        *,
        block: int = NEAR,
        kept: int = KEPT,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.fetched = 0
        self.failure: WdsctlError | None = None
        self._read = read
        self._block = block
        self._most = max(2, kept // block)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._on_close = on_close
        self._at = 0

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
        """Short at the end of the file only."""
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self.size - self._at)
        if wanted <= 0 or self.failure is not None:
            return 0
        try:
            data = self._range(self._at, self._at + wanted)
        except WdsctlError as error:
            self.failure = error
            return 0
        view[:wanted] = data
        self._at += wanted
        return wanted

    def close(self) -> None:
        if not self.closed:
            self._blocks.clear()
            if self._on_close is not None:
                self._on_close()
        super().close()

    def _range(self, start: int, end: int) -> bytes:
        first, last = start // self._block, (end - 1) // self._block
        missing = [number for number in range(first, last + 1) if number not in self._blocks]
        if missing:
            self._fetch(missing[0], missing[-1])
        blocks = [self._blocks[number] for number in range(first, last + 1)]
        for number in range(first, last + 1):
            self._blocks.move_to_end(number)
        while len(self._blocks) > max(self._most, last - first + 1):
            self._blocks.popitem(last=False)
        return b"".join(blocks)[start - first * self._block : end - first * self._block]

    def _fetch(self, first: int, last: int) -> None:
        """These blocks, in one read."""
        start, end = first * self._block, min((last + 1) * self._block, self.size)
        data = self._read(start, end - start)
        self.fetched += len(data)
        for number in range(first, last + 1):
            at = (number - first) * self._block
            self._blocks[number] = data[at : at + self._block]
