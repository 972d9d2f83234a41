"""A part too large to be read before anybody wants it: a video of gigabytes, of which a clip is needed."""

from __future__ import annotations

from typing import Any

from wdsctl.core.storage import Storage
from wdsctl.core.stores import storage_for

LARGE = 64 << 20  # bytes: parts above this are handed out as handles


class LazyPart:
    """A range of a shard. `len(part)`: its bytes; `part.read()`: all of them, or a range of them.

    Pickled, it is the range alone: it opens the shard by its path where it arrives, and holds it to the size
    `shard_size` (bytes) that it had. None: not known. `keyframes`: of a film, `KeyframeIndex.to_bytes()`, where the
    catalog has it; empty where it does not.
    """

    __slots__ = ("_is_own", "_shard_size", "_size", "_storage", "keyframes", "offset", "path")

    def __init__(
        self,
        path: str,
        offset: int,
        size: int,
        storage: Storage,
        *,
        shard_size: int | None = None,
        keyframes: bytes = b"",
    ) -> None:
        self.path = path
        self.offset = offset
        self.keyframes = keyframes
        self._size = size
        self._storage = storage
        self._shard_size = shard_size
        self._is_own = False  # whether nobody else reads through the storage

    @classmethod
    def alone(
        cls, root: str, path: str, offset: int, size: int, shard_size: int | None, keyframes: bytes = b""
    ) -> LazyPart:
        """One that opens the file, beneath `root`, for itself, when it is read, and may `release` it."""
        expected = {} if shard_size is None else {path: shard_size}
        storage = storage_for(root, expected)
        part = cls(path, offset, size, storage, shard_size=shard_size, keyframes=keyframes)
        part._is_own = True
        return part

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"LazyPart({self.path!r}, offset={self.offset}, size={self._size})"

    def __deepcopy__(self, memo: dict[int, Any]) -> LazyPart:
        """Itself: it never changes, and a copy of its storage would close the files of this one."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        root = self._storage.root_of(self.path)
        return LazyPart.alone, (root, self.path, self.offset, self._size, self._shard_size, self.keyframes)

    def release(self) -> None:
        """Close what was opened for this part alone; it is opened again when it is needed."""
        if self._is_own:
            self._storage.close()

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """`size` bytes from `start` on (fewer at the end), or all the rest. Raises StorageError."""
        begin = min(max(start, 0), self._size)
        wanted = self._size - begin if size is None else min(size, self._size - begin)
        return self._storage.read(self.path, self.offset + begin, wanted)
