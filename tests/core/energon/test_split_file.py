from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import some_shards
from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.energon.split_file import find_split_file, read_split_from_file
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.index import index
from wdsctl.core.opened.handle import OpenDataset


@pytest.fixture
def location(tmp_path: Path) -> DatasetLocation:
    root = some_shards(tmp_path, 4)
    index(root)
    return locate(root)


def write_split_file(location: DatasetLocation, **content: object) -> str:
    Path(location.meta, "s.json").write_text(json.dumps(content, indent=0))
    return find_split_file(location, "s.json")


def read_split(location: DatasetLocation, path: str, split: str) -> list[SplitShard]:
    with OpenDataset(location) as dataset:
        return read_split_from_file(dataset, path, split)


def test_excluded_samples_are_cleared_bits_of_their_shard(location: DatasetLocation) -> None:
    path = write_split_file(
        location,
        split_parts={"train": ["shard-{000..001}.tar"]},
        exclude=["shard-000.tar/000001", "shard-001.tar/{000005..000009}", "shard-003.tar/000015"],
    )
    parts = read_split(location, path, "train")
    assert [(part.samples, part.bits) for part in parts] == [(4, b"\x1d")]


def test_shard_can_be_in_several_splits_of_file(location: DatasetLocation) -> None:
    path = write_split_file(
        location, split_parts={"train": ["shard-000.tar"], "val": ["shard-000.tar", "shard-002.tar"]}
    )
    assert [len(read_split(location, path, name)) for name in ("train", "val")] == [1, 2]


def test_split_without_names_is_empty(location: DatasetLocation) -> None:
    assert read_split(location, write_split_file(location, split_parts={"train": []}), "train") == []


def test_missing_names_are_counted(location: DatasetLocation) -> None:
    path = write_split_file(location, split_parts={"train": ["shard-{0000..2000}.tar"]})
    with pytest.raises(DatasetError, match="2,001 names"):
        read_split(location, path, "train")
