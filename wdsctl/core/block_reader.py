"""Reads a shard from front to back through a store far away: few large requests, and none for data that is skipped.

A scan asks for small ranges, each a little further on. What it asks for is cut from a block that was fetched before;
blocks grow while it goes on steadily, and begin small again where it has jumped over a large member.
"""

from __future__ import annotations

from wdsctl.core.storage import Storage

BLOCK = 16 << 20  # bytes fetched at a time at most; the storage fetches it in pieces, side by side
FIRST = 1 << 20  # bytes fetched at the start
JUMP = 4 << 20  # bytes from which on skipping beats reading: what a request's delay costs at about 100 MB/s
HEAD = 64 << 10  # bytes fetched after a jump: a header, and the small members that often follow a large one
GROWTH = 4


class BlockReader:
    """Memory: two blocks, whatever the size of the shard."""

    def __init__(self, storage: Storage, path: str, size: int, *, block: int = BLOCK, jump: int = JUMP) -> None:
        self._storage = storage
        self._path = path
        self._size = size
        self._block = block
        self._jump = jump
        self._reach = min(block, FIRST)
        self._start = 0
        self._data = b""

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes of the shard. Raises what the storage raises."""
        if not self._start <= offset <= offset + size <= self._start + len(self._data):
            self._fetch(offset, size)
        return self._data[offset - self._start : offset - self._start + size]

    def _fetch(self, offset: int, size: int) -> None:
        end = self._start + len(self._data)
        is_near = self._start <= offset <= end + self._jump
        self._reach = min(self._block, self._reach * GROWTH) if is_near and self._data else self._reach
        if not is_near:
            self._reach = min(self._block, HEAD)
        kept = self._data[offset - self._start :] if self._start <= offset <= end else b""
        begin = offset + len(kept)
        stop = max(offset + size, min(self._size, offset + self._reach))
        self._data = kept + self._storage.read(self._path, begin, stop - begin)
        self._start = offset
