from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, some_shards, split_by_ratios
from wdsctl.core.errors import InputError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.ls import ListedPart, ListedSample, ListedShard, ListingKind, open_listing


def list_names(root: str, prefix: str = "", *, what: ListingKind = "shards", split: str | None = None) -> list[str]:
    with open_listing(root, prefix, what=what, split=split) as found:
        return list(found.names)


@pytest.mark.usefixtures("place")
def test_open_listing_lists_shards_samples_and_parts(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.jpg": b"12", "1.txt": b"3"}, "b/c.tar": {"2.txt": b""}})
    index(root)
    assert list_names(root) == ["a.tar", "b/c.tar"]
    assert list_names(root, "b/") == ["b/c.tar"]
    assert list_names(root, what="samples") == ["1", "2"]
    assert list_names(root, "2", what="parts") == ["2.txt"]
    with open_listing(root, what="shards") as found:
        assert next(iter(found.entries)) == ListedShard(path="a.tar", size_bytes=10_240, samples=1, status="ok")
    with open_listing(root, what="samples") as found:
        first = next(found.entries)
    assert first == ListedSample(key="1", shard="a.tar", position=0, size_bytes=3, parts=("jpg", "txt"))
    with open_listing(root, what="parts") as found:
        last = list(found.entries)[-1]
    assert last == ListedPart(name="2.txt", key="2", part="txt", shard="b/c.tar", offset=512, size_bytes=0)


@pytest.mark.usefixtures("place")
def test_open_listing_of_split_lists_its_samples(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1})
    train, val = (list_names(root, what="samples", split=name) for name in ("train", "val"))
    assert sorted(train + val) == list_names(root, what="samples")
    assert len(list_names(root, split="val")) == 1
    with pytest.raises(InputError, match="it has train, val"):
        list_names(root, split="test")


def test_open_listing_uses_offsets_without_sample_rows(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2, 3)
    index(root, sample_rows=False)
    assert list_names(root, what="samples") == [f"{i:06d}" for i in range(6)]
    assert list_names(root, "000004", what="parts") == ["000004.jpg", "000004.txt"]
