"""Memory-mapped shards: parts are views of the page cache, without a copy. Opt-in (`raw="view"`), as it is not safe
everywhere.

If a shard is truncated while it is mapped, reading a view of the lost bytes kills the process with SIGBUS, where a read
would raise an error. A map lives as long as its views.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from typing import cast

from wdsctl.core.storage.storage import FileRange, LocalStorage, ProbeLookup


class MappedStorage(LocalStorage):
    """Local files, each mapped as a whole when it is first read."""

    def __init__(self, root: str, expected: dict[str, int], probes: Mapping[str, ProbeLookup] | None = None) -> None:
        super().__init__(root, expected, probes=probes)
        self._maps: dict[str, memoryview] = {}

    def read(self, path: str, offset: int, size: int) -> bytes:
        """A memoryview of these bytes, typed as bytes. It has no methods of bytes, such as `decode`."""
        view = self._maps.get(path)
        if view is None:
            descriptor = self.descriptor(path)
            file_size = os.fstat(descriptor).st_size
            view = memoryview(mmap.mmap(descriptor, file_size, prot=mmap.PROT_READ) if file_size else b"")
            self._maps[path] = view
        data = view[offset : offset + size]
        return cast("bytes", data) if len(data) == size else super().read(path, offset, size)

    def read_many(self, ranges: Sequence[FileRange]) -> list[bytes]:
        return [self.read(*each) for each in ranges]

    def close(self) -> None:
        # A map lives as long as its views.
        getattr(self, "_maps", {}).clear()
        super().close()

    def _handle_changed(self, path: str) -> None:
        self._maps.pop(path, None)
        super()._handle_changed(path)
