"""Announced ranges arrive in the background: of asynchronous drivers many at a time, and late requests are repeated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.core.storage.test_remote_storage import in_a_fork
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


def waited(until: Callable[[], bool]) -> bool:
    end = time.monotonic() + 10
    while not until() and time.monotonic() < end:
        time.sleep(0.002)
    return until()


def test_a_window_is_fetched_at_once_before_it_is_read() -> None:
    DelayedFileSystem.delay[:] = [0.05]
    storage = a_storage(dict.fromkeys([each.path for each in WINDOW], SIZE))

    kept = storage.announce(WINDOW, starts=True)
    assert waited(lambda: len(DelayedFileSystem.reads) == 8)
    begun = time.monotonic()
    assert [storage.read(*each) for each in WINDOW] == [DATA] * 8

    assert time.monotonic() - begun < 0.2, "one round trip for all"
    assert len(DelayedFileSystem.reads) == 8
    assert len(DelayedFileSystem.asked) == 8, "and each file is checked once"
    counts = storage.take_counts()
    assert (counts.bytes, counts.requests, counts.retries, counts.hedges) == (8 * SIZE, 8, 0, 0)
    assert counts.stalled_seconds < 0.2
    assert storage.take_counts().requests == 0
    del kept


def test_a_read_waits_only_for_its_own_fetch() -> None:
    DelayedFileSystem.late.append(lambda number: 0.5 if number else 0.0)
    storage = a_storage()
    storage.will_need(WINDOW)

    begun = time.monotonic()
    assert storage.read(*WINDOW[0]) == DATA
    assert time.monotonic() - begun < 0.3
    assert waited(lambda: len(DelayedFileSystem.reads) == 8), "the others are under way"
    assert storage.read(*WINDOW[5]) == DATA
    assert storage.take_counts().stalled_seconds > 0.2


def test_a_late_request_is_sent_again() -> None:
    storage = a_storage()
    for _ in range(5):
        storage.read_many(WINDOW)
    first = len(DelayedFileSystem.reads)
    DelayedFileSystem.late.append(lambda number: 30.0 if number == first else 0.0)
    storage.take_counts()

    begun = time.monotonic()
    assert storage.read(*WINDOW[0]) == DATA
    assert time.monotonic() - begun < 5
    counts = storage.take_counts()
    assert (counts.requests, counts.hedges, counts.retries) == (2, 1, 0)
    assert waited(lambda: DelayedFileSystem.under_way[0] == 0), "the late one is cancelled"


def test_an_error_in_the_background_is_raised_when_the_range_is_read() -> None:
    del DelayedFileSystem.files["/store/data/3.tar"]
    storage = a_storage()
    kept = storage.announce(WINDOW, starts=True)

    assert [storage.read(*each) for each in WINDOW[:3]] == [DATA] * 3
    with pytest.raises(StorageError, match="the object does not exist") as caught:
        storage.read(*WINDOW[3])
    assert (caught.value.code, caught.value.where) == ("WDS404", WINDOW[3].path)
    assert storage.read(*WINDOW[4]) == DATA
    del kept


def test_a_file_that_was_replaced_is_refused_when_the_range_is_read() -> None:
    storage = FsspecStorage("delayed://store/data", {WINDOW[0].path: SIZE}, recheck_seconds=0.0)
    kept = storage.announce([FileRange(WINDOW[0].path, 0, 10)], starts=True)
    assert storage.read(WINDOW[0].path, 0, 10) == DATA[:10]
    DelayedFileSystem.files["/store/data/0.tar"] = DATA[::-1]

    also_kept = storage.announce([FileRange(WINDOW[0].path, 10, 10)], starts=True)
    with pytest.raises(StorageError, match="was replaced during the read") as caught:
        storage.read(WINDOW[0].path, 10, 10)
    assert caught.value.code == "WDS403"
    del kept, also_kept


def test_what_fails_for_a_moment_is_tried_again_in_the_background() -> None:
    def reset(path: str, start: int, stop: int, data: bytes) -> bytes:
        raise ConnectionResetError("reset")

    DelayedFileSystem.fault.append(OnceEach(reset))
    DelayedFileSystem.fault.append(OnceEach(lambda _path, _start, _stop, data: data[:-1], times=1))
    storage = a_storage()
    kept = storage.announce(WINDOW, starts=True)

    assert [storage.read(*each) for each in WINDOW] == [DATA] * 8
    assert storage.take_counts().retries == 16
    del kept


def test_drivers_that_are_not_asynchronous_read_in_one_thread() -> None:
    filesystem = FaultyFileSystem()
    paths = [f"faulty://store/data/{number}.tar" for number in range(4)]
    threads: set[str] = set()

    def noted(path: str, start: int, stop: int, data: bytes) -> bytes:
        threads.add(threading.current_thread().name)
        return data

    for number in range(4):
        filesystem.pipe_file(f"/store/data/{number}.tar", DATA)
    FaultyFileSystem.fault.append(noted)
    storage = a_storage(dict.fromkeys(paths, SIZE), "faulty://store/data")

    kept = storage.announce([FileRange(path, 0, SIZE) for path in paths], starts=True)
    assert waited(lambda: len(FaultyFileSystem.reads) == 4)
    assert [storage.read(path, 0, SIZE) for path in paths] == [DATA] * 4
    assert len(FaultyFileSystem.reads) == 4
    assert threads == {"wdsctl-read-ahead"}
    del kept


def test_a_forked_process_fetches_again_and_its_parent_goes_on() -> None:
    DelayedFileSystem.delay[:] = [0.1]
    storage = a_storage()
    kept = storage.announce(WINDOW, starts=True)

    assert in_a_fork(lambda: storage.read(*WINDOW[0])) == DATA
    assert [storage.read(*each) for each in WINDOW] == [DATA] * 8
    del kept


def test_a_closed_storage_cancels_what_is_under_way() -> None:
    DelayedFileSystem.delay[:] = [60.0]
    storage = a_storage()
    kept = storage.announce(WINDOW, starts=True)
    assert waited(lambda: DelayedFileSystem.under_way[0] == 8)

    storage.close()
    assert waited(lambda: DelayedFileSystem.under_way[0] == 0)
    DelayedFileSystem.delay[:] = [0.0]
    assert storage.read(*WINDOW[0]) == DATA
    del kept


def test_requests_in_the_background_are_limited() -> None:
    DelayedFileSystem.delay[:] = [0.02]
    DelayedFileSystem.files["/store/data/0.tar"] = bytes(40 << 20)
    ranges = [FileRange(WINDOW[0].path, number << 20, 5) for number in range(40)]
    storage = a_storage()
    kept = storage.announce(ranges, starts=True)

    assert [len(storage.read(*each)) for each in ranges] == [5] * 40
    most = filesystem.MAX_CONCURRENT_REQUESTS
    assert most <= DelayedFileSystem.under_way[1] <= 2 * most
    del kept
