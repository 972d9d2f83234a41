"""`ShardCache`: slices of remote datasets on a local disk, shared by the processes of a machine.

The order is arithmetic, so the cache knows when each slice is needed next. A full cache evicts the slice whose next use
is farthest away, and does not keep one whose next use is farther than all of these: no other choice fetches fewer
bytes (Belady). Batches and states do not depend on it.
"""

from __future__ import annotations

import math
import os
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from hashlib import blake2b
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import UsageError
from wdsctl.core.storage.storage import FileRange
from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.lanes.next_use import NEVER, UnitUses
from wdsctl.loader.lanes.rank_lanes import Lane, LaneSplit
from wdsctl.loader.order.shuffle import ShuffledOrder
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.stores.disk_cache_folder import job_name
from wdsctl.loader.stores.shard_cache_folder import (
    IndexLock,
    UnitIndex,
    choose_folder,
    hold_folder,
    lanes_version,
    read_lanes,
    read_unit,
    remove_unit,
    unit_file_bytes,
    used_bytes,
    write_cached_unit,
    write_lanes,
)

BYTES_PER_GIGABYTE = 1 << 30
FOLDER_VARIABLE = "WDSCTL_SHARD_CACHE"
GIGABYTES_VARIABLE = "WDSCTL_SHARD_CACHE_GBYTES"
MAX_WAITING_BYTES = 128 << 20  # fetched, and not written yet; more is not cached
_SLACK_WINDOWS = 4  # per lane: an expected use that is older has been missed, and will not come

_STOPPING = threading.Lock()  # the writer and a reader may fail at the same time, and only one of them says so


class CachedOrder(NamedTuple):
    """A component of a blend whose slices are cached. `data`: a digest of what is read of it. `share`: of all draws."""

    order: ShuffledOrder
    data: str
    share: float


class LaneFacts(NamedTuple):
    """A lane, and how many samples of each component it had taken at each of its splits."""

    root: int
    splits: list[list[int]]
    taken: list[list[int]]


class ShardCache:
    """A cache for slices of datasets at URLs.

    - `folder`: on a local disk.
    - `max_gbytes`: limit in GiB for each training of the job on this machine; by default half of the free space.

    All processes of a job share it. Jobs that run at the same time have caches of their own. A later job with the same
    data and slices uses what an earlier one has left; other data is removed. If the folder cannot be written or the
    disk is full, everything is read from the stores; the log says so once. Raises UsageError for invalid arguments.
    """

    def __init__(self, folder: str | os.PathLike[str], max_gbytes: float | None = None) -> None:
        if max_gbytes is not None and not 0 < max_gbytes < math.inf:
            raise UsageError(
                f"max_gbytes is {max_gbytes}, expected a number above 0", hint="pass a size in GiB above 0, or omit it"
            )
        self._base = os.path.abspath(os.fspath(folder))
        self._max_bytes = 0 if max_gbytes is None else int(max_gbytes * BYTES_PER_GIGABYTE)
        self._job = job_name(os.environ)
        self._folders: dict[str, str] = {}  # of this job, by the digest of the data
        self._descriptors: dict[str, int] = {}

    @property
    def folder(self) -> str:
        """The folder that was opened last; empty before, and if that failed."""
        return next(reversed(self._folders.values()), "")

    def open(self, orders: Sequence[CachedOrder]) -> OpenShardCache | None:
        """Open the cache for the components of a job; None, with a warning, if the disk refuses."""
        facts = [(each.data, each.order.n, each.order.size) for each in orders]
        digest = blake2b(repr(facts).encode(), digest_size=8).hexdigest()
        try:
            if digest not in self._folders:
                os.makedirs(self._base, exist_ok=True)
                self._folders[digest], self._descriptors[digest] = choose_folder(self._base, digest, self._job)
            folder = self._folders[digest]
            if digest not in self._descriptors:
                self._descriptors[digest] = hold_folder(folder)
            if not self._max_bytes:
                disk = os.statvfs(folder)
                self._max_bytes = disk.f_bavail * disk.f_frsize // 2
            units = sum(each.order.slices_per_pass for each in orders)
            index = UnitIndex(os.path.join(folder, "index"), units)
        except (OSError, ValueError) as error:
            logger.warning("cannot open the shard cache; reading from the stores instead: %s", error)
            return None
        return OpenShardCache(folder, self._max_bytes, index, orders)

    def close(self) -> None:
        """Let another job use the folders. What is cached stays."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_descriptors": {}}

    def __repr__(self) -> str:
        return f"ShardCache({self._base!r})"


def cache_from_environment() -> ShardCache | None:
    """The cache that WDSCTL_SHARD_CACHE names, the same for all loaders. Raises UsageError for an invalid limit."""
    folder, limit = os.environ.get(FOLDER_VARIABLE), os.environ.get(GIGABYTES_VARIABLE)
    return _cache_in(folder, limit) if folder else None


@cache
def _cache_in(folder: str, limit: str | None) -> ShardCache:
    try:
        gbytes = float(limit) if limit else None
    except ValueError as error:
        raise UsageError(f"{GIGABYTES_VARIABLE} is {limit!r}", hint="pass GiB, such as 200") from error
    return ShardCache(folder, gbytes)


class OpenShardCache:
    """An open cache in one process. Units of all components are numbered together."""

    def __init__(self, folder: str, max_bytes: int, index: UnitIndex, orders: Sequence[CachedOrder]) -> None:
        self.folder = folder
        self.is_working = True
        self._max_bytes = max_bytes
        self._index = index
        self._orders = list(orders)
        self._firsts = np.cumsum([0, *(each.order.slices_per_pass for each in orders)])
        self._lock = IndexLock(folder)
        self._uses: list[UnitUses] = []
        self._lanes_version = -1
        self._writer: _Writer | None = None

    def component(self, number: int) -> CachedUnits:
        return CachedUnits(self, number, self._orders[number].order.size, int(self._firsts[number]))

    def set_lanes(self, rank: int, lanes: Sequence[LaneFacts]) -> None:
        """Tell all processes which lanes a rank of this machine reads."""
        try:
            write_lanes(self.folder, rank, [list(each) for each in lanes])
        except OSError as error:
            self.stop(error)

    def is_cached(self, unit: int) -> bool:
        return self.is_working and bool(self._index.complete[unit]) and bool(self._index.sizes[unit])

    def use(self, unit: int, time: int) -> None:
        """Record that a unit is used at this time."""
        self._index.last_uses[unit] = max(self._index.last_uses[unit], time)

    def load(self, unit: int, sizes: Sequence[int]) -> list[bytes] | None:
        """The parts of a unit; None if the cache has lost it. A damaged file is removed."""
        try:
            parts = read_unit(self.folder, unit, sizes)
        except OSError:
            parts = None
        else:
            if parts is None:
                logger.warning("a file of the shard cache is damaged; fetching unit %d again", unit)
        if parts is None:
            with suppress(OSError), self._lock.held():
                remove_unit(self.folder, unit)
                self._index.sizes[unit] = self._index.complete[unit] = 0
        return parts

    def store(self, unit: int, component: int, time: int, parts: Sequence[bytes]) -> None:
        """Write a unit in the background, if its next use is near enough."""
        if not self.is_working:
            return
        if self._writer is None or self._writer.pid != os.getpid():
            self._writer = _Writer()
        size = sum(map(len, parts))
        self._writer.submit(size, lambda: self._store(unit, component, time, parts))

    def flush(self) -> None:
        """Wait until everything is written."""
        if self._writer is not None and self._writer.pid == os.getpid():
            self._writer.flush()

    def stop(self, error: Exception) -> None:
        """Use the cache no more in this process."""
        with _STOPPING:
            was_working, self.is_working = self.is_working, False
        if was_working:
            logger.warning("shard cache disabled; reading from the stores instead: %s", error)

    def _store(self, unit: int, component: int, time: int, parts: Sequence[bytes]) -> None:
        index, size = self._index, unit_file_bytes([len(each) for each in parts])
        try:
            with self._lock.held():
                self.use(unit, time)
                if index.sizes[unit] or not self._make_room(unit, component, size, time):
                    return
                index.sizes[unit], index.complete[unit] = size, 0
            try:
                write_cached_unit(self.folder, unit, parts)
            except OSError:
                with self._lock.held():
                    index.sizes[unit] = 0
                raise
            with self._lock.held():
                if index.sizes[unit] == size:
                    index.complete[unit] = 1
                else:  # evicted while it was written
                    remove_unit(self.folder, unit)
        except (OSError, ValueError) as error:
            self.stop(error)

    def _make_room(self, unit: int, component: int, size: int, time: int) -> bool:
        """Evict units with a later next use than this one until `size` bytes fit; False, without an eviction, if those
        are not enough."""
        index = self._index
        missing = used_bytes(index.sizes) + size - self._max_bytes
        if missing <= 0:
            return True
        self._read_lanes()
        cached = np.flatnonzero(index.sizes)
        now = time / self._orders[component].share
        next_times = self._next_times(cached, now)
        later = cached[next_times > self._next_times(np.array([unit]), now)[0]]
        later_times = next_times[np.isin(cached, later, assume_unique=True)]
        farthest = later[np.argsort(-later_times, kind="stable")]
        freed = np.cumsum(index.sizes[farthest])
        if not len(freed) or freed[-1] < missing:
            return False
        for each in farthest[: int(np.searchsorted(freed, missing)) + 1].tolist():
            remove_unit(self.folder, each)
            index.sizes[each] = index.complete[each] = 0
        return True

    def _next_times(self, units: Int64Array, now: float) -> Any:
        """When the job uses units next, in draws of the whole blend."""
        found = np.full(len(units), np.inf)
        for number, (each, uses) in enumerate(zip(self._orders, self._uses, strict=True)):
            own = np.flatnonzero((units >= self._firsts[number]) & (units < self._firsts[number + 1]))
            if len(own):
                oldest = int(now * each.share) - _SLACK_WINDOWS * each.order.window_size * each.order.lanes
                after = np.maximum(self._index.last_uses[units[own]], oldest)
                times = uses.next_uses(units[own] - self._firsts[number], after)
                found[own] = np.where(times == NEVER, np.inf, times / each.share)
        return found

    def _read_lanes(self) -> None:
        """Read which lanes the ranks of this machine have, if that has changed."""
        if self._lanes_version == lanes_version(self.folder):
            return
        self._lanes_version, listed = read_lanes(self.folder)
        lanes = [LaneFacts(*each) for each in listed]
        self._uses = [
            UnitUses(each.order, [_lane_order(each.order, lane, number) for lane in lanes])
            for number, each in enumerate(self._orders)
        ]


def _lane_order(order: ShuffledOrder, lane: LaneFacts, component: int) -> LaneOrder:
    splits = tuple(LaneSplit(*split) for split in lane.splits)
    return LaneOrder(order, Lane(lane.root, splits), lane.taken[component])


class CachedUnits:
    """The units of one component: slices of its order."""

    def __init__(self, cache: OpenShardCache, component: int, unit_samples: int, first: int) -> None:
        self.unit_samples = unit_samples
        self._cache = cache
        self._component = component
        self._first = first
        self._collectors: WeakValueDictionary[int, _UnitCollector] = WeakValueDictionary()

    def is_cached(self, unit: int) -> bool:
        return self._cache.is_cached(self._first + unit)

    def use(self, unit: int, time: int) -> None:
        self._cache.use(self._first + unit, time)

    def load(self, unit: int, ranges: Sequence[FileRange]) -> list[bytes] | None:
        return self._cache.load(self._first + unit, [each.size for each in ranges])

    def collector(self, unit: int, time: int, ranges: Sequence[FileRange]) -> Callable[[FileRange, bytes], None]:
        """Receives the ranges of a unit, and stores it when they are complete.

        Announcements of one unit share a collector, as one may take over what another has begun to fetch.
        """
        collector = self._collectors.get(unit)
        if collector is None or collector.ranges != tuple(ranges):
            store = partial(self._cache.store, self._first + unit, self._component, time)
            collector = self._collectors[unit] = _UnitCollector(tuple(ranges), store)
        return collector.collect


class _UnitCollector:
    """The ranges of one unit that have arrived. `store`: receives the parts once, when they are complete."""

    def __init__(self, ranges: tuple[FileRange, ...], store: Callable[[list[bytes]], None]) -> None:
        self.ranges = ranges
        self._store = store
        self._parts: dict[FileRange, bytes] = {}

    def collect(self, each: FileRange, data: bytes) -> None:
        if each in self.ranges and each not in self._parts:
            self._parts[each] = data
            if len(self._parts) == len(self.ranges):
                self._store([self._parts[one] for one in self.ranges])


class _Writer:
    """A thread that writes units, one after the other."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._tasks: queue.SimpleQueue[tuple[int, Callable[[], None]]] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="wdsctl-shard-cache", daemon=True).start()

    def submit(self, size: int, task: Callable[[], None]) -> None:
        with self._lock:
            if self._waiting_bytes > MAX_WAITING_BYTES:
                return
            self._waiting_bytes += size
        self._tasks.put((size, task))

    def flush(self) -> None:
        done = threading.Event()
        self._tasks.put((0, done.set))
        done.wait()

    def _run(self) -> None:
        while True:
            size, task = self._tasks.get()
            task()
            with self._lock:
                self._waiting_bytes -= size
