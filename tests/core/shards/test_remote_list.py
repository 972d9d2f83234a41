from __future__ import annotations

from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem

from wdsctl.core.errors import InputError, PermissionDenied
from wdsctl.core.shards.list import is_empty_folder, list_shards
from wdsctl.core.shards.survey import has_shards

ROOT = "memory://listed"
pytestmark = pytest.mark.usefixtures("faulty_store")


def put_objects(*paths: str) -> None:
    for path in paths:
        fsspec.filesystem("memory").pipe_file(f"/listed/{path}", path.encode())


def test_list_shards_finds_shards_at_any_depth_sorted() -> None:
    put_objects("b/2.tar", "1.TAR", "x.txt", ".wdsctl/3.tar", "b/.4.tar", "5.tar.gz", "out/6.tar")

    listing = list_shards(ROOT, ["out/*"])

    assert [(shard.path, shard.size) for shard in listing.shards] == [("1.TAR", 5), ("b/2.tar", 7)]
    assert [(finding.code, finding.shard) for finding in listing.findings] == [("WDS113", "5.tar.gz")]
    assert has_shards(ROOT)


class WalkedFileSystem(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The memory store with fsspec's default walk, folder by folder, as for HTTP and SFTP."""

    protocol = "walked"
    find = AbstractFileSystem.find

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + str(path).removeprefix("walked://").strip("/")

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if path.endswith("closed"):
            raise PermissionError("Forbidden")
        return super().ls(path, detail=detail, **options)


fsspec.register_implementation("walked", WalkedFileSystem, clobber=True)


def test_missing_folder_is_refused() -> None:
    with pytest.raises(InputError, match="no such bucket or folder"):
        list_shards("walked://listed")


def test_unlistable_folder_raises_permission_denied() -> None:
    put_objects("a.tar")
    assert len(list_shards("walked://listed").shards) == 1
    put_objects("closed/b.tar")
    with pytest.raises(PermissionDenied, match="Forbidden"):
        list_shards("walked://listed")


def test_missing_folder_is_empty_and_has_no_shards() -> None:
    assert is_empty_folder(ROOT)
    assert not has_shards(ROOT)


def test_folder_of_other_files_has_no_shards() -> None:
    put_objects("a.txt")
    assert not has_shards(ROOT)
    assert not is_empty_folder(ROOT)


def test_file_as_root_is_refused() -> None:
    put_objects("a.tar")
    with pytest.raises(InputError, match="is a file"):
        list_shards(f"{ROOT}/a.tar")
