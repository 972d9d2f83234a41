"""A reference says which kind of store it is, and what is wrong with it before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset as tars
from tests.loader.stores.stores import a_file_folder, a_tar_store, opened
from wdsctl.core.errors import InputError, UsageError, WdsctlError
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.loader.stores import PreparedStore
from wdsctl.loader.stores.folder import FolderStore, RemoteFolderStore


def test_each_kind_of_reference_is_a_store_of_its_kind(tmp_path: Path) -> None:
    shards, files = a_tar_store(tmp_path / "shards"), a_file_folder(tmp_path / "files")
    media = a_file_folder(tmp_path / "media")
    index_media_folder(media)

    kinds = [type(opened(each)) for each in (shards, files, f"filesystem://{files}", media, "filesystem+s3://b/x")]

    assert kinds == [PreparedStore, FolderStore, FolderStore, FolderStore, RemoteFolderStore]


def test_a_folder_of_files_has_facts_however_it_is_named(tmp_path: Path) -> None:
    media = a_file_folder(tmp_path / "media")
    index_media_folder(media)

    assert opened(media).digest == opened(f"filesystem://{media}").digest == "folder-1"


@pytest.mark.parametrize("prefix", ["", "filesystem://"])
def test_a_store_that_does_not_exist_is_told(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(InputError, match="does not exist"):
        opened(f"{prefix}{tmp_path / 'nowhere'}", where="blend.yaml:3")


def test_shards_without_a_catalog_are_told_what_makes_it(tmp_path: Path) -> None:
    tars(tmp_path, {"a.tar": {"a.txt": b"a"}})
    with pytest.raises(InputError) as raised:
        opened(str(tmp_path), where="blend.yaml:3")

    assert (raised.value.code, raised.value.where) == ("WDS301", "blend.yaml:3")
    assert f"wdsctl prepare {tmp_path}" in raised.value.hint


def test_a_url_without_a_catalog_is_told_how_plain_files_are_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(InputError) as raised:
        opened("memory://user:secret@bucket/media")

    assert "filesystem+memory://bucket/media" in raised.value.hint
    assert "secret" not in str(raised.value)


def test_a_blend_file_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="blend file"):
        opened(str(tmp_path / "blend.yaml"))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for reference in (str(tmp_path / "file"), f"filesystem://{tmp_path / 'file'}"):
        with pytest.raises(WdsctlError):
            opened(reference)
