"""What is fetched ahead of reads: ranges that were announced, fetches under way, and bytes that have arrived.

A *listing* has the ranges that one caller announces together, such as those of a window, in the order in which they
will be read. Neighbouring ranges become one fetch; each range is fetched once. Fetches start in the order in which they
are needed, as far as the budget of the process allows. Each range is handed out once, and then forgotten. Does no I/O.

Ranges that a cache has are loaded from there, and a *sink* receives what is fetched, to put it into the cache.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple

from wdsctl.core.storage.ranges import MAX_GAP_BYTES, MAX_REQUEST_BYTES
from wdsctl.core.storage.storage import FileRange

LISTING_BYTES = 128 << 20  # of a listing, under way and not read yet
SMALL_FETCH_BYTES = 1 << 20  # limit of a fetch for several ranges, in a listing that exceeds `LISTING_BYTES`
MAX_READ_AHEAD_BYTES = 1 << 30  # of this process, over all stores
MAX_KEPT_LISTINGS = 1 << 12  # that nobody holds


#: Receives ranges with their bytes, in the thread that fetched them.
Sink = Callable[[Sequence[tuple[FileRange, bytes]]], None]


class CachedRanges(NamedTuple):
    """Ranges that a cache has. `load`: their bytes in this order; None if the cache has lost them."""

    ranges: Sequence[FileRange]
    load: Callable[[], Sequence[bytes] | None]


class Fetch:
    """Contiguous bytes [start, stop) of a file, and the ranges in them. `future`: set when the fetch starts. `load`:
    loads the ranges from a cache instead."""

    __slots__ = ("future", "is_started", "listing", "load", "path", "ranges", "start", "stop")

    def __init__(
        self,
        listing: Listing,
        path: str,
        start: int,
        stop: int,
        ranges: list[FileRange],
        load: Callable[[], Sequence[bytes] | None] | None = None,
    ) -> None:
        self.listing = listing
        self.path = path
        self.start = start
        self.stop = stop
        self.ranges = ranges
        self.load = load
        self.is_started = False
        self.future: Any = None

    @property
    def size(self) -> int:
        return self.stop - self.start


class Listing:
    """Ranges that were announced together. `held_bytes`: of its fetches under way, and of its ranges not read yet."""

    __slots__ = ("cached", "held_bytes", "is_active", "queue", "ranges", "sink")

    def __init__(self, ranges: list[FileRange], cached: Sequence[CachedRanges] = (), sink: Sink | None = None) -> None:
        self.ranges = ranges
        self.cached = cached
        self.sink = sink
        self.queue: deque[Fetch] = deque()
        self.is_active = False
        self.held_bytes = 0


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
    """The bytes that a process may hold ahead of its reads."""

    def __init__(self, max_bytes: int = MAX_READ_AHEAD_BYTES) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        #: Bytes that freed objects held. The garbage collector may add to it while a thread holds the lock.
        self.freed: deque[int] = deque()
        self._lock = Lock()

    def add(self, size: int) -> None:
        with self._lock:
            self.used_bytes += size
            while self.freed:
                self.used_bytes -= self.freed.popleft()

    @property
    def has_room(self) -> bool:
        if self.freed:
            self.add(0)
        return self.used_bytes < self.max_bytes


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
        self._active: deque[Listing] = deque()  # with fetches to start
        self._dropped: deque[Listing] = deque()
        self._kept: deque[Listing] = deque()  # that nobody holds
        self._held_bytes = 0

    def __del__(self) -> None:
        self._budget.freed.append(self._held_bytes)

    def announce(
        self,
        ranges: Iterable[FileRange],
        *,
        starts: bool = False,
        cached: Sequence[CachedRanges] = (),
        sink: Sink | None = None,
    ) -> Announcement:
        """Announce ranges, for as long as the result is kept. `starts`: fetch them before the first one is read.

        A range that an earlier announcement fetches belongs to this one from now on, and is not fetched again. One that
        was announced and is not fetched yet belongs to this announcement only if it `starts`.
        """
        listing = self._add(ranges, cached, sink, takes_hints=starts)
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

        The range's listing begins to be fetched, if it was not before.
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
                self._activate(listing)
            return self._fetches.get(requested)

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

    def next_fetches(self) -> list[Fetch]:
        """Fetches to start now, as far as the budget allows."""
        if not self._active:
            return []
        with self._lock:
            self._drop_listings()
            found = []
            for listing in list(self._active):
                while listing.queue and listing.held_bytes < LISTING_BYTES and self._budget.has_room:
                    fetch = listing.queue.popleft()
                    if self._begin(fetch):
                        found.append(fetch)
                if not listing.queue:
                    self._active.remove(listing)
            return found

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
            self._hold(listing, -fetch.size)
            fetches = plan_ranges(listing, [each for each in fetch.ranges if self._fetches.get(each) is fetch])
            for new in fetches:
                for each in new.ranges:
                    self._fetches[each] = new
            listing.queue.extendleft(reversed(fetches))
            if listing not in self._active:
                self._active.appendleft(listing)

    def fail(self, fetch: Fetch) -> None:
        """Forget the ranges of a fetch: a read of one of them requests it again, and raises its error."""
        with self._lock:
            self._hold(fetch.listing, -fetch.size)
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
        *,
        takes_hints: bool = False,
    ) -> Listing:
        with self._lock:
            self._drop_listings()
            listing = Listing([each for each in dict.fromkeys(ranges) if each.size], cached, sink)
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
        listing.queue.extend(plan_fetches(Listing(missing, listing.cached)))
        is_missing = set(missing)
        for fetch in listing.queue:
            fetch.listing = listing
            for each in fetch.ranges:
                if each in is_missing:
                    self._fetches[each] = fetch
        self._active.append(listing)

    def _store(self, fetch: Fetch, pieces: Sequence[tuple[FileRange, bytes]]) -> None:
        with self._lock:
            self._hold(fetch.listing, -fetch.size)
            for each, data in pieces:
                if self._fetches.get(each) is fetch:
                    del self._fetches[each]
                    self._ready[each] = data
                    self._hold(self._listings[each], each.size)
            while self._budget.used_bytes > self._budget.max_bytes and self._kept:
                self._drop(self._kept.popleft())

    def _begin(self, fetch: Fetch) -> bool:
        unread = [each for each in fetch.ranges if self._fetches.get(each) is fetch]
        if fetch.is_started or not unread:
            return False
        fetch.is_started = True
        self._hold(fetch.listing, fetch.size)
        return True

    def _hold(self, listing: Listing, size: int) -> None:
        listing.held_bytes += size
        self._held_bytes += size
        self._budget.add(size)

    def _drop_listings(self) -> None:
        while self._dropped:
            self._drop(self._dropped.popleft())

    def _drop(self, listing: Listing) -> None:
        listing.queue.clear()
        for each in listing.ranges:
            if self._listings.get(each) is listing:
                del self._listings[each]
                self._fetches.pop(each, None)
                data = self._ready.pop(each, None)
                if data is not None:
                    self._hold(listing, -len(data))
