"""Announced ranges: each is fetched once and handed out once, within the budget of the process."""

from __future__ import annotations

import gc

import pytest

from wdsctl.core.storage.read_ahead import Fetch, Listing, ReadAhead, ReadAheadBudget, plan_fetches
from wdsctl.core.storage.storage import FileRange

WINDOW = [FileRange("a", 10 * i, 10) for i in (3, 0, 2, 1)] + [FileRange("b", 5, 10)]


def complete(ahead: ReadAhead, fetch: Fetch) -> None:
    ahead.complete(fetch, bytes((fetch.start + i) % 256 for i in range(fetch.size)))


def started(ahead: ReadAhead) -> list[Fetch]:
    """All fetches that may start now."""
    return list(iter(ahead.next_fetch, None))


def data_of(each: FileRange) -> bytes:
    return bytes((each.offset + i) % 256 for i in range(each.size))


def test_neighbours_become_one_fetch_in_the_order_in_which_they_are_needed() -> None:
    fetches = plan_fetches(Listing([*WINDOW[-1:], *WINDOW[:-1]]))

    assert [(each.path, each.start, each.stop) for each in fetches] == [("b", 5, 15), ("a", 0, 40)]


def test_long_listings_are_fetched_in_small_pieces_that_do_not_split_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wdsctl.core.storage.read_ahead.LISTING_BYTES", 39)
    monkeypatch.setattr("wdsctl.core.storage.read_ahead.SMALL_FETCH_BYTES", 25)
    large = FileRange("c", 0, 1000)

    fetches = plan_fetches(Listing([*WINDOW[:-1], large]))

    assert [(each.path, each.start, each.stop) for each in fetches] == [("a", 20, 40), ("a", 0, 20), ("c", 0, 1000)]


def test_nothing_is_fetched_before_the_first_range_is_taken_unless_that_is_wanted() -> None:
    ahead = ReadAhead(ReadAheadBudget())
    kept = ahead.announce(WINDOW)
    assert started(ahead) == []

    assert isinstance(ahead.take(WINDOW[0]), Fetch)
    assert [each.path for each in started(ahead)] == ["a", "b"]

    other = ReadAhead(ReadAheadBudget())
    also_kept = other.announce(WINDOW, starts=True)
    assert [each.path for each in started(other)] == ["a", "b"]
    assert kept is not also_kept


def test_what_arrived_is_handed_out_once_and_gives_its_memory_back() -> None:
    budget = ReadAheadBudget()
    ahead = ReadAhead(budget)
    kept = ahead.announce(WINDOW, starts=True)
    for fetch in started(ahead):
        complete(ahead, fetch)
    assert budget.used_bytes == 50

    assert [ahead.take(each) for each in WINDOW] == [data_of(each) for each in WINDOW]
    assert budget.used_bytes == 0
    assert [ahead.take(each) for each in WINDOW] == [None] * 5
    del kept


def test_a_range_that_was_announced_twice_is_fetched_once() -> None:
    ahead = ReadAhead(ReadAheadBudget())
    first = ahead.announce(WINDOW, starts=True)
    second = ahead.announce(WINDOW[:2], starts=True)

    assert len(started(ahead)) == 2
    assert first is not second


def test_fetches_wait_for_room_and_one_that_is_needed_does_not() -> None:
    budget = ReadAheadBudget(max_bytes=1)
    ahead = ReadAhead(budget)
    kept = ahead.announce(WINDOW, starts=True)

    assert [each.path for each in started(ahead)] == ["a"]
    assert started(ahead) == []
    needed = ahead.take(WINDOW[-1])
    assert isinstance(needed, Fetch)
    assert ahead.begin(needed)
    assert not ahead.begin(needed)
    complete(ahead, needed)
    assert ahead.take(WINDOW[-1]) == data_of(WINDOW[-1])
    del kept


def test_what_is_left_of_a_window_is_dropped_with_it() -> None:
    budget = ReadAheadBudget()
    ahead = ReadAhead(budget)
    kept = ahead.announce(WINDOW, starts=True)
    arrived, late = started(ahead)
    complete(ahead, arrived)
    del kept
    gc.collect()

    assert ahead.take(WINDOW[0]) is None
    complete(ahead, late)
    assert ahead.take(WINDOW[-1]) is None
    assert budget.used_bytes == 0


def test_a_fetch_that_failed_is_forgotten() -> None:
    budget = ReadAheadBudget()
    ahead = ReadAhead(budget)
    kept = ahead.announce(WINDOW, starts=True)
    for fetch in started(ahead):
        ahead.fail(fetch)

    assert [ahead.take(each) for each in WINDOW] == [None] * 5
    assert budget.used_bytes == 0
    del kept


def test_a_storage_that_is_freed_gives_back_what_it_held() -> None:
    budget = ReadAheadBudget(max_bytes=40)
    ahead = ReadAhead(budget)
    kept = ahead.announce(WINDOW, starts=True)
    started(ahead)
    rooms = [budget.has_room()]

    del ahead, kept
    gc.collect()
    assert [*rooms, budget.has_room()] == [False, True]
    assert budget.used_bytes == 0


def windows(count: int, fetches: int = 4) -> list[list[FileRange]]:
    """Ranges of `count` windows, each in as many fetches: of one file each."""
    return [[FileRange(f"{window}-{i}", 0, 10) for i in range(fetches)] for window in range(count)]


def files_of(fetches: list[Fetch]) -> list[str]:
    return [each.path for each in fetches]


def test_the_window_that_is_due_first_is_fetched_first() -> None:
    ahead = ReadAhead(ReadAheadBudget(max_fetches=2))
    first, second, third = windows(3, fetches=2)
    kept = [ahead.announce(each, starts=True, due=due) for each, due in ((second, 20.0), (third, 30.0), (first, 10.0))]

    order = []
    while fetches := started(ahead):
        order += files_of(fetches)
        for each in fetches:
            complete(ahead, each)
    assert order == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert len(kept) == 3


def test_a_window_of_which_a_read_waits_overtakes_all_others_and_gets_further_fetches() -> None:
    budget = ReadAheadBudget(max_fetches=2)
    ahead = ReadAhead(budget)
    early, demanded = windows(2)
    kept = [ahead.announce(early, starts=True, due=1.0), ahead.announce(demanded, starts=True, due=2.0)]
    assert files_of(started(ahead)) == ["0-0", "0-1"]

    assert isinstance(ahead.take(demanded[0]), Fetch)
    running = started(ahead)
    assert files_of(running) == ["1-0", "1-1"], "beside those that run"
    complete(ahead, running[0])
    assert files_of(started(ahead)) == ["1-2"]
    assert budget.running_fetches == 4
    assert len(kept) == 2


def test_the_first_slices_of_all_lanes_come_before_the_second_window_of_any() -> None:
    """Round trips against a counting store: with two fetches at a time, lane k begins after 1 + k round trips."""
    ahead = ReadAhead(ReadAheadBudget(max_fetches=2))
    firsts = windows(3, fetches=2)
    kept = [ahead.announce(each, starts=True, due=float(due)) for due, each in enumerate(firsts)]
    arrived: dict[FileRange, int] = {}
    for trip in range(1, 9):
        for fetch in started(ahead):
            complete(ahead, fetch)
            arrived.update(dict.fromkeys(fetch.ranges, trip))
        if trip == 1:  # the first lane has its window, and announces its second one
            later = [FileRange(f"later-{i}", 0, 10) for i in range(8)]
            kept.append(ahead.announce(later, starts=True, due=100.0))

    assert [max(arrived[each] for each in window) for window in firsts] == [1, 2, 3]
    assert max(arrived[each] for each in later) == 7
    assert len(kept) == 4


def test_what_an_earlier_announcement_has_not_fetched_is_fetched_for_the_later_one() -> None:
    ahead = ReadAhead(ReadAheadBudget(max_fetches=1))
    (window,) = windows(1)
    early = ahead.announce(window, starts=True)
    (running,) = started(ahead)
    late = ahead.announce(window)  # the lane that opens announces its window again
    del early
    gc.collect()

    fetched = [running.path]
    complete(ahead, running)
    while fetches := started(ahead):
        fetched += files_of(fetches)
        for each in fetches:
            complete(ahead, each)
    assert fetched == ["0-0", "0-1", "0-2", "0-3"]
    assert [ahead.take(each) for each in window] == [data_of(each) for each in window]
    assert late is not None


def test_a_fetch_that_ends_makes_room_for_one_more() -> None:
    budget = ReadAheadBudget(max_fetches=1)
    ahead = ReadAhead(budget)
    kept = ahead.announce(*windows(1), starts=True)
    turns = []
    while fetches := started(ahead):
        turns.append(len(fetches))
        (ahead.fail if len(turns) == 2 else lambda each: complete(ahead, each))(fetches[0])

    assert turns == [1, 1, 1, 1]
    assert (budget.running_fetches, ahead.next_turn) == (0, None)
    del kept


def test_fetches_of_a_storage_that_is_freed_make_room() -> None:
    budget = ReadAheadBudget(max_fetches=1)
    ahead = ReadAhead(budget)
    kept = ahead.announce(*windows(1), starts=True)
    running = started(ahead)
    assert not budget.has_room()

    del ahead, kept, running
    gc.collect()
    assert budget.has_room()
