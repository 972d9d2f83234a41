"""Every announced range is fetched once and returned once, within the budget of the process."""

from __future__ import annotations

import gc

import pytest

from wdsctl.core.storage.read_ahead import Fetch, Listing, ReadAhead, ReadAheadBudget, plan_fetches
from wdsctl.core.storage.storage import FileRange

WINDOW = [FileRange("a", 10 * i, 10) for i in (3, 0, 2, 1)] + [FileRange("b", 5, 10)]


def complete(ahead: ReadAhead, fetch: Fetch) -> None:
    ahead.complete(fetch, bytes((fetch.start + i) % 256 for i in range(fetch.size)))


def start_fetches(ahead: ReadAhead) -> list[Fetch]:
    """Returns all fetches that may start now."""
    return list(iter(ahead.next_fetch, None))


def data_of(each: FileRange) -> bytes:
    return bytes((each.offset + i) % 256 for i in range(each.size))


def test_neighbouring_ranges_become_one_fetch_in_order_of_need() -> None:
    fetches = plan_fetches(Listing([*WINDOW[-1:], *WINDOW[:-1]]))

    assert [(each.path, each.start, each.stop) for each in fetches] == [("b", 5, 15), ("a", 0, 40)]


def test_range_within_another_one_does_not_shorten_fetch() -> None:
    fetches = plan_fetches(Listing([FileRange("a", 0, 100), FileRange("a", 10, 5)]))

    assert [(each.path, each.start, each.stop) for each in fetches] == [("a", 0, 100)]


def test_long_listings_are_fetched_in_pieces_that_keep_ranges_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wdsctl.core.storage.read_ahead.LISTING_BYTES", 39)
    monkeypatch.setattr("wdsctl.core.storage.read_ahead.SMALL_FETCH_BYTES", 25)
    large = FileRange("c", 0, 1000)

    fetches = plan_fetches(Listing([*WINDOW[:-1], large]))

    assert [(each.path, each.start, each.stop) for each in fetches] == [("a", 20, 40), ("a", 0, 20), ("c", 0, 1000)]


def test_announced_ranges_are_fetched_from_first_take_unless_starts_is_set() -> None:
    ahead = ReadAhead(ReadAheadBudget())
    announcement = ahead.announce(WINDOW)
    assert start_fetches(ahead) == []

    assert isinstance(ahead.take(WINDOW[0]), Fetch)
    assert [each.path for each in start_fetches(ahead)] == ["a", "b"]

    other = ReadAhead(ReadAheadBudget())
    second_announcement = other.announce(WINDOW, starts=True)
    assert [each.path for each in start_fetches(other)] == ["a", "b"]
    assert announcement is not second_announcement


def test_fetched_range_is_returned_once_and_frees_its_memory() -> None:
    budget = ReadAheadBudget()
    ahead = ReadAhead(budget)
    announcement = ahead.announce(WINDOW, starts=True)
    for fetch in start_fetches(ahead):
        complete(ahead, fetch)
    assert budget.used_bytes == 50

    assert [ahead.take(each) for each in WINDOW] == [data_of(each) for each in WINDOW]
    assert budget.used_bytes == 0
    assert [ahead.take(each) for each in WINDOW] == [None] * 5
    del announcement


def test_range_announced_twice_is_fetched_once() -> None:
    ahead = ReadAhead(ReadAheadBudget())
    first = ahead.announce(WINDOW, starts=True)
    second = ahead.announce(WINDOW[:2], starts=True)

    assert len(start_fetches(ahead)) == 2
    assert first is not second


def test_fetches_wait_for_budget_but_needed_fetch_does_not() -> None:
    budget = ReadAheadBudget(max_bytes=1)
    ahead = ReadAhead(budget)
    announcement = ahead.announce(WINDOW, starts=True)

    assert [each.path for each in start_fetches(ahead)] == ["a"]
    assert start_fetches(ahead) == []
    needed = ahead.take(WINDOW[-1])
    assert isinstance(needed, Fetch)
    assert ahead.begin(needed)
    assert not ahead.begin(needed)
    complete(ahead, needed)
    assert ahead.take(WINDOW[-1]) == data_of(WINDOW[-1])
    del announcement


def test_dropped_window_drops_its_remaining_data() -> None:
    budget = ReadAheadBudget()
    ahead = ReadAhead(budget)
    announcement = ahead.announce(WINDOW, starts=True)
    arrived, late = start_fetches(ahead)
    complete(ahead, arrived)
    del announcement
    gc.collect()

    assert ahead.take(WINDOW[0]) is None
    complete(ahead, late)
    assert ahead.take(WINDOW[-1]) is None
    assert budget.used_bytes == 0


def test_failed_fetch_is_forgotten() -> None:
    budget = ReadAheadBudget()
    ahead = ReadAhead(budget)
    announcement = ahead.announce(WINDOW, starts=True)
    for fetch in start_fetches(ahead):
        ahead.fail(fetch)

    assert [ahead.take(each) for each in WINDOW] == [None] * 5
    assert budget.used_bytes == 0
    del announcement


def test_freed_storage_returns_its_memory_budget() -> None:
    budget = ReadAheadBudget(max_bytes=40)
    ahead = ReadAhead(budget)
    announcement = ahead.announce(WINDOW, starts=True)
    start_fetches(ahead)
    rooms = [budget.has_room()]

    del ahead, announcement
    gc.collect()
    assert [*rooms, budget.has_room()] == [False, True]
    assert budget.used_bytes == 0


def make_windows(count: int, fetches: int = 4) -> list[list[FileRange]]:
    """The ranges of `count` windows; each window needs `fetches` fetches, of one file each."""
    return [[FileRange(f"{window}-{i}", 0, 10) for i in range(fetches)] for window in range(count)]


def files_of(fetches: list[Fetch]) -> list[str]:
    return [each.path for each in fetches]


def test_window_due_first_is_fetched_first() -> None:
    ahead = ReadAhead(ReadAheadBudget(max_fetches=2))
    first, second, third = make_windows(3, fetches=2)
    announcement = [
        ahead.announce(each, starts=True, due=due) for each, due in ((second, 20.0), (third, 30.0), (first, 10.0))
    ]

    order = []
    while fetches := start_fetches(ahead):
        order += files_of(fetches)
        for each in fetches:
            complete(ahead, each)
    assert order == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert len(announcement) == 3


def test_awaited_window_overtakes_others_and_gets_more_fetches() -> None:
    budget = ReadAheadBudget(max_fetches=2)
    ahead = ReadAhead(budget)
    early, demanded = make_windows(2)
    announcement = [ahead.announce(early, starts=True, due=1.0), ahead.announce(demanded, starts=True, due=2.0)]
    assert files_of(start_fetches(ahead)) == ["0-0", "0-1"]

    assert isinstance(ahead.take(demanded[0]), Fetch)
    running = start_fetches(ahead)
    assert files_of(running) == ["1-0", "1-1"], "beside those that run"
    complete(ahead, running[0])
    assert files_of(start_fetches(ahead)) == ["1-2"]
    assert budget.running_fetches == 4
    assert len(announcement) == 2


def test_first_windows_of_all_lanes_precede_second_windows() -> None:
    """Round trips against a counting store: with two fetches at a time, lane k begins after 1 + k round trips."""
    ahead = ReadAhead(ReadAheadBudget(max_fetches=2))
    first_windows = make_windows(3, fetches=2)
    announcement = [ahead.announce(each, starts=True, due=float(due)) for due, each in enumerate(first_windows)]
    arrived: dict[FileRange, int] = {}
    for trip in range(1, 9):
        for fetch in start_fetches(ahead):
            complete(ahead, fetch)
            arrived.update(dict.fromkeys(fetch.ranges, trip))
        if trip == 1:  # the first lane has its window, and announces its second one
            second_window = [FileRange(f"later-{i}", 0, 10) for i in range(8)]
            announcement.append(ahead.announce(second_window, starts=True, due=100.0))

    assert [max(arrived[each] for each in window) for window in first_windows] == [1, 2, 3]
    assert max(arrived[each] for each in second_window) == 7
    assert len(announcement) == 4


def test_later_announcement_fetches_what_earlier_one_did_not() -> None:
    ahead = ReadAhead(ReadAheadBudget(max_fetches=1))
    (window,) = make_windows(1)
    early = ahead.announce(window, starts=True)
    (running,) = start_fetches(ahead)
    late = ahead.announce(window)  # the lane that opens announces its window again
    del early
    gc.collect()

    fetched = [running.path]
    complete(ahead, running)
    while fetches := start_fetches(ahead):
        fetched += files_of(fetches)
        for each in fetches:
            complete(ahead, each)
    assert fetched == ["0-0", "0-1", "0-2", "0-3"]
    assert [ahead.take(each) for each in window] == [data_of(each) for each in window]
    assert late is not None


def test_finished_fetch_allows_one_more() -> None:
    budget = ReadAheadBudget(max_fetches=1)
    ahead = ReadAhead(budget)
    announcement = ahead.announce(*make_windows(1), starts=True)
    turns = []
    while fetches := start_fetches(ahead):
        turns.append(len(fetches))
        (ahead.fail if len(turns) == 2 else lambda each: complete(ahead, each))(fetches[0])

    assert turns == [1, 1, 1, 1]
    assert (budget.running_fetches, ahead.next_turn) == (0, None)
    del announcement


def test_freed_storage_releases_its_running_fetches() -> None:
    budget = ReadAheadBudget(max_fetches=1)
    ahead = ReadAhead(budget)
    announcement = ahead.announce(*make_windows(1), starts=True)
    running = start_fetches(ahead)
    assert not budget.has_room()

    del ahead, announcement, running
    gc.collect()
    assert budget.has_room()
