from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from wdsctl.loader.workers import status_page as pages
from wdsctl.loader.workers.status_page import StatusPage, heartbeat_on_retry, log_silence, new_status_page, set_own_page


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatusPage]:
    monkeypatch.setattr(pages, "_own_pages", [])
    descriptor = new_status_page()
    own_page = StatusPage(descriptor)
    set_own_page(own_page)
    yield own_page
    os.close(descriptor)


def test_heartbeat_on_retry_counts_heartbeats(page: StatusPage) -> None:
    heartbeat_on_retry("s3://bucket/a.tar", 0)
    heartbeat_on_retry("s3://bucket/a.tar", 1)

    assert page.heartbeats == 2


def test_heartbeat_on_retry_logs_third_attempt(caplog: pytest.LogCaptureFixture) -> None:
    for attempt in range(3):
        heartbeat_on_retry("s3://bucket/a.tar", attempt)

    assert [record.message for record in caplog.records] == [
        "the store does not respond; retrying (attempt 3): s3://bucket/a.tar"
    ]


def test_log_silence_logs_store_without_heartbeat(page: StatusPage, caplog: pytest.LogCaptureFixture) -> None:
    log_silence("s3://bucket", 60.0)

    assert [record.message for record in caplog.records] == [
        "no answer for 60 s: s3://bucket; its driver may be retrying"
    ]
    assert page.heartbeats == 0
