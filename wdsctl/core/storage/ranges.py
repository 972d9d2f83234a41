"""Plan requests for ranges of bytes in remote stores, and buffer ranges that will be read soon. Does no I/O.

Neighbouring ranges become one request. Long ranges become several requests, which can run concurrently. Callers
announce ranges in the order in which they will read them. Reading a range also fetches the ranges announced after it;
the buffer returns each range once and then drops it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wdsctl.core.storage.storage import FileRange

MAX_GAP_BYTES = 256 << 10  # largest gap within one request: reading it takes as long as another request
MAX_REQUEST_BYTES = 8 << 20


class RangeRequest(NamedTuple):
    """One request: bytes [start, stop) of a file."""

    path: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class RangePlan:
    """Requests for ranges. `spans`: (start, first request, one past the last) of contiguous bytes."""

    ranges: Sequence[FileRange]
    requests: list[RangeRequest]
    spans: list[tuple[int, int, int]]
    span_of: list[int]  # the span of each range; -1 for an empty range

    def slice_data(self, fetched: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of every range, in the order of `ranges`. `fetched`: the bytes of the requests."""
        data = [b""] * len(self.ranges)
        span_data, current = b"", -1
        for i in sorted(range(len(self.ranges)), key=self.span_of.__getitem__):
            span, each = self.span_of[i], self.ranges[i]
            if span < 0:
                continue
            start, first, last = self.spans[span]
            if span != current:
                span_data, current = fetched[first] if last - first == 1 else b"".join(fetched[first:last]), span
            data[i] = span_data[each.offset - start : each.offset - start + each.size]
        return data


def plan_requests(
    ranges: Sequence[FileRange], *, max_gap_bytes: int = MAX_GAP_BYTES, max_request_bytes: int = MAX_REQUEST_BYTES
) -> RangePlan:
    """Plan the requests for ranges of any files, in any order. Costs a sort."""
    requests: list[RangeRequest] = []
    spans: list[tuple[int, int, int]] = []
    span_of = [-1] * len(ranges)
    order = sorted((i for i, each in enumerate(ranges) if each.size), key=ranges.__getitem__)
    i = 0
    while i < len(order):
        path, start, size = ranges[order[i]]
        stop = start + size
        while i < len(order) and ranges[order[i]].path == path and ranges[order[i]].offset <= stop + max_gap_bytes:
            stop = max(stop, ranges[order[i]].offset + ranges[order[i]].size)
            span_of[order[i]] = len(spans)
            i += 1
        first = len(requests)
        requests += [
            RangeRequest(path, begin, min(begin + max_request_bytes, stop))
            for begin in range(start, stop, max_request_bytes)
        ]
        spans.append((start, first, len(requests)))
    return RangePlan(ranges, requests, spans, span_of)


READ_AHEAD_BYTES = 64 << 20  # limit for one read ahead
MAX_BUFFERED_BYTES = 1 << 30  # beyond this, the buffer drops the oldest ranges, which are read again if necessary
MAX_HINTED_RANGES = 1 << 20


class ReadAheadBuffer:
    """Announced ranges and fetched data, limited in number and bytes. Only an optimisation."""

    def __init__(
        self, *, read_ahead_bytes: int = READ_AHEAD_BYTES, max_buffered_bytes: int = MAX_BUFFERED_BYTES
    ) -> None:
        self._read_ahead_bytes = read_ahead_bytes
        self._max_buffered_bytes = max_buffered_bytes
        self._data: OrderedDict[FileRange, bytes] = OrderedDict()
        self._buffered_bytes = 0
        #: Announced ranges, each with the list that it was announced in, and its index there.
        self._hinted: OrderedDict[FileRange, tuple[list[FileRange], int]] = OrderedDict()

    def add_hints(self, ranges: Iterable[FileRange]) -> None:
        """Announce ranges that will be read, in order."""
        listed = list(ranges)
        for i, each in enumerate(listed):
            self._hinted[each] = listed, i
        while len(self._hinted) > MAX_HINTED_RANGES:
            self._hinted.popitem(last=False)

    def pop(self, requested: FileRange) -> bytes | None:
        data = self._data.pop(requested, None)
        if data is not None:
            self._buffered_bytes -= len(data)
        return data

    def ranges_to_prefetch(self, requested: FileRange) -> list[FileRange]:
        """Return the ranges to fetch with this one: those announced after it, up to a limit."""
        listed, index = self._hinted.pop(requested, ([], 0))
        found, total = [], requested.size
        # Several windows are open at the same time: no window may displace the others.
        budget = max(
            self._read_ahead_bytes // 64,
            min(self._read_ahead_bytes, (self._max_buffered_bytes - self._buffered_bytes) // 4),
        )
        for each in listed[index + 1 :]:
            total += each.size
            if total > budget:
                break
            if self._hinted.pop(each, None) is not None and each not in self._data:
                found.append(each)
        return found

    def put(self, ranges: Sequence[FileRange], data: Sequence[bytes]) -> None:
        for each, content in zip(ranges, data, strict=True):
            self._data[each] = content
            self._buffered_bytes += len(content)
        while self._buffered_bytes > self._max_buffered_bytes:
            self._buffered_bytes -= len(self._data.popitem(last=False)[1])
