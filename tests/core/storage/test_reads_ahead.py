from __future__ import annotations

from wdsctl.core.storage.ranges import ReadAheadBuffer
from wdsctl.core.storage.storage import FileRange

WINDOW = [FileRange("a", 100 * i, 10) for i in range(6)]


def test_the_first_that_is_read_brings_those_after_it_up_to_the_limit() -> None:
    ahead = ReadAheadBuffer(read_ahead_bytes=35)
    ahead.add_hints(WINDOW)

    assert ahead.ranges_to_prefetch(WINDOW[0]) == WINDOW[1:3]
    assert ahead.ranges_to_prefetch(WINDOW[3]) == WINDOW[4:6]


def test_what_was_fetched_is_handed_out_once() -> None:
    ahead = ReadAheadBuffer()
    ahead.put(WINDOW[:1], [b"0123456789"])

    assert ahead.pop(WINDOW[0]) == b"0123456789"
    assert ahead.pop(WINDOW[0]) is None


def test_a_range_that_nobody_told_comes_alone() -> None:
    assert ReadAheadBuffer().ranges_to_prefetch(WINDOW[0]) == []


def test_what_nobody_comes_for_is_let_go_when_there_is_too_much() -> None:
    ahead = ReadAheadBuffer(max_buffered_bytes=25)
    ahead.put(WINDOW, [b"0123456789"] * 6)

    assert [ahead.pop(each) is not None for each in WINDOW] == [False] * 4 + [True] * 2


def test_many_open_windows_share_the_room() -> None:
    ahead = ReadAheadBuffer(read_ahead_bytes=1000, max_buffered_bytes=100)
    ahead.add_hints(WINDOW)

    assert len(ahead.ranges_to_prefetch(WINDOW[0])) == 1, "a quarter of what is left"
