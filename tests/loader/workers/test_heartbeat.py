from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from wdsctl.loader.workers import status_page as pages
from wdsctl.loader.workers.status_page import StatusPage, heartbeat_on_retry, new_status_page, set_own_page


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatusPage]:
    monkeypatch.setattr(pages, "_own_pages", [])
    descriptor = new_status_page()
    mine = StatusPage(descriptor)
    set_own_page(mine)
    yield mine
    os.close(descriptor)


def test_a_worker_that_asks_a_store_gives_a_sign_of_life(page: StatusPage) -> None:
    heartbeat_on_retry("s3://bucket/a.tar", 0)
    heartbeat_on_retry("s3://bucket/a.tar", 1)

    assert page.heartbeats == 2


def test_the_third_try_is_told(caplog: pytest.LogCaptureFixture) -> None:
    for tried in range(3):
        heartbeat_on_retry("s3://bucket/a.tar", tried)

    assert [record.message for record in caplog.records] == [
        "the store does not respond; retrying (attempt 3): s3://bucket/a.tar"
    ]
