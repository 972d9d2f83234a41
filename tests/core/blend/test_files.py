from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from wdsctl.core.blend.files import MAX_SUBFLAVORS, BlendFileCache
from wdsctl.core.blend.yaml_tree import NodeLocation, node_value
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, StorageError

LOCATION = NodeLocation("main.yaml", 4)


def test_blend_file_cache_parses_file_once(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfpath: \xc3\xa4\r\n")
    cache = BlendFileCache()

    first = cache.read_node(str(path), LOCATION)
    path.unlink()

    assert cache.read_node(str(path), LOCATION) is first
    assert node_value(first) == {"path": "ä"}


def test_blend_file_cache_reads_file_in_store() -> None:
    fsspec.filesystem("memory").pipe("/texts/a.yaml", b"path: a\n")

    assert node_value(BlendFileCache().read_node("memory://texts/a.yaml", LOCATION)) == {"path": "a"}
    with pytest.raises(InputError, match=r"path: memory://texts/b\.yaml does not exist"):
        BlendFileCache().read_node("memory://texts/b.yaml", LOCATION)


def test_missing_file_is_reported_with_referring_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"path: .*/a\.yaml does not exist") as caught:
        BlendFileCache().read_node(f"{tmp_path}/a.yaml", LOCATION)

    assert caught.value.where == "main.yaml:4"


def test_blend_file_cache_refuses_folders_and_invalid_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    (tmp_path / "b.yaml").write_bytes(b"path: \xff\n")

    with pytest.raises(StorageError, match="directory"):
        BlendFileCache().read_node(f"{tmp_path}/a.yaml", LOCATION)
    with pytest.raises(DatasetError, match=r"not UTF-8: .* at byte 6") as caught:
        BlendFileCache().read_node(f"{tmp_path}/b.yaml", LOCATION)
    assert caught.value.where == f"{tmp_path}/b.yaml"


def test_unreadable_file_raises_permission_denied(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    path = public_path / "a.yaml"
    path.write_text("path: a\n", encoding="utf-8")
    path.chmod(0)

    assert isinstance(as_nobody(lambda: BlendFileCache().read_node(str(path), LOCATION)), PermissionDenied)


def test_blend_file_cache_limits_references() -> None:
    cache = BlendFileCache(max_references=2)
    cache.count_reference(LOCATION, 1)
    cache.count_reference(LOCATION, 1)

    with pytest.raises(DatasetError, match="more than 2 references"):
        cache.count_reference(LOCATION, 1)


def test_blend_file_cache_limits_subflavors_of_all_references() -> None:
    """A file of 1 MB can give each of 30,000 references as many subflavors."""
    cache = BlendFileCache()
    cache.count_reference(LOCATION, MAX_SUBFLAVORS)

    with pytest.raises(DatasetError, match="more than 4,000,000 subflavors"):
        cache.count_reference(LOCATION, 1)
