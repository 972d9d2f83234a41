"""Shards as maps: parts are views of the page cache, and nothing is copied. Opt-in, because it is not safe everywhere.

A shard that is truncated while it is mapped kills the process with SIGBUS when a view of what is gone is read; reading
by calls raises an error instead. Views keep their map alive for as long as they are held.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from typing import cast

from wdsctl.core.storage import LocalStorage, Probes, Range


class MappedStorage(LocalStorage):
    """Files on mounted file systems, each mapped whole when it is first read."""

    def __init__(self, root: str, expected: dict[str, int], probes: Mapping[str, Probes] | None = None) -> None:
        super().__init__(root, expected, probes=probes)
        self._maps: dict[str, memoryview] = {}

    def read(self, path: str, offset: int, size: int) -> bytes:
        """A view of these bytes. It is called bytes, and can do what bytes can but be hashed in place or decoded."""
        view = self._maps.get(path)
        if view is None:
            view = self._mapped(path)
        found = view[offset : offset + size]
        return cast("bytes", found) if len(found) == size else super().read(path, offset, size)

    def read_many(self, ranges: Sequence[Range]) -> list[bytes]:
        return [self.read(*each) for each in ranges]

    def close(self) -> None:
        # Maps live on while somebody holds a view of them.
        getattr(self, "_maps", {}).clear()
        super().close()

    def _changed(self, path: str) -> None:
        self._maps.pop(path, None)
        super()._changed(path)

    def _mapped(self, path: str) -> memoryview:
        handle = self.descriptor(path)
        size = os.fstat(handle).st_size
        self._maps[path] = memoryview(mmap.mmap(handle, size, prot=mmap.PROT_READ) if size else b"")
        return self._maps[path]
