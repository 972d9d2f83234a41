from __future__ import annotations

from wdsctl.core.patience import TRIES, Patience


def test_what_fails_is_tried_so_many_times_and_told_from_the_third() -> None:
    told: list[str] = []

    assert list(Patience(pause=0.0, tell=told.append).tries("s3://bucket/a.tar")) == list(range(TRIES))
    assert told == [
        "the store does not answer, and is asked again (3 of 4): s3://bucket/a.tar",
        "the store does not answer, and is asked again (4 of 4): s3://bucket/a.tar",
    ]


def test_no_further_try_begins_when_the_first_took_too_long() -> None:
    assert list(Patience(pause=0.0, longest=-1.0).tries("it")) == [0]
