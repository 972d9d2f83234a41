"""Plan requests for ranges of bytes in remote stores. Does no I/O.

Neighbouring ranges become one request. Long ranges become several requests, which can run concurrently.
"""

from __future__ import annotations

from collections.abc import Sequence
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
