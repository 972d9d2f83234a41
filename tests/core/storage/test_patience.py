from __future__ import annotations

import pytest

from wdsctl.core.storage.remote_errors import FIRST_TRIES, MAX_PAUSE_SECONDS, MAX_TRIES, RetryPolicy, note_answer


@pytest.mark.parametrize(
    ("answered", "tries"),
    [
        (None, FIRST_TRIES),
        ("s3://other/a.tar", FIRST_TRIES),
        ("s3://bucket/b/b.tar", MAX_TRIES),
        ("simplecache::s3://bucket", MAX_TRIES),
    ],
)
def test_what_fails_is_tried_so_many_times_and_each_is_heard_of(answered: str | None, tries: int) -> None:
    heard: list[tuple[str, int]] = []
    patience = RetryPolicy(first_pause_seconds=0.0, on_retry=lambda what, tried: heard.append((what, tried)))
    if answered is not None:
        note_answer(answered)

    assert list(patience.attempts("s3://bucket/a.tar")) == list(range(tries))
    assert heard == [("s3://bucket/a.tar", tried) for tried in range(tries)]


def test_no_further_try_begins_when_the_first_took_too_long() -> None:
    assert list(RetryPolicy(first_pause_seconds=0.0, max_retry_seconds=-1.0).attempts("it")) == [0]


def test_a_store_that_has_answered_is_waited_for_longer_than_half_a_minute() -> None:
    pauses = [RetryPolicy().pause_before(tried) for tried in range(1, MAX_TRIES)]

    assert sum(pauses[: FIRST_TRIES - 1]) < 5, "the first request soon tells of a wrong URL"
    assert sum(pauses) > 40
    assert max(pauses) == MAX_PAUSE_SECONDS
