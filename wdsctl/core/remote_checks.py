"""Is a file in a store still the one that was indexed, and the one that was read before?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from wdsctl.core.change_mark import change_mark
from wdsctl.core.errors import StorageError
from wdsctl.core.urls import protocol, shown

AGAIN = 60.0  # seconds after which a file that is read is looked at again


class RemoteChecks:
    """`expected`: bytes that files must have, by path; no others are looked at. `again`: seconds to the next look."""

    def __init__(self, expected: Mapping[str, int], again: float = AGAIN) -> None:
        self._expected = expected
        self._again = again
        self._seen: dict[str, tuple[float, int]] = {}  # when a file was looked at, and its mark then

    def due(self, paths: Iterable[str]) -> list[str]:
        """Those to be looked at before they are read."""
        now = time.monotonic()
        return sorted(path for path in paths if path in self._expected and self._is_due(path, now))

    def take(self, path: str, facts: Mapping[str, Any]) -> None:
        """What the store says of a file now. Raises StorageError WDS403 where it is another than it was."""
        if facts["size"] != self._expected[path]:
            raise StorageError(
                f"the shard has {facts['size']:,} bytes and had {self._expected[path]:,} when it was indexed",
                where=shown(path),
                hint="restore the shard; where it is meant to be as it is, run `wdsctl index` on the dataset",
                code="WDS403",
            )
        # Machines that serve the same files over HTTP may each have etags and times of their own.
        mark = 0 if protocol(path) in ("http", "https") else change_mark(facts)
        if self._seen.get(path, (0.0, mark))[1] != mark:
            raise StorageError(
                "the shard was replaced while it was being read",
                where=shown(path),
                hint="restore the shard; where it is meant to be as it is, run `wdsctl index` on it and start again",
                code="WDS403",
            )
        self._seen[path] = time.monotonic(), mark

    def _is_due(self, path: str, now: float) -> bool:
        return path not in self._seen or now - self._seen[path][0] >= self._again
