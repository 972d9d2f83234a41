"""Announced ranges are fetched in the background: asynchronous drivers fetch many at once and repeat late requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.core.storage.test_remote_storage import run_in_fork
from tests.remote import DelayedFileSystem, FaultyFileSystem, OnceEach
from wdsctl.core.errors import StorageError
from wdsctl.core.storage import filesystem, hedging
from wdsctl.core.storage.remote import FsspecStorage
from wdsctl.core.storage.remote_errors import RetryPolicy
from wdsctl.core.storage.storage import FileRange

DATA = bytes(range(256)) * 40
SIZE = len(DATA)
WINDOW = [FileRange(f"delayed://store/data/{number}.tar", 0, SIZE) for number in range(8)]
pytestmark = pytest.mark.usefixtures("delayed_store", "faulty_store")


@pytest.fixture(autouse=True)
def _files(delayed_store: None, monkeypatch: pytest.MonkeyPatch) -> None:
    DelayedFileSystem.files.update({f"/store/data/{number}.tar": DATA for number in range(8)})
    monkeypatch.setattr(hedging, "_POLICIES", {})


def a_storage(expected: dict[str, int] | None = None, root: str = "delayed://store/data") -> FsspecStorage:
    return FsspecStorage(root, expected, retry_policy=RetryPolicy(first_pause_seconds=0.0))


def wait_for(until: Callable[[], bool]) -> bool:
    end = time.monotonic() + 10
    while not until() and time.monotonic() < end:
        time.sleep(0.002)
    return until()


def test_announced_window_is_fetched_before_it_is_read() -> None:
    DelayedFileSystem.delay[:] = [0.25]
    storage = a_storage(dict.fromkeys([each.path for each in WINDOW], SIZE))

    announcement = storage.announce(WINDOW, starts=True)
    assert wait_for(lambda: len(DelayedFileSystem.reads) == 8)
    started_at = time.monotonic()
    assert [storage.read(*each) for each in WINDOW] == [DATA] * 8

    assert time.monotonic() - started_at < 1.5, "one round trip for all, not eight"
    assert len(DelayedFileSystem.reads) == 8
    assert len(DelayedFileSystem.metadata_requests) == 8, "and each file is checked once"
    counts = storage.take_counts()
    assert (counts.bytes, counts.requests, counts.retries, counts.hedges) == (8 * SIZE, 8, 0, 0)
    assert counts.stalled_seconds < 1.5
    assert storage.take_counts().requests == 0
    del announcement


def test_read_waits_only_for_its_own_fetch() -> None:
    DelayedFileSystem.late.append(lambda number: 2.0 if number else 0.0)
    storage = a_storage()
    storage.will_need(WINDOW)

    started_at = time.monotonic()
    assert storage.read(*WINDOW[0]) == DATA
    assert time.monotonic() - started_at < 1.5
    assert wait_for(lambda: len(DelayedFileSystem.reads) == 8), "the others are under way"
    assert storage.read(*WINDOW[5]) == DATA
    assert storage.take_counts().stalled_seconds > 0.2


@pytest.mark.parametrize("is_announced", [True, False])
def test_read_reports_silence_of_store_after_twice_the_time(*, is_announced: bool) -> None:
    silences: list[tuple[str, float]] = []
    policy = RetryPolicy(on_silence=lambda *each: silences.append(each), silence_seconds=0.1)
    storage = FsspecStorage("delayed://store/data", retry_policy=policy)
    DelayedFileSystem.delay[:] = [0.6]
    if is_announced:
        storage.will_need(WINDOW)

    assert storage.read(*WINDOW[0]) == DATA
    assert silences == [("delayed://store/data", 0.1), ("delayed://store/data", 0.2), ("delayed://store/data", 0.4)]


def test_late_request_is_sent_again() -> None:
    storage = a_storage()
    for _ in range(5):
        storage.read_many(WINDOW)
    first = len(DelayedFileSystem.reads)
    DelayedFileSystem.late.append(lambda number: 30.0 if number == first else 0.0)
    storage.take_counts()

    started_at = time.monotonic()
    assert storage.read(*WINDOW[0]) == DATA
    assert time.monotonic() - started_at < 5
    counts = storage.take_counts()
    assert (counts.requests, counts.hedges, counts.retries) == (2, 1, 0)
    assert wait_for(lambda: DelayedFileSystem.running_requests[0] == 0), "the late one is cancelled"


def test_background_error_is_raised_when_range_is_read() -> None:
    del DelayedFileSystem.files["/store/data/3.tar"]
    storage = a_storage()
    announcement = storage.announce(WINDOW, starts=True)

    assert [storage.read(*each) for each in WINDOW[:3]] == [DATA] * 3
    with pytest.raises(StorageError, match="the object does not exist") as caught:
        storage.read(*WINDOW[3])
    assert (caught.value.code, caught.value.where) == ("WDS404", WINDOW[3].path)
    assert storage.read(*WINDOW[4]) == DATA
    del announcement


def test_replaced_file_is_refused_when_range_is_read() -> None:
    storage = FsspecStorage("delayed://store/data", {WINDOW[0].path: SIZE}, recheck_seconds=0.0)
    announcement = storage.announce([FileRange(WINDOW[0].path, 0, 10)], starts=True)
    assert storage.read(WINDOW[0].path, 0, 10) == DATA[:10]
    DelayedFileSystem.files["/store/data/0.tar"] = DATA[::-1]

    second_announcement = storage.announce([FileRange(WINDOW[0].path, 10, 10)], starts=True)
    with pytest.raises(StorageError, match="was replaced during the read") as caught:
        storage.read(WINDOW[0].path, 10, 10)
    assert caught.value.code == "WDS403"
    del announcement, second_announcement


def test_transient_errors_are_retried_in_background() -> None:
    def reset(path: str, start: int, stop: int, data: bytes) -> bytes:
        raise ConnectionResetError("reset")

    DelayedFileSystem.fault.append(OnceEach(reset))
    DelayedFileSystem.fault.append(OnceEach(lambda _path, _start, _stop, data: data[:-1], times=1))
    storage = a_storage()
    announcement = storage.announce(WINDOW, starts=True)

    assert [storage.read(*each) for each in WINDOW] == [DATA] * 8
    assert storage.take_counts().retries == 16
    del announcement


def test_synchronous_drivers_read_in_one_thread() -> None:
    filesystem = FaultyFileSystem()
    paths = [f"faulty://store/data/{number}.tar" for number in range(4)]
    threads: set[str] = set()

    def record_thread(path: str, start: int, stop: int, data: bytes) -> bytes:
        threads.add(threading.current_thread().name)
        return data

    for number in range(4):
        filesystem.pipe_file(f"/store/data/{number}.tar", DATA)
    FaultyFileSystem.fault.append(record_thread)
    storage = a_storage(dict.fromkeys(paths, SIZE), "faulty://store/data")

    announcement = storage.announce([FileRange(path, 0, SIZE) for path in paths], starts=True)
    assert wait_for(lambda: len(FaultyFileSystem.reads) == 4)
    assert [storage.read(path, 0, SIZE) for path in paths] == [DATA] * 4
    assert len(FaultyFileSystem.reads) == 4
    assert threads == {"wdsctl-read-ahead"}
    del announcement


def test_forked_process_fetches_again_and_parent_continues() -> None:
    DelayedFileSystem.delay[:] = [0.1]
    storage = a_storage()
    announcement = storage.announce(WINDOW, starts=True)

    assert run_in_fork(lambda: storage.read(*WINDOW[0])) == DATA
    assert [storage.read(*each) for each in WINDOW] == [DATA] * 8
    del announcement


def test_closed_storage_cancels_pending_requests() -> None:
    DelayedFileSystem.delay[:] = [60.0]
    storage = a_storage()
    announcement = storage.announce(WINDOW, starts=True)
    assert wait_for(lambda: DelayedFileSystem.running_requests[0] == 8)

    storage.close()
    assert wait_for(lambda: DelayedFileSystem.running_requests[0] == 0)
    DelayedFileSystem.delay[:] = [0.0]
    assert storage.read(*WINDOW[0]) == DATA
    del announcement


def test_background_requests_are_limited() -> None:
    DelayedFileSystem.delay[:] = [0.02]
    DelayedFileSystem.files["/store/data/0.tar"] = bytes(40 << 20)
    ranges = [FileRange(WINDOW[0].path, number << 20, 5) for number in range(40)]
    storage = a_storage()
    announcement = storage.announce(ranges, starts=True)

    assert [len(storage.read(*each)) for each in ranges] == [5] * 40
    limit = filesystem.MAX_CONCURRENT_REQUESTS
    assert limit <= DelayedFileSystem.running_requests[1] <= 2 * limit
    del announcement
