from __future__ import annotations

import time

import pytest

from wdsctl.core.storage.remote_errors import (
    FIRST_RETRY_SECONDS,
    FIRST_TRIES,
    MAX_PAUSE_SECONDS,
    MAX_TRIES,
    SHOWN_PAUSE_SECONDS,
    RetryPolicy,
    note_answer,
)
from wdsctl.core.waits import current_wait, end_wait, expect_answer


@pytest.mark.parametrize(
    ("answering_url", "tries"),
    [
        (None, FIRST_TRIES),
        ("s3://other/a.tar", FIRST_TRIES),
        ("s3://bucket/b/b.tar", MAX_TRIES),
        ("simplecache::s3://bucket", MAX_TRIES),
    ],
)
def test_number_of_tries_depends_on_earlier_answer_and_each_is_reported(answering_url: str | None, tries: int) -> None:
    retries: list[tuple[str, int]] = []
    policy = RetryPolicy(first_pause_seconds=0.0, on_retry=lambda what, tried: retries.append((what, tried)))
    if answering_url is not None:
        note_answer(answering_url)

    assert list(policy.attempts("s3://bucket/a.tar")) == list(range(tries))
    assert retries == [("s3://bucket/a.tar", tried) for tried in range(tries)]


def test_no_retry_starts_after_max_retry_seconds() -> None:
    assert list(RetryPolicy(first_pause_seconds=0.0, max_retry_seconds=-1.0).attempts("it")) == [0]


def test_no_retry_starts_long_after_first_request_to_store_without_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])

    def tries(url: str) -> int:
        count = 0
        for count, _ in enumerate(RetryPolicy(first_pause_seconds=0.0).attempts(url), 1):  # noqa: B007
            seconds[0] += FIRST_RETRY_SECONDS - 1  # a driver repeats each request itself
        return count

    assert tries("s3://silent/a.tar") == 2
    note_answer("s3://answering")
    assert tries("s3://answering/a.tar") == MAX_TRIES


def test_retry_pauses_are_short_at_first_and_exceed_40_seconds() -> None:
    pauses = [RetryPolicy().pause_before(tried) for tried in range(1, MAX_TRIES)]

    assert sum(pauses[: FIRST_TRIES - 1]) < 5, "a wrong URL is reported soon"
    assert sum(pauses) > 40
    assert max(pauses) == MAX_PAUSE_SECONDS


def test_progress_shows_retry_after_pause_until_store_answers() -> None:
    url = "s3://waited-for/a.tar?X-Amz-Signature=secret"
    shown = []
    for tried in RetryPolicy(first_pause_seconds=SHOWN_PAUSE_SECONDS).attempts(url):
        shown.append(current_wait())
        if tried:
            break
    note_answer(url)

    assert shown == ["", "waiting for s3://waited-for (retry 1)"]
    assert current_wait() == ""


def test_progress_shows_request_without_answer_after_some_seconds() -> None:
    expect_answer("s3://now", "waiting for s3://now", 0.0)
    expect_answer("s3://later", "waiting for s3://later", 5.0)
    shown = current_wait()
    end_wait("s3://now")

    assert shown == "waiting for s3://now"
    assert current_wait() == ""
    end_wait("s3://later")


def test_progress_shows_no_retry_after_short_pause() -> None:
    assert list(RetryPolicy(first_pause_seconds=0.0).attempts("s3://soon/a.tar"))

    assert current_wait() == ""
