from __future__ import annotations

import pytest
from fsspec.spec import AbstractFileSystem

from wdsctl.core.errors import StorageError
from wdsctl.core.storage import filesystem
from wdsctl.core.storage.answer_limits import MAX_FOLDER_DEPTH


def test_folders_that_link_to_ever_deeper_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []

    def list_one(_: object, folder: str) -> list[dict[str, str]]:
        listed.append(folder)
        return [{"name": f"{folder}/{name}", "type": "directory"} for name in ("a", "b")]

    monkeypatch.setattr(filesystem, "list_entries", list_one)
    with pytest.raises(StorageError, match="no end"):
        filesystem.list_files_below(AbstractFileSystem(), "data")
    assert len(listed) <= MAX_FOLDER_DEPTH + 1
