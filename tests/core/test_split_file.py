from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import some_shards
from wdsctl.core.errors import DatasetError
from wdsctl.core.place import Place, locate
from wdsctl.core.split_file import split_file, split_of_file
from wdsctl.core.verbs.index import index


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = some_shards(tmp_path, 4)
    index(root)
    return locate(root)


def written(place: Place, **said: object) -> str:
    Path(place.meta, "s.json").write_text(json.dumps(said, indent=0))
    return split_file(place, "s.json")


def test_samples_that_are_left_out_are_bits_of_their_shard(place: Place) -> None:
    path = written(
        place,
        split_parts={"train": ["shard-{000..001}.tar"]},
        exclude=["shard-000.tar/000001", "shard-001.tar/{000005..000009}", "shard-003.tar/000015"],
    )
    _, parts = split_of_file(place, path, "train")
    assert [(part.samples, part.bits) for part in parts] == [(4, b"\x1d")]


def test_a_shard_may_be_in_several_splits_of_a_file(place: Place) -> None:
    path = written(place, split_parts={"train": ["shard-000.tar"], "val": ["shard-000.tar", "shard-002.tar"]})
    assert [len(split_of_file(place, path, name)[1]) for name in ("train", "val")] == [1, 2]


def test_a_split_that_names_nothing_is_empty(place: Place) -> None:
    assert split_of_file(place, written(place, split_parts={"train": []}), "train")[1] == []


def test_many_names_that_are_not_there_are_counted(place: Place) -> None:
    path = written(place, split_parts={"train": ["shard-{000000..200000}.tar"]})
    with pytest.raises(DatasetError, match="200,001 names"):
        split_of_file(place, path, "train")
