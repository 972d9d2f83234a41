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
