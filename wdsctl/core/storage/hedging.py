"""Send a request a second time if it is late, by the latencies of earlier requests to the same store.

A store answers most requests in about the same time and a few of them after seconds. The second copy of a late request
is usually answered at once. Copies are limited to a share of all requests, so that a store that is slow for all
requests does not get twice as many. A request that nobody waits for is late later: copies are kept for those that
delay a batch, and a busy client does not take its own slowness for that of the store. Does no I/O of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

T = TypeVar("T")

MIN_HEDGE_SECONDS = 0.05  # a request is not late before
FIRST_HEDGE_SECONDS = 1.0  # after which a request is late while hardly any latency is known
LATE_FACTOR = 1.5  # times the 95th percentile
EARLY_LATE_FACTOR = 6.0  # times the median, while too few are known for the percentile
UNAWAITED_FACTOR = 4.0  # times longer before a request is late that nobody waits for
HEDGED_SHARE = 0.05  # of the requests that may be sent twice
MAX_SAVED_HEDGES = 8.0  # copies that quiet times save up
_KEPT_LATENCIES = 200  # of each size
_MIN_LATENCIES = 20
_MIN_EARLY_LATENCIES = 5
_POLL_SECONDS = 0.05
_SIZE_CLASSES = 8
_SMALLEST_CLASS_BITS = 16  # requests of up to 64 KiB count as equally long; each further class is twice as long


class HedgePolicy:
    """When requests to one store are late, and how many may be sent twice.

    Latencies are kept by size: a request for 8 MiB takes longer than one for 64 KiB. For the event loop's thread only.
    """

    def __init__(self) -> None:
        self._latencies: list[deque[float]] = [deque(maxlen=_KEPT_LATENCIES) for _ in range(_SIZE_CLASSES)]
        self._late_after: list[float | None] = [None] * _SIZE_CLASSES
        self._added = [0] * _SIZE_CLASSES
        self._first_latencies: list[float] = []
        self._credit = 2.0

    def late_after(self, size: int) -> float:
        """Seconds after which a request for `size` bytes is late."""
        own = _size_class(size)
        for number in (own, *range(own + 1, _SIZE_CLASSES)):  # longer requests are slower: a safe guess
            if self._late_after[number] is not None:
                return self._late_after[number] or 0.0
        first = self._first_latencies
        if len(first) < _MIN_EARLY_LATENCIES:
            return FIRST_HEDGE_SECONDS
        return max(MIN_HEDGE_SECONDS, EARLY_LATE_FACTOR * sorted(first)[len(first) // 2])

    @property
    def lead_seconds(self) -> float:
        """How long before its first use a range should be requested, so that it arrives in time even if it is late."""
        known = [each for each in self._late_after if each is not None]
        return (UNAWAITED_FACTOR + 1) * (max(known) if known else self.late_after(0))

    def add(self, size: int, seconds: float) -> None:
        """Record the latency of a request; of one that was cancelled, the time until then."""
        number = _size_class(size)
        latencies = self._latencies[number]
        latencies.append(seconds)
        if len(self._first_latencies) < _MIN_LATENCIES:
            self._first_latencies.append(seconds)
        self._added[number] += 1
        if self._added[number] % (_MIN_LATENCIES // 2) == 0 and len(latencies) >= _MIN_LATENCIES:
            percentile = sorted(latencies)[len(latencies) * 95 // 100]
            self._late_after[number] = max(MIN_HEDGE_SECONDS, LATE_FACTOR * percentile)

    def earn(self) -> None:
        """Count a request, which pays for a share of a copy."""
        self._credit = min(MAX_SAVED_HEDGES, self._credit + HEDGED_SHARE)

    def spend(self) -> bool:
        """Whether another request may be sent a second time; counts it."""
        if self._credit < 1:
            return False
        self._credit -= 1
        return True


def _size_class(size: int) -> int:
    return min(_SIZE_CLASSES - 1, max(0, (size - 1).bit_length() - _SMALLEST_CLASS_BITS))


def _is_awaited() -> bool:
    return True


async def hedged(
    send: Callable[[], Awaitable[T]],
    size: int,
    policy: HedgePolicy,
    on_hedge: Callable[[], None],
    is_awaited: Callable[[], bool] = _is_awaited,
) -> T:
    """The first answer to a request that is sent again if it is late. Raises its error if no copy succeeds.

    `size`: bytes requested. `on_hedge`: called before a second copy is sent. `is_awaited`: whether somebody waits for
    the answer by now.
    """
    policy.earn()
    start = time.monotonic()
    begun = {asyncio.ensure_future(send()): start}
    try:
        await _wait_until_late(begun, size, policy, is_awaited, start)
        waiting = set(begun)
        if not any(each.done() for each in begun) and policy.spend():
            on_hedge()
            copy = asyncio.ensure_future(send())
            begun[copy] = time.monotonic()
            waiting.add(copy)
        while True:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answered = [each for each in done if not each.cancelled() and each.exception() is None]
            if answered or not waiting:
                return (answered or list(done))[0].result()
    finally:
        now = time.monotonic()
        for each, since in begun.items():
            if not each.done():
                each.cancel()
                policy.add(size, now - since)
            elif not each.cancelled() and each.exception() is None:
                policy.add(size, now - since)


async def _wait_until_late(
    requests: Collection[asyncio.Future[T]],
    size: int,
    policy: HedgePolicy,
    is_awaited: Callable[[], bool],
    start: float,
) -> None:
    """Return when one of these is answered, or the time is over. Both may change meanwhile: latencies become known."""
    done: Collection[asyncio.Future[T]] = ()
    while not done:
        factor = 1.0 if is_awaited() else UNAWAITED_FACTOR
        left = start + factor * policy.late_after(size) - time.monotonic()
        if left <= 0:
            return
        done, _ = await asyncio.wait(requests, timeout=min(left, _POLL_SECONDS))


#: The policies of this process, by store.
_POLICIES: dict[str, HedgePolicy] = {}


def policy_for(store: str) -> HedgePolicy:
    """The policy that all readers of a store share."""
    return _POLICIES.setdefault(store, HedgePolicy())
