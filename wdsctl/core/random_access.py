"""The position of a file whose bytes come from elsewhere: a part of a shard, an object of a store."""

from __future__ import annotations

import io


class RandomAccessFile(io.RawIOBase):
    """A readable, seekable file of `size` bytes. Subclasses implement `readinto`, which reads from `_position` on."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        # Damaged headers point anywhere. A position before the file becomes 0; reads after its end return nothing.
        self._position = max(0, start + offset)
        return self._position
