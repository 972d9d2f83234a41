from __future__ import annotations

import pytest

from wdsctl.core.storage.remote_errors import FIRST_TRIES, MAX_PAUSE_SECONDS, MAX_TRIES, RetryPolicy, note_answer


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


def test_retry_pauses_are_short_at_first_and_exceed_40_seconds() -> None:
    pauses = [RetryPolicy().pause_before(tried) for tried in range(1, MAX_TRIES)]

    assert sum(pauses[: FIRST_TRIES - 1]) < 5, "a wrong URL is reported soon"
    assert sum(pauses) > 40
    assert max(pauses) == MAX_PAUSE_SECONDS
