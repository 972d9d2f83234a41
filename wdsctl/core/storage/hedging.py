"""Send a request a second time if it is late, by the latencies of earlier requests to the same store.

A store answers most requests in about the same time and a few of them after seconds. The second copy of a late request
is usually answered at once. Copies are limited to a share of all requests, so that a store that is slow for all
requests does not get twice as many. Does no I/O of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

MIN_HEDGE_SECONDS = 0.05  # a request is not late before
FIRST_HEDGE_SECONDS = 1.0  # after which a request is late while too few latencies are known
LATE_FACTOR = 1.5  # times the 95th percentile
HEDGED_SHARE = 0.05  # of the requests that may be sent twice
MAX_SAVED_HEDGES = 8.0  # copies that quiet times save up
_KEPT_LATENCIES = 200  # of each size
_MIN_LATENCIES = 20
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
        self._credit = 2.0

    def late_after(self, size: int) -> float:
        """Seconds after which a request for `size` bytes is late."""
        own = _size_class(size)
        for number in (own, *range(own + 1, _SIZE_CLASSES)):  # longer requests are slower: a safe guess
            if self._late_after[number] is not None:
                return self._late_after[number] or 0.0
        return FIRST_HEDGE_SECONDS

    def add(self, size: int, seconds: float) -> None:
        """Record the latency of a request; of one that was cancelled, the time until then."""
        number = _size_class(size)
        latencies = self._latencies[number]
        latencies.append(seconds)
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


async def hedged(send: Callable[[], Awaitable[T]], size: int, policy: HedgePolicy, on_hedge: Callable[[], None]) -> T:
    """The first answer to a request that is sent again if it is late. Raises its error if no copy succeeds.

    `size`: bytes requested. `on_hedge`: called before a second copy is sent.
    """
    policy.earn()
    begun = {asyncio.ensure_future(send()): time.monotonic()}
    try:
        done, _ = await asyncio.wait(begun, timeout=policy.late_after(size))
        if not done and policy.spend():
            on_hedge()
            begun[asyncio.ensure_future(send())] = time.monotonic()
        waiting = set(begun)
        while True:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            answered = [each for each in done if not each.cancelled() and each.exception() is None]
            if answered or not waiting:
                return (answered or list(done))[0].result()
    finally:
        now = time.monotonic()
        for each, start in begun.items():
            if not each.done():
                each.cancel()
                policy.add(size, now - start)
            elif not each.cancelled() and each.exception() is None:
                policy.add(size, now - start)


#: The policies of this process, by store.
_POLICIES: dict[str, HedgePolicy] = {}


def policy_for(store: str) -> HedgePolicy:
    """The policy that all readers of a store share."""
    return _POLICIES.setdefault(store, HedgePolicy())
