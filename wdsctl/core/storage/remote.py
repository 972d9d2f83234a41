"""Read files at URLs through fsspec, with concurrent range requests, timeouts and retries.

Reads are exact: a short read is an error. Listing a folder returns all files, or fails. `filesystem.py` opens the
store, and `prefetch.py` sends the requests for ranges.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from wdsctl.core.errors import InputError, PermissionDenied, StorageDown, StorageError, WdsctlError
from wdsctl.core.storage.filesystem import MAX_CONCURRENT_REQUESTS, OpenRoot, call_each, list_entries, list_files_below
from wdsctl.core.storage.prefetch import Prefetcher, is_short, should_retry
from wdsctl.core.storage.ranges import RangeRequest, plan_requests
from wdsctl.core.storage.read_ahead import Announcement, CachedRanges, Fetch, Sink
from wdsctl.core.storage.remote_errors import (
    RECHECK_SECONDS,
    RemoteFileChecker,
    RetryPolicy,
    call_or_error,
    call_with_retries,
    etag_number,
    ignored_range_error,
    note_answer,
    replaced_error,
    translate_remote,
    unwrap_driver_error,
)
from wdsctl.core.storage.storage import FileRange, ReadCounter, ReadCounts
from wdsctl.core.urls import cache_layer, normalize_root, protocol, redact_secrets, store_url

T = TypeVar("T")

DEFAULT_RETRY_POLICY = RetryPolicy()


class FsspecStorage:
    """The files below `root`, a URL. Paths are URLs that begin with it.

    `expected`: sizes in bytes that files must have. Checks them before the first read, and again before a read more
    than `recheck_seconds` later. A file that was replaced between two checks fails too. `will_need` fetches nothing:
    reading an announced range also fetches the other ranges of its announcement. Pickles by value, and works after a
    fork.
    """

    def __init__(
        self,
        root: str,
        expected: Mapping[str, int] | None = None,
        *,
        retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY,
        recheck_seconds: float = RECHECK_SECONDS,
    ) -> None:
        self._root = normalize_root(root)
        self._expected = dict(expected or {})
        self._retry_policy = retry_policy
        self._recheck_seconds = recheck_seconds
        self._reset()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("_root", "_expected", "_retry_policy", "_recheck_seconds")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def files(self) -> list[tuple[str, Mapping[str, Any]]]:
        """List all files below the root, without caches: (path relative to the root, facts from the driver).

        Raises InputError if there is no such bucket or folder.
        """
        if cache_layer(self._root):
            return FsspecStorage(store_url(self._root), retry_policy=self._retry_policy).files()
        base = self._driver_path(self._root)

        def find() -> dict[str, dict[str, Any]]:
            filesystem = self._filesystem()
            filesystem.invalidate_cache()
            found = list_files_below(filesystem, base)
            filesystem.invalidate_cache()  # so that later requests return current sizes
            return found

        found = self._call_driver(find, self._root, "list")
        unsized = [name for name, facts in found.items() if facts["size"] is None]
        urls = [f"{self._root}{name[len(base.rstrip('/')) :]}" for name in unsized]
        for name, facts in zip(unsized, self._sized_facts(unsized, urls), strict=True):
            found[name] = {**found[name], **facts}
        files = [(name.removeprefix(base).lstrip("/"), facts) for name, facts in found.items()]
        # Some stores have an empty object for each folder.
        return [(path, facts) for path, facts in files if not (facts["size"] == 0 and (not path or path.endswith("/")))]

    def list_folder(self, url: str) -> list[tuple[str, bool, Mapping[str, Any]]]:
        """List one folder: (name, whether it is a folder, the driver's facts). Empty if there is no folder."""
        inner = self._driver_path(url).rstrip("/")

        def ls() -> list[dict[str, Any]]:
            filesystem = self._filesystem()
            filesystem.invalidate_cache()
            return list_entries(filesystem, inner)

        try:
            listed = self._call_driver(ls, url, "list")
        except InputError:
            return []
        found = []
        for facts in listed:
            name = facts["name"].rstrip("/").removeprefix(f"{inner}/")
            if name != facts["name"].rstrip("/") and "/" not in name:
                found.append((name, facts["type"] == "directory", facts))
        unsized = [name for name, is_folder, facts in found if not is_folder and facts["size"] is None]
        urls = [f"{url}/{name}" for name in unsized]
        sized = dict(zip(unsized, self._sized_facts([f"{inner}/{name}" for name in unsized], urls), strict=True))
        return [(name, is_folder, sized.get(name, facts)) for name, is_folder, facts in found]

    def size(self, path: str) -> int:
        return int(self._facts(path, "read")["size"])

    def facts(self, path: str) -> Mapping[str, Any]:
        """Return the driver's facts of one file; `size` in bytes. Raises InputError if it does not exist."""
        return self._facts(path, "list")

    def _facts(self, path: str, verb: str) -> Mapping[str, Any]:
        inner = self._driver_path(path)
        facts: Mapping[str, Any] = self._call_driver(lambda: self._filesystem().info(inner), path, verb)
        if facts["size"] is None:
            raise _no_size_error(path)
        return facts

    def sizes(self, paths: Sequence[str]) -> list[int | None]:
        """Request the sizes of files concurrently; None for a file that does not exist."""
        found: list[int | None] = []
        for path, facts in zip(paths, self._stat_files([self._driver_path(path) for path in paths]), strict=True):
            if isinstance(facts, BaseException) and not isinstance(facts, FileNotFoundError):
                raise translate_remote(facts, path, "read")
            found.append(None if isinstance(facts, BaseException) else facts["size"])
        return found

    def check_unchanged(self, path: str, number: int) -> None:
        """Raise StorageError WDS403 for a file whose content no longer has this number, which a listing gave it.

        Does nothing for web servers: machines with the same files may give them different numbers.
        """
        if protocol(self._root) not in ("http", "https") and etag_number(self.facts(path)) != number:
            raise replaced_error(path)

    def check_range_requests(self, path: str, size: int) -> None:
        """Raise StorageDown if the store ignores range requests. `size`: of this file, in bytes.

        An error of this file alone is not raised: the scan of the file reports it.
        """
        if size < 2:
            return
        try:
            self.read(path, size - 1, 1)
        except StorageDown:
            raise
        except (StorageError, PermissionDenied):
            return

    def root_of(self, path: str) -> str:  # noqa: ARG002
        return self._root

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder. Raises if the store fails; some drivers would return False."""
        return bool(self._kind_of(path))

    def is_file(self, path: str) -> bool:
        """Whether there is a file. Raises as `exists` does."""
        return self._kind_of(path) == "file"

    def _kind_of(self, path: str) -> str:
        """`file` or `directory`; empty if there is neither."""
        found = self._stat_files([self._driver_path(path)])[0]
        if isinstance(found, BaseException) and not isinstance(found, FileNotFoundError):
            raise translate_remote(found, path, "read")
        return "" if isinstance(found, BaseException) else str(found["type"])

    def read(self, path: str, offset: int, size: int) -> bytes:
        requested = FileRange(path, offset, size)
        prefetcher = self._prefetcher_here()
        found = prefetcher.read_ahead.take(requested)
        if isinstance(found, bytes):
            if prefetcher.read_ahead.is_waiting:
                prefetcher.start_fetches()
            return found
        begun = time.monotonic()
        tried: Fetch | None = None
        while isinstance(found, Fetch) and found is not tried:
            tried = found
            prefetcher.wait_for(found, lambda each: self.read_many([each])[0])
            found = prefetcher.read_ahead.take(requested)
        if not isinstance(found, bytes):
            prefetcher.read_ahead.forget(requested)
            found = self.read_many([requested])[0]
        self._counter.add(ReadCounts(stalled_seconds=time.monotonic() - begun))
        return found

    def read_into(self, path: str, offset: int, memory: memoryview) -> None:
        memory[:] = self.read(path, offset, len(memory))

    def read_many(self, ranges: Sequence[FileRange]) -> list[bytes]:
        """Read ranges with concurrent requests: one for neighbouring ranges, several for long ones."""
        self._check({each.path for each in ranges if each.size})
        plan = plan_requests(ranges)
        return plan.slice_data(self._fetch(plan.requests))

    def will_need(self, ranges: Iterable[FileRange]) -> None:
        self._prefetcher_here().read_ahead.keep(ranges)

    def announce(
        self,
        ranges: Iterable[FileRange],
        *,
        starts: bool = False,
        cached: Sequence[CachedRanges] = (),
        sink: Sink | None = None,
        due: float = 0.0,
    ) -> Announcement:
        """Announce ranges that will be read, in order, for as long as the result is kept.

        `starts`: fetch them in the background now, those that are `due` first before others; otherwise when the first
        of them is read. `cached`: those that a cache has; `sink` receives the others when they are fetched, in another
        thread. Raises no error of the store: the reads do.
        """
        prefetcher = self._prefetcher_here()
        if starts:
            with suppress(WdsctlError):  # in this thread: the event loop may not wait for it
                prefetcher.open()
        announcement = prefetcher.read_ahead.announce(ranges, starts=starts, cached=cached, sink=sink, due=due)
        prefetcher.start_fetches()
        return announcement

    @property
    def lead_seconds(self) -> float:
        """How long before its first use a range should be announced, by the latencies of the store."""
        return self._prefetcher_here().policy.lead_seconds

    def take_counts(self) -> ReadCounts:
        """What was read since the last call."""
        return self._counter.take()

    def close(self) -> None:
        """Drop buffered data, and cancel what is under way. fsspec owns the connections, and shares them within the
        process."""
        if self._pid == os.getpid():
            self._prefetcher.close()
        self._reset()

    def _reset(self) -> None:
        self._counter = ReadCounter()
        self._checks = RemoteFileChecker(self._expected, self._recheck_seconds)
        self._pid = os.getpid()
        self._prefetcher = Prefetcher(self._root, self._checks, self._counter, self._retry_policy)

    def _prefetcher_here(self) -> Prefetcher:
        """What was announced in this process: threads that fetch do not survive a fork."""
        if self._pid != os.getpid():
            self._reset()
        return self._prefetcher

    def _filesystem(self) -> Any:
        return self._open().filesystem

    def _driver_path(self, path: str) -> str:
        """Return the path as the filesystem spells it."""
        return self._open().path(path)

    def _open(self) -> OpenRoot:
        return self._prefetcher_here().open()

    def _call_driver(self, call: Callable[[], T], url: str, action: str) -> T:
        """Call the driver, and retry after transient errors. Raises WdsctlErrors only."""
        self._open()
        return call_with_retries(call, url, action, self._retry_policy)

    def _check(self, paths: set[str]) -> None:
        """Raise StorageError WDS403 for files that were replaced."""
        due = self._checks.files_due(paths)
        for path, facts in zip(due, self._sized_facts([self._driver_path(path) for path in due], due), strict=True):
            self._checks.check(path, facts)

    def _sized_facts(self, inner: Sequence[str], urls: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the facts of files, of which some drivers list no size. Raises the error of one that has none."""
        for facts, url in zip(self._stat_files(inner), urls, strict=True):
            if isinstance(facts, BaseException):
                raise translate_remote(facts, url, "read")
            if facts["size"] is None:
                raise _no_size_error(url)
            yield facts

    def _stat_files(self, inner: Sequence[str]) -> list[dict[str, Any] | BaseException]:
        """Request the facts of files concurrently. Returns the facts or the error of each."""
        found: list[Any] = []
        for start in range(0, len(inner), MAX_CONCURRENT_REQUESTS):
            found += self._call_with_retries(
                inner[start : start + MAX_CONCURRENT_REQUESTS],
                lambda paths: call_each(self._filesystem(), "info", paths),
                lambda _path, _facts: False,
            )
        return found

    def _fetch(self, requests: Sequence[RangeRequest]) -> list[bytes]:
        """Return the bytes of every request. Raises StorageError WDS403 if a file is too short."""

        responses = self._call_with_retries(requests, self._prefetcher_here().request_all, is_short)
        for request, response in zip(requests, responses, strict=True):
            if isinstance(response, BaseException) or len(response) != request.stop - request.start:
                raise self._inexact_read_error(request, response)
        return responses

    def _call_with_retries(
        self, items: Sequence[T], call: Callable[[Sequence[T]], list[Any]], is_short: Callable[[T, Any], bool]
    ) -> list[Any]:
        """Return the responses to all items, including exceptions. Retries transient errors and short responses."""
        responses: dict[int, Any] = {}
        remaining = list(range(len(items)))
        for tried in self._retry_policy.attempts(self._root) if items else ():
            batch = [items[i] for i in remaining]
            if responses:
                self._counter.add(ReadCounts(retries=len(batch)))
            result = call_or_error(partial(call, batch))
            new = [result] * len(batch) if isinstance(result, Exception) else map(unwrap_driver_error, result)
            responses.update(zip(remaining, new, strict=True))
            remaining = [i for i in remaining if should_retry(items[i], responses[i], is_short, tried)]
            if not remaining:
                note_answer(self._root)
                break
        return [responses[i] for i in range(len(items))]

    def _inexact_read_error(self, request: RangeRequest, response: bytes | BaseException) -> WdsctlError:
        """Build the error for a response that differs from the request.

        Some stores report a range beyond the end as an error.
        """
        received = len(response) if isinstance(response, bytes) else 0
        requested = request.stop - request.start
        if received > requested:
            return ignored_range_error(request.path, received, requested)
        if isinstance(response, WdsctlError):
            return response
        error = isinstance(response, BaseException) and translate_remote(response, request.path, "read")
        if error and (isinstance(error, (PermissionError, StorageDown)) or isinstance(response, FileNotFoundError)):
            return error
        facts = self._stat_files([self._driver_path(request.path)])[0]
        if isinstance(facts, BaseException):
            return error or translate_remote(facts, request.path, "read")
        if facts["size"] is None or (error and facts["size"] >= request.stop):
            return error or _no_size_error(request.path)
        return StorageError(
            f"the file is {request.stop - facts['size']:,} bytes too short for the requested range"
            if facts["size"] < request.stop
            else f"short read from the store after all retries ({received:,} of {requested:,} bytes)",
            where=f"{redact_secrets(request.path)} (byte {request.start:,})",
            hint="the shard has shrunk since it was indexed: run `wdsctl validate` on the dataset",
            code="WDS403",
        )


def _no_size_error(path: str) -> StorageError:
    return StorageError(
        "the store does not report file sizes",
        where=redact_secrets(path),
        hint="copy the dataset to a disk, or to a store that supports range requests and reports file sizes",
    )
