from __future__ import annotations

from wdsctl.core.reads_ahead import ReadsAhead
from wdsctl.core.storage import Range

WINDOW = [Range("a", 100 * i, 10) for i in range(6)]


def test_the_first_that_is_read_brings_those_after_it_up_to_the_limit() -> None:
    ahead = ReadsAhead(together=35)
    ahead.tell(WINDOW)

    assert ahead.with_it(WINDOW[0]) == WINDOW[1:3]
    assert ahead.with_it(WINDOW[3]) == WINDOW[4:6]


def test_what_was_fetched_is_handed_out_once() -> None:
    ahead = ReadsAhead()
    ahead.hold(WINDOW[:1], [b"0123456789"])

    assert ahead.take(WINDOW[0]) == b"0123456789"
    assert ahead.take(WINDOW[0]) is None


def test_a_range_that_nobody_told_comes_alone() -> None:
    assert ReadsAhead().with_it(WINDOW[0]) == []


def test_what_nobody_comes_for_is_let_go_when_there_is_too_much() -> None:
    ahead = ReadsAhead(held=25)
    ahead.hold(WINDOW, [b"0123456789"] * 6)

    assert [ahead.take(each) is not None for each in WINDOW] == [False] * 4 + [True] * 2


def test_many_open_windows_share_the_room() -> None:
    ahead = ReadsAhead(together=1000, held=100)
    ahead.tell(WINDOW)

    assert len(ahead.with_it(WINDOW[0])) == 1, "a quarter of what is left"
