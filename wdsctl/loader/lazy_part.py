"""A part too large to be read before anybody wants it: a video of gigabytes, of which a clip is needed."""

from __future__ import annotations

from wdsctl.core.storage import Storage

LARGE = 64 << 20  # bytes: parts above this are handed out as handles


class LazyPart:
    """A range of a shard. `len(part)`: its bytes; `part.read()`: all of them, or a range of them."""

    __slots__ = ("_size", "_storage", "offset", "path")

    def __init__(self, path: str, offset: int, size: int, storage: Storage) -> None:
        self.path = path
        self.offset = offset
        self._size = size
        self._storage = storage

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"LazyPart({self.path!r}, offset={self.offset}, size={self._size})"

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """`size` bytes from `start` on (fewer at the end), or all the rest. Raises StorageError."""
        begin = min(max(start, 0), self._size)
        wanted = self._size - begin if size is None else min(size, self._size - begin)
        return self._storage.read(self.path, self.offset + begin, wanted)
