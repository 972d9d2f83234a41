from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, rewrite_shard, some_shards
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import StorageError, UsageError
from wdsctl.core.importers import shards
from wdsctl.core.importers.protocol import FilePart, Part
from wdsctl.core.importers.shards import IMPORTER
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest


def open_source(root: str, **options: str) -> Any:
    return IMPORTER.open(root, options)


def test_shards_lists_samples_with_parts_and_splits(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "a", 2, 2)
    prepare(root, None, PrepareRequest(accept_type=True, split={"train": 1, "val": 1}, split_by="shard"))

    with open_source(root) as source:
        found = list(source.list_samples())

    assert [each.key for each in found] == ["000000", "000001", "000002", "000003"]
    assert [each.sample_index for each in found] == [0, 1, 2, 3]
    assert found[0].parts == (("jpg", 8), ("txt", 8))
    assert sorted(each.splits for each in found) == [1, 1, 2, 2]
    assert source.split_names == ("train", "val")


def test_large_parts_are_passed_as_file_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "LARGE_PART_BYTES", 1000)
    videos = {f"{i}.{part}": bytes([i]) * size for i in range(3) for part, size in (("mp4", 5000), ("txt", 3))}
    root = a_dataset(tmp_path / "a", {"0.tar": videos})
    prepare(root, request=PrepareRequest(accept_type=True))

    with open_source(root) as source:
        video, text = source.read_selected(1, lambda _name: True)
        assert isinstance(video, FilePart)
        assert (video.data, b"".join(video.chunks(999)), text) == (b"\1" * 5000, b"\1" * 5000, Part("txt", b"\1" * 3))
    convert([root], str(tmp_path / "plain"), ConvertRequest())
    convert([root], str(tmp_path / "gz"), ConvertRequest(compress="gz"))
    monkeypatch.undo()
    convert([root], str(tmp_path / "small"), ConvertRequest())
    convert([str(tmp_path / "gz")], str(tmp_path / "back"), ConvertRequest())

    plain, small, restored = (
        (tmp_path / name / "shard-000000.tar").read_bytes() for name in ("plain", "small", "back")
    )
    assert plain == small == restored


def test_shards_refuses_replaced_shard(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "a", 1)
    prepare(root, request=PrepareRequest(accept_type=True))
    rewrite_shard(tmp_path / "a" / "shard-000.tar", {"x.txt": b"other"})

    with open_source(root) as source, pytest.raises(StorageError) as caught:
        source.read(0)
    assert caught.value.code == "WDS403"


def test_shards_refuses_unknown_options(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no option 'columns'"):
        open_source(some_shards(tmp_path / "a", 1), columns="3")


def test_paths_without_shards_are_not_recognised(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    assert IMPORTER.recognise(str(tmp_path)) is None
    assert IMPORTER.recognise(str(tmp_path / "x.txt")) is None
    assert IMPORTER.recognise(str(tmp_path / "nothing")) is None
