"""What is fetched ahead of reads: ranges that were announced, fetches under way, and bytes that have arrived.

A *listing* has the ranges that one caller announces together, such as those of a window, in the order in which they
will be read. Neighbouring ranges become one fetch; each range is fetched once. Each range is handed out once, and then
forgotten. Does no I/O.

A limited number of fetches runs at a time. The listing that is due first comes first, and before all others one of
which a read waits for a range: it gets further fetches at once. Within a listing, fetches start in the order of use.

Ranges that a cache has are loaded from there, and a *sink* receives what is fetched, to put it into the cache.
"""

from __future__ import annotations

import os
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import Any, NamedTuple

from wdsctl.core.storage.ranges import MAX_GAP_BYTES, MAX_REQUEST_BYTES
from wdsctl.core.storage.storage import FileRange

LISTING_BYTES = 128 << 20  # of a listing, under way and not read yet
SMALL_FETCH_BYTES = 1 << 20  # limit of a fetch for several ranges, in a listing that exceeds `LISTING_BYTES`
MAX_READ_AHEAD_BYTES = 1 << 30  # of this process, over all stores
MAX_KEPT_LISTINGS = 1 << 12  # that nobody holds
MAX_FETCHES = 16  # of this process at a time, and as many of listings of which a read waits for a range
DEMANDED = float("-inf")  # when such a listing is due


#: Receives ranges with their bytes, in the thread that fetched them.
Sink = Callable[[Sequence[tuple[FileRange, bytes]]], None]


class CachedRanges(NamedTuple):
    """Ranges that a cache has. `load`: their bytes in this order; None if the cache has lost them."""

    ranges: Sequence[FileRange]
    load: Callable[[], Sequence[bytes] | None]


@dataclass(slots=True, eq=False)
class Fetch:
    """Contiguous bytes [start, stop) of a file, and the ranges in them. `future`: set when the fetch starts. `load`:
    loads the ranges from a cache instead. `is_urgent`: whether a read waits for it."""

    listing: Listing
    path: str
    start: int
    stop: int
    ranges: list[FileRange]
    load: Callable[[], Sequence[bytes] | None] | None = None
    is_started: bool = False
    is_urgent: bool = False
    future: Any = None

    @property
    def size(self) -> int:
        return self.stop - self.start


@dataclass(slots=True, eq=False)
class Listing:
    """Ranges that were announced together. `held_bytes`: of its fetches under way, and of its ranges not read yet.

    `due`: when the first range is read, in any unit that the listings of a process share. `queue`: fetches to start.
    """

    ranges: list[FileRange]
    cached: Sequence[CachedRanges] = ()
    sink: Sink | None = None
    due: float = 0.0
    number: int = field(default_factory=count().__next__)
    queue: deque[Fetch] = field(default_factory=deque)
    is_active: bool = False
    held_bytes: int = 0

    @property
    def turn(self) -> tuple[float, int]:
        """Listings get fetches in the order of these."""
        return self.due, self.number


class Announcement:
    """Keeps a listing: when it is freed, what was not read of the listing is dropped."""

    __slots__ = ("__weakref__", "_dropped", "_listing")

    def __init__(self, listing: Listing, dropped: deque[Listing]) -> None:
        self._listing = listing
        self._dropped = dropped

    def __del__(self) -> None:
        # The garbage collector may call this while the thread holds the lock: the listing is dropped later.
        self._dropped.append(self._listing)


class ReadAheadBudget:
    """The bytes that a process may hold ahead of its reads, and the fetches that it may run at a time."""

    def __init__(self, max_bytes: int = MAX_READ_AHEAD_BYTES, max_fetches: int = MAX_FETCHES) -> None:
        self.max_bytes = max_bytes
        self.max_fetches = max_fetches
        self.used_bytes = 0
        self.running_fetches = 0
        #: Bytes and fetches of freed objects. The garbage collector may add to it while a thread holds the lock.
        self.freed: deque[tuple[int, int]] = deque()
        self._lock = Lock()

    def add(self, size: int, fetches: int = 0) -> None:
        with self._lock:
            self.used_bytes += size
            self.running_fetches += fetches
            while self.freed:
                freed_bytes, freed_fetches = self.freed.popleft()
                self.used_bytes -= freed_bytes
                self.running_fetches -= freed_fetches

    def has_room(self, *, is_demanded: bool = False) -> bool:
        """Whether another fetch may start. `is_demanded`: of a listing of which a read waits for a range."""
        if self.freed:
            self.add(0)
        limit = 2 * self.max_fetches if is_demanded else self.max_fetches
        return self.used_bytes < self.max_bytes and self.running_fetches < limit


_budgets: dict[int, ReadAheadBudget] = {}  # of this process, by its id: a forked process begins with an empty one


def process_budget() -> ReadAheadBudget:
    """The budget that all storages of this process share."""
    pid = os.getpid()
    if pid not in _budgets:
        _budgets.clear()
        _budgets[pid] = ReadAheadBudget()
    return _budgets[pid]


def plan_fetches(listing: Listing, *, max_gap_bytes: int = MAX_GAP_BYTES) -> list[Fetch]:
    """The fetches of a listing, in the order in which their first range is needed."""
    rank = {each: i for i, each in enumerate(listing.ranges)}
    fetches: list[Fetch] = []
    for cached in listing.cached:
        ranges = [each for each in cached.ranges if each in rank]
        if ranges:
            size = sum(each.size for each in cached.ranges)
            fetches.append(Fetch(listing, "", 0, size, list(cached.ranges), cached.load))
    loaded = {each for fetch in fetches for each in fetch.ranges}
    fetches += plan_ranges(listing, [each for each in rank if each not in loaded], max_gap_bytes=max_gap_bytes)
    last = len(rank)
    fetches.sort(key=lambda fetch: min(rank.get(each, last) for each in fetch.ranges))
    return fetches


def plan_ranges(listing: Listing, ranges: Sequence[FileRange], *, max_gap_bytes: int = MAX_GAP_BYTES) -> list[Fetch]:
    """The fetches from the store of some ranges of a listing, by path and offset."""
    is_large = sum(each.size for each in ranges) > LISTING_BYTES
    max_bytes = SMALL_FETCH_BYTES if is_large else MAX_REQUEST_BYTES
    fetches: list[Fetch] = []
    current: Fetch | None = None
    for each in sorted(ranges):
        end = each.offset + each.size
        if (
            current is not None
            and each.path == current.path
            and each.offset <= current.stop + max_gap_bytes
            and max(end, current.stop) - current.start <= max_bytes
        ):
            current.ranges.append(each)
            current.stop = max(end, current.stop)
        else:
            current = Fetch(listing, each.path, each.offset, end, [each])
            fetches.append(current)
    return fetches


class ReadAhead:
    """The listings of one storage. Reading threads and the threads that fetch may call it."""

    def __init__(self, budget: ReadAheadBudget | None = None) -> None:
        self._budget = process_budget() if budget is None else budget
        self._lock = Lock()
        self._ready: dict[FileRange, bytes] = {}
        self._listings: dict[FileRange, Listing] = {}  # of each range that was announced and not read
        self._fetches: dict[FileRange, Fetch] = {}  # of each range of an active listing that has not arrived
        self._active: list[Listing] = []  # with fetches to start, in the order of their turns
        self._dropped: deque[Listing] = deque()
        self._kept: deque[Listing] = deque()  # that nobody holds
        self._held_bytes = 0
        self._running_fetches = 0

    def __del__(self) -> None:
        self._budget.freed.append((self._held_bytes, self._running_fetches))

    def announce(
        self,
        ranges: Iterable[FileRange],
        *,
        starts: bool = False,
        cached: Sequence[CachedRanges] = (),
        sink: Sink | None = None,
        due: float = 0.0,
    ) -> Announcement:
        """Announce ranges, for as long as the result is kept. `starts`: fetch them before the first one is read, which
        is `due` after others with a lower number.

        A range that an earlier announcement fetches belongs to this one from now on, and is not fetched again. One that
        was announced and is not fetched yet belongs to this announcement only if it `starts`.
        """
        listing = self._add(ranges, cached, sink, due, takes_hints=starts)
        if starts:
            with self._lock:
                self._activate(listing)
        return Announcement(listing, self._dropped)

    def keep(self, ranges: Iterable[FileRange]) -> None:
        """Announce ranges that nobody holds. The oldest are forgotten when there are too many."""
        self._kept.append(self._add(ranges))
        while len(self._kept) > MAX_KEPT_LISTINGS:
            self._dropped.append(self._kept.popleft())

    def take(self, requested: FileRange) -> bytes | Fetch | None:
        """The bytes of a range, if they are here; or the fetch that brings them; or None: nobody announced it.

        The range's listing is fetched before all others from here on.
        """
        with self._lock:
            self._drop_listings()
            data = self._ready.pop(requested, None)
            if data is not None:
                self._hold(self._listings.pop(requested), -len(data))
                return data
            listing = self._listings.get(requested)
            if listing is None:
                return None
            if not listing.is_active:
                listing.due = DEMANDED
                self._activate(listing)
            fetch = self._fetches.get(requested)
            if fetch is not None and not fetch.is_started and fetch.listing.due != DEMANDED:
                self._demand(fetch.listing)
            return fetch

    def forget(self, requested: FileRange) -> None:
        """Forget a range that is read in another way."""
        with self._lock:
            self._fetches.pop(requested, None)
            listing = self._listings.pop(requested, None)
            data = self._ready.pop(requested, None)
            if data is not None and listing is not None:
                self._hold(listing, -len(data))

    def begin(self, fetch: Fetch) -> bool:
        """Start a fetch now, whatever the budget; False if it has started already."""
        with self._lock:
            return self._begin(fetch)

    @property
    def is_waiting(self) -> bool:
        """Whether there are fetches to start."""
        return bool(self._active)

    @property
    def next_turn(self) -> tuple[float, int] | None:
        """The turn of the next fetch; None if there is none, or no room for it."""
        if not self._active:
            return None
        with self._lock:
            self._drop_listings()
            return next((each.turn for each in self._active if self._may_fetch(each)), None)

    def next_fetch(self) -> Fetch | None:
        """Start the next fetch if the budget allows it."""
        with self._lock:
            self._drop_listings()
            for listing in [each for each in self._active if self._may_fetch(each)]:
                while listing.queue:
                    fetch = listing.queue.popleft()
                    is_new = self._begin(fetch)
                    if not listing.queue:
                        self._active.remove(listing)
                    if is_new:
                        return fetch
            return None

    def _may_fetch(self, listing: Listing) -> bool:
        return listing.held_bytes < LISTING_BYTES and self._budget.has_room(is_demanded=listing.due == DEMANDED)

    def complete(self, fetch: Fetch, data: bytes) -> None:
        """Store the bytes of a fetch by range; only of ranges that are still needed."""
        firsts = [each.offset - fetch.start for each in fetch.ranges]
        pieces = [(each, data[first : first + each.size]) for each, first in zip(fetch.ranges, firsts, strict=True)]
        self._store(fetch, pieces)
        if fetch.listing.sink is not None:
            fetch.listing.sink(pieces)

    def complete_load(self, fetch: Fetch, data: Sequence[bytes]) -> None:
        """Store what was loaded from a cache."""
        self._store(fetch, list(zip(fetch.ranges, data, strict=True)))

    def replan(self, fetch: Fetch) -> None:
        """Fetch the ranges of a load that failed from the store."""
        with self._lock:
            listing = fetch.listing
            self._end(fetch)
            fetches = plan_ranges(listing, [each for each in fetch.ranges if self._fetches.get(each) is fetch])
            for new in fetches:
                for each in new.ranges:
                    self._fetches[each] = new
            self._enqueue(listing, [*fetches, *listing.queue])

    def fail(self, fetch: Fetch) -> None:
        """Forget the ranges of a fetch: a read of one of them requests it again, and raises its error."""
        with self._lock:
            self._end(fetch)
            for each in fetch.ranges:
                if self._fetches.get(each) is fetch:
                    del self._fetches[each], self._listings[each]

    def fetches_under_way(self) -> list[Fetch]:
        with self._lock:
            return list({id(each): each for each in self._fetches.values() if each.is_started}.values())

    def _add(
        self,
        ranges: Iterable[FileRange],
        cached: Sequence[CachedRanges] = (),
        sink: Sink | None = None,
        due: float = 0.0,
        *,
        takes_hints: bool = False,
    ) -> Listing:
        with self._lock:
            self._drop_listings()
            listing = Listing([each for each in dict.fromkeys(ranges) if each.size], cached, sink, due)
            for each in listing.ranges:
                before = self._listings.get(each)
                if before is not None and not (before.is_active or takes_hints):
                    continue
                self._listings[each] = listing
                if before is not None and each in self._ready:
                    before.held_bytes -= each.size
                    listing.held_bytes += each.size
            return listing

    def _activate(self, listing: Listing) -> None:
        listing.is_active = True
        listing.ranges = [each for each in listing.ranges if self._listings.get(each) is listing]
        missing = [each for each in listing.ranges if each not in self._ready and each not in self._fetches]
        if not missing:
            return
        fetches = plan_fetches(Listing(missing, listing.cached))
        is_missing = set(missing)
        for fetch in fetches:
            for each in fetch.ranges:
                if each in is_missing:
                    self._fetches[each] = fetch
        self._enqueue(listing, fetches)

    def _enqueue(self, listing: Listing, fetches: Iterable[Fetch]) -> None:
        """Give a listing these fetches to start."""
        listing.queue = deque(fetches)
        for fetch in listing.queue:
            fetch.listing = listing
        if listing.queue and listing not in self._active:
            insort(self._active, listing, key=lambda each: each.turn)

    def _demand(self, listing: Listing) -> None:
        """Fetch a listing before all others."""
        if listing in self._active:
            self._active.remove(listing)
        listing.due = DEMANDED
        self._enqueue(listing, listing.queue)

    def _store(self, fetch: Fetch, pieces: Sequence[tuple[FileRange, bytes]]) -> None:
        with self._lock:
            self._end(fetch)
            held: dict[Listing, int] = {}  # counted together: a window has hundreds of ranges
            for each, data in pieces:
                if self._fetches.get(each) is fetch:
                    del self._fetches[each]
                    self._ready[each] = data
                    listing = self._listings[each]
                    held[listing] = held.get(listing, 0) + each.size
            for listing, size in held.items():
                self._hold(listing, size)
            while self._budget.used_bytes > self._budget.max_bytes and self._kept:
                self._drop(self._kept.popleft())

    def _begin(self, fetch: Fetch) -> bool:
        unread = [each for each in fetch.ranges if self._fetches.get(each) is fetch]
        if fetch.is_started or not unread:
            return False
        fetch.is_started = True
        self._running_fetches += 1
        self._hold(fetch.listing, fetch.size, fetches=1)
        return True

    def _end(self, fetch: Fetch) -> None:
        self._running_fetches -= 1
        self._hold(fetch.listing, -fetch.size, fetches=-1)

    def _hold(self, listing: Listing, size: int, fetches: int = 0) -> None:
        listing.held_bytes += size
        self._held_bytes += size
        self._budget.add(size, fetches)

    def _drop_listings(self) -> None:
        while self._dropped:
            self._drop(self._dropped.popleft())

    def _drop(self, listing: Listing) -> None:
        """Forget a listing. Fetches of ranges that a later listing has announced too become fetches of that one."""
        left, listing.queue = [each for each in listing.queue if not each.is_started], deque()
        if listing in self._active:
            self._active.remove(listing)
        inherited: dict[Listing, list[Fetch]] = {}
        for fetch in left:
            successors = (self._listings.get(each) for each in fetch.ranges if self._fetches.get(each) is fetch)
            successor = next((each for each in successors if each is not None and each is not listing), None)
            if successor is not None:
                inherited.setdefault(successor, []).append(fetch)
        for successor, fetches in inherited.items():
            if not successor.is_active:
                successor.due = listing.due
                self._activate(successor)
            self._enqueue(successor, [*fetches, *successor.queue])
        for each in listing.ranges:
            if self._listings.get(each) is listing:
                del self._listings[each]
                self._fetches.pop(each, None)
                data = self._ready.pop(each, None)
                if data is not None:
                    self._hold(listing, -len(data))
