"""A part that is read on demand: a video of gigabytes, of which a clip is needed."""

from __future__ import annotations

from typing import Any

from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import Storage

LAZY_PART_BYTES = 64 << 20  # larger parts are read lazily


class LazyPart:
    """A part of a shard, read on demand. `len(part)`: its bytes; `part.read()`: all bytes or a range of them.

    A pickle has only the path and the byte range: in another process the part opens the shard itself, and checks that
    it still has `shard_size` bytes (None: unknown). `keyframes`: of a video, `KeyframeIndex.to_bytes()` if the catalog
    has it, else empty.
    """

    __slots__ = ("_owns_storage", "_shard_size", "_size", "_storage", "keyframes", "offset", "path")

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
        self._owns_storage = False  # whether only this part uses the storage

    @classmethod
    def with_own_storage(
        cls, root: str, path: str, offset: int, size: int, shard_size: int | None, keyframes: bytes = b""
    ) -> LazyPart:
        """A part with a storage of its own, which opens the file beneath `root` when it is read."""
        expected = {} if shard_size is None else {path: shard_size}
        storage = storage_for(root, expected)
        part = cls(path, offset, size, storage, shard_size=shard_size, keyframes=keyframes)
        part._owns_storage = True
        return part

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"LazyPart({self.path!r}, offset={self.offset}, size={self._size})"

    def __deepcopy__(self, memo: dict[int, Any]) -> LazyPart:
        """The same object: it is immutable, and a copy of its storage would close shared files."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        root = self._storage.root_of(self.path)
        return LazyPart.with_own_storage, (root, self.path, self.offset, self._size, self._shard_size, self.keyframes)

    def release(self) -> None:
        """Close the storage if only this part uses it. A later read opens it again."""
        if self._owns_storage:
            self._storage.close()

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """`size` bytes from `start` on, fewer at the end; None: the rest. Raises StorageError."""
        begin = min(max(start, 0), self._size)
        count = self._size - begin if size is None else min(size, self._size - begin)
        return self._storage.read(self.path, self.offset + begin, count)
