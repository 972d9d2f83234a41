"""Readers for scans, which read a shard from front to back in small steps.

`BlockReader` serves the small reads of a scan from large requests to a remote store, and requests nothing for data that
the scan skips. Its blocks grow while the scan reads steadily, and start small again after a jump over a large member.

`HashingReader` hashes a file during its scan. It reads every byte once, bytes that the scan skips included. A step back
reads from the storage again. Cost: SHA-256 hashes 0.3 to 2 GB a second on one core, depending on the core's
instructions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from wdsctl.core.file_limits import MAX_INDEX_BYTES, check_whole_size
from wdsctl.core.storage.storage import Storage

MAX_FETCH_BYTES = 16 << 20  # bytes of one fetch at most; the storage fetches pieces of it in parallel
FIRST_FETCH_BYTES = 1 << 20  # bytes of the first fetch
MIN_SKIP_BYTES = 4 << 20  # bytes; skipping more is faster than reading them: a request's delay at about 100 MB/s
FETCH_AFTER_SKIP_BYTES = (
    64 << 10
)  # bytes of the first fetch after a jump: a header, and the small members that often follow a large one
GROWTH = 4


class BlockReader:
    """Serves small reads from large blocks. Memory: two blocks, whatever the size of the shard."""

    def __init__(
        self,
        storage: Storage,
        path: str,
        size: int,
        *,
        max_fetch_bytes: int = MAX_FETCH_BYTES,
        min_skip_bytes: int = MIN_SKIP_BYTES,
    ) -> None:
        self._storage = storage
        self._path = path
        self._size = size
        self._max_fetch_bytes = max_fetch_bytes
        self._min_skip_bytes = min_skip_bytes
        self._fetch_bytes = min(max_fetch_bytes, FIRST_FETCH_BYTES)
        self._start = 0
        self._data = b""

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly these bytes of the shard. Raises what the storage raises."""
        if not self._start <= offset <= offset + size <= self._start + len(self._data):
            self._fetch(offset, size)
        return self._data[offset - self._start : offset - self._start + size]

    def _fetch(self, offset: int, size: int) -> None:
        end = self._start + len(self._data)
        is_near = self._start <= offset <= end + self._min_skip_bytes
        self._fetch_bytes = (
            min(self._max_fetch_bytes, self._fetch_bytes * GROWTH) if is_near and self._data else self._fetch_bytes
        )
        if not is_near:
            self._fetch_bytes = min(self._max_fetch_bytes, FETCH_AFTER_SKIP_BYTES)
        kept = self._data[offset - self._start :] if self._start <= offset <= end else b""
        begin = offset + len(kept)
        stop = max(offset + size, min(self._size, offset + self._fetch_bytes))
        self._data = kept + self._storage.read(self._path, begin, stop - begin)
        self._start = offset


ReadBytes = Callable[[int, int], bytes]

HASH_BLOCK_BYTES = 1 << 20  # bytes read at a time


class HashingReader:
    """Reads a file of `size` bytes through `read` and hashes it. Memory: two blocks, or the largest range requested."""

    def __init__(self, read: ReadBytes, size: int, *, block_bytes: int = HASH_BLOCK_BYTES) -> None:
        self._read = read
        self._size = size
        self._block_bytes = block_bytes
        self._digest = hashlib.sha256()
        self._start = 0  # offset of the buffer in the file
        self._buffer = b""
        self._hashed_bytes = 0  # bytes hashed so far

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly these bytes. Raises what the storage raises."""
        if offset < self._start:
            return self._read(offset, size)
        while self._hashed_bytes < offset + size:
            self._hash_next_block(offset)
        return self._buffer[offset - self._start : offset - self._start + size]

    def hexdigest(self) -> str:
        """Read the rest of the file, and return the SHA-256 of all of it."""
        while self._hashed_bytes < self._size:
            self._hash_next_block(self._size)
        return self._digest.hexdigest()

    def _hash_next_block(self, keep_from: int) -> None:
        """Read and hash the next block. The buffer may drop bytes before `keep_from`."""
        data = self._read(self._hashed_bytes, max(1, min(self._block_bytes, self._size - self._hashed_bytes)))
        self._digest.update(data)
        keep = min(max(keep_from, self._start), self._hashed_bytes)
        self._buffer = self._buffer[keep - self._start :] + data
        self._start = keep
        self._hashed_bytes += len(data)


def read_small_file(storage: Storage, path: str) -> bytes | None:
    """The bytes of an index beside shards; None if there is none. Raises InputError WDS421 beyond 256 MiB."""
    if not storage.exists(path):
        return None
    size = storage.size(path)
    check_whole_size(size, path, MAX_INDEX_BYTES)
    return storage.read(path, 0, size) if size else b""
