from __future__ import annotations

import pytest

from wdsctl.core.errors import StorageDown
from wdsctl.core.storage import source_files
from wdsctl.core.storage.remote import FsspecStorage


def test_store_that_does_not_respond_gets_no_other_request_of_the_same_command(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def list_folder(_: FsspecStorage, url: str) -> None:
        requests.append(url)
        raise StorageDown("cannot list", where=url, hint="check the network")

    monkeypatch.setattr(FsspecStorage, "list_folder", list_folder)
    source_files.forget_listings()
    for url in ("memory://down/a", "memory://down/b/c"):
        with pytest.raises(StorageDown):
            source_files.is_file(url)
    assert requests == ["memory://down"]

    source_files.forget_listings()
    with pytest.raises(StorageDown):
        source_files.is_file("memory://down/b/c")
    assert requests == ["memory://down", "memory://down/b"]
    source_files.forget_listings()
