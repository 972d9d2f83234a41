"""Hashes a file while a scan reads it: every byte is read once, and the scan is served from what was read.

A scan goes forward in small steps. All that it steps over is read and hashed, too; a step back goes to the storage.
Cost: SHA-256 at 0.3 to 2 GB a second of one core, as its processor has instructions for it or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

Read = Callable[[int, int], bytes]

BLOCK = 1 << 20  # bytes read at a time


class HashingReader:
    """`read` has the bytes of a file of `size` bytes; memory: two blocks, or the largest range that is asked for."""

    def __init__(self, read: Read, size: int, *, block: int = BLOCK) -> None:
        self._read = read
        self._size = size
        self._block = block
        self._digest = hashlib.sha256()
        self._start = 0  # of what is kept
        self._kept = b""
        self._at = 0  # how far the hash is

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes. Raises what the storage raises."""
        if offset < self._start:
            return self._read(offset, size)
        while self._at < offset + size:
            self._go_on(offset)
        return self._kept[offset - self._start : offset - self._start + size]

    def hexdigest(self) -> str:
        """SHA-256 of the whole file, of which the rest is read."""
        while self._at < self._size:
            self._go_on(self._size)
        return self._digest.hexdigest()

    def _go_on(self, wanted: int) -> None:
        """Read one more block. What lies before `wanted` need not be kept."""
        data = self._read(self._at, max(1, min(self._block, self._size - self._at)))
        self._digest.update(data)
        keep = min(max(wanted, self._start), self._at)
        self._kept = self._kept[keep - self._start :] + data
        self._start = keep
        self._at += len(data)
