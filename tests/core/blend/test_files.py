from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from wdsctl.core.blend.files import BlendFileCache
from wdsctl.core.blend.yaml_tree import NodeLocation, node_value
from wdsctl.core.errors import DatasetError, InputError, PermissionDenied, StorageError

PLACE = NodeLocation("main.yaml", 4)


def test_a_file_is_parsed_once(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfpath: \xc3\xa4\r\n")
    texts = BlendFileCache()

    first = texts.read_node(str(path), PLACE)
    path.unlink()

    assert texts.read_node(str(path), PLACE) is first
    assert node_value(first) == {"path": "ä"}


def test_a_file_in_a_store_is_read() -> None:
    fsspec.filesystem("memory").pipe("/texts/a.yaml", b"path: a\n")

    assert node_value(BlendFileCache().read_node("memory://texts/a.yaml", PLACE)) == {"path": "a"}
    with pytest.raises(InputError, match=r"path: memory://texts/b\.yaml does not exist"):
        BlendFileCache().read_node("memory://texts/b.yaml", PLACE)


def test_a_file_that_is_not_there_is_told_with_the_line_that_asks_for_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"path: .*/a\.yaml does not exist") as caught:
        BlendFileCache().read_node(f"{tmp_path}/a.yaml", PLACE)

    assert caught.value.where == "main.yaml:4"


def test_a_folder_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    (tmp_path / "b.yaml").write_bytes(b"path: \xff\n")

    with pytest.raises(StorageError, match="directory"):
        BlendFileCache().read_node(f"{tmp_path}/a.yaml", PLACE)
    with pytest.raises(DatasetError, match=r"not UTF-8: .* at byte 6") as caught:
        BlendFileCache().read_node(f"{tmp_path}/b.yaml", PLACE)
    assert caught.value.where == f"{tmp_path}/b.yaml"


def test_a_file_that_may_not_be_read_is_not_called_missing(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    path = public_path / "a.yaml"
    path.write_text("path: a\n", encoding="utf-8")
    path.chmod(0)

    assert isinstance(as_nobody(lambda: BlendFileCache().read_node(str(path), PLACE)), PermissionDenied)


def test_references_are_counted() -> None:
    texts = BlendFileCache(max_references=2)
    texts.count_reference(PLACE)
    texts.count_reference(PLACE)

    with pytest.raises(DatasetError, match="more than 2 references"):
        texts.count_reference(PLACE)
