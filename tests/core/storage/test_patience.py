from __future__ import annotations

from wdsctl.core.storage.remote_errors import MAX_TRIES, RetryPolicy


def test_what_fails_is_tried_so_many_times_and_each_is_heard_of() -> None:
    heard: list[tuple[str, int]] = []
    patience = RetryPolicy(first_pause_seconds=0.0, on_retry=lambda what, tried: heard.append((what, tried)))

    assert list(patience.attempts("s3://bucket/a.tar")) == list(range(MAX_TRIES))
    assert heard == [("s3://bucket/a.tar", tried) for tried in range(MAX_TRIES)]


def test_no_further_try_begins_when_the_first_took_too_long() -> None:
    assert list(RetryPolicy(first_pause_seconds=0.0, max_retry_seconds=-1.0).attempts("it")) == [0]
