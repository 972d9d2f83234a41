from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import some_shards
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.energon.split_file import find_split_file, read_split_from_file
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.index import index


@pytest.fixture
def place(tmp_path: Path) -> DatasetLocation:
    root = some_shards(tmp_path, 4)
    index(root)
    return locate(root)


def written(place: DatasetLocation, **said: object) -> str:
    Path(place.meta, "s.json").write_text(json.dumps(said, indent=0))
    return find_split_file(place, "s.json")


def test_samples_that_are_left_out_are_bits_of_their_shard(place: DatasetLocation) -> None:
    path = written(
        place,
        split_parts={"train": ["shard-{000..001}.tar"]},
        exclude=["shard-000.tar/000001", "shard-001.tar/{000005..000009}", "shard-003.tar/000015"],
    )
    _, parts = read_split_from_file(place, path, "train")
    assert [(part.samples, part.bits) for part in parts] == [(4, b"\x1d")]


def test_a_shard_may_be_in_several_splits_of_a_file(place: DatasetLocation) -> None:
    path = written(place, split_parts={"train": ["shard-000.tar"], "val": ["shard-000.tar", "shard-002.tar"]})
    assert [len(read_split_from_file(place, path, name)[1]) for name in ("train", "val")] == [1, 2]


def test_a_split_that_names_nothing_is_empty(place: DatasetLocation) -> None:
    assert read_split_from_file(place, written(place, split_parts={"train": []}), "train")[1] == []


def test_many_names_that_are_not_there_are_counted(place: DatasetLocation) -> None:
    path = written(place, split_parts={"train": ["shard-{000000..200000}.tar"]})
    with pytest.raises(DatasetError, match="200,001 names"):
        read_split_from_file(place, path, "train")
