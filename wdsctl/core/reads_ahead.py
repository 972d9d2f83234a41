"""What will be read, and what of it is here already: how a store far away is read window by window.

Ranges are told in the order in which they will be asked for. The first that is asked for brings those after it with
it, so that neighbours come in one request and others side by side; each is handed out once, and let go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from wdsctl.core.storage import Range

TOGETHER = 64 << 20  # bytes that are fetched in one go
HELD = 1 << 30  # bytes that are kept for those who asked; beyond them the oldest are let go, and read again if need be
TOLD = 1 << 20  # ranges that are remembered


class ReadsAhead:
    """Bounded in bytes and in ranges. Nothing depends on it: a range that is not here is simply read."""

    def __init__(self, *, together: int = TOGETHER, held: int = HELD) -> None:
        self._together = together
        self._most = held
        self._data: OrderedDict[Range, bytes] = OrderedDict()
        self._bytes = 0
        self._told: OrderedDict[Range, tuple[list[Range], int]] = (
            OrderedDict()
        )  # with who was told beside it, and where

    def tell(self, ranges: Iterable[Range]) -> None:
        """These will be read, in this order."""
        listed = list(ranges)
        for i, each in enumerate(listed):
            self._told[each] = listed, i
        while len(self._told) > TOLD:
            self._told.popitem(last=False)

    def take(self, wanted: Range) -> bytes | None:
        data = self._data.pop(wanted, None)
        if data is not None:
            self._bytes -= len(data)
        return data

    def with_it(self, wanted: Range) -> list[Range]:
        """What else to fetch now that this one is: those that were told after it, up to so many bytes."""
        listed, at = self._told.pop(wanted, ([], 0))
        found, total = [], wanted.size
        # Several windows are open at a time: none of them may push the others out.
        room = max(self._together // 64, min(self._together, (self._most - self._bytes) // 4))
        for each in listed[at + 1 :]:
            total += each.size
            if total > room:
                break
            if self._told.pop(each, None) is not None and each not in self._data:
                found.append(each)
        return found

    def hold(self, ranges: Sequence[Range], data: Sequence[bytes]) -> None:
        for each, some in zip(ranges, data, strict=True):
            self._data[each] = some
            self._bytes += len(some)
        while self._bytes > self._most:
            self._bytes -= len(self._data.popitem(last=False)[1])
