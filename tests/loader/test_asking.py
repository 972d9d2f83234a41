from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from wdsctl.loader.asking import heard
from wdsctl.loader.workers import page as pages
from wdsctl.loader.workers.page import Page, become, new_page


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.setattr(pages, "_mine", [])
    descriptor = new_page()
    mine = Page(descriptor)
    become(mine)
    yield mine
    os.close(descriptor)


def test_a_worker_that_asks_a_store_gives_a_sign_of_life(page: Page) -> None:
    heard("s3://bucket/a.tar", 0)
    heard("s3://bucket/a.tar", 1)

    assert page.signs == 2


def test_the_third_try_is_told(caplog: pytest.LogCaptureFixture) -> None:
    for tried in range(3):
        heard("s3://bucket/a.tar", tried)

    assert [record.message for record in caplog.records] == [
        "the store does not answer, and is asked again (3 of 4): s3://bucket/a.tar"
    ]
