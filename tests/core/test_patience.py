from __future__ import annotations

from wdsctl.core.patience import TRIES, Patience


def test_what_fails_is_tried_so_many_times_and_each_is_heard_of() -> None:
    heard: list[tuple[str, int]] = []
    patience = Patience(pause=0.0, hear=lambda what, tried: heard.append((what, tried)))

    assert list(patience.tries("s3://bucket/a.tar")) == list(range(TRIES))
    assert heard == [("s3://bucket/a.tar", tried) for tried in range(TRIES)]


def test_no_further_try_begins_when_the_first_took_too_long() -> None:
    assert list(Patience(pause=0.0, longest=-1.0).tries("it")) == [0]
