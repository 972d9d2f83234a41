"""open_store chooses the class of a store by its reference and reports errors before any read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset as tars
from tests.loader.stores.stores import a_file_folder, a_tar_store, open_reference
from wdsctl.core.errors import InputError, UsageError, WdsctlError
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.loader.stores import PreparedStore
from wdsctl.loader.stores.folder import FolderStore, RemoteFolderStore


def test_open_store_returns_store_class_for_reference(tmp_path: Path) -> None:
    shards, files = a_tar_store(tmp_path / "shards"), a_file_folder(tmp_path / "files")
    media = a_file_folder(tmp_path / "media")
    index_media_folder(media)

    kinds = [
        type(open_reference(each)) for each in (shards, files, f"filesystem://{files}", media, "filesystem+s3://b/x")
    ]

    assert kinds == [PreparedStore, FolderStore, FolderStore, FolderStore, RemoteFolderStore]


def test_folder_digest_is_independent_of_reference_form(tmp_path: Path) -> None:
    media = a_file_folder(tmp_path / "media")
    index_media_folder(media)

    assert open_reference(media).digest == open_reference(f"filesystem://{media}").digest == "folder-1"


@pytest.mark.parametrize("prefix", ["", "filesystem://"])
def test_open_store_reports_missing_folder(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(InputError, match="does not exist"):
        open_reference(f"{prefix}{tmp_path / 'nowhere'}", where="blend.yaml:3")


def test_open_store_of_unindexed_shards_suggests_prepare(tmp_path: Path) -> None:
    tars(tmp_path, {"a.tar": {"a.txt": b"a"}})
    with pytest.raises(InputError) as raised:
        open_reference(str(tmp_path), where="blend.yaml:3")

    assert (raised.value.code, raised.value.where) == ("WDS301", "blend.yaml:3")
    assert f"wdsctl prepare {tmp_path}" in raised.value.hint


def test_open_store_of_url_without_catalog_suggests_filesystem_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(InputError) as raised:
        open_reference("memory://user:secret@bucket/media")

    assert "filesystem+memory://bucket/media" in raised.value.hint
    assert "secret" not in str(raised.value)


def test_open_store_rejects_blend_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="blend file"):
        open_reference(str(tmp_path / "blend.yaml"))


def test_open_store_rejects_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for reference in (str(tmp_path / "file"), f"filesystem://{tmp_path / 'file'}"):
        with pytest.raises(WdsctlError):
            open_reference(reference)
