from __future__ import annotations

import pickle

from wdsctl.loader.samples import SourceInfo, lazy_source_info


class Shards:
    """An origin that counts its lookups."""

    dataset_path = "data/cats"

    def __init__(self) -> None:
        self.lookups = 0

    def shard_name(self, index: int) -> str:
        self.lookups += 1
        return f"shard-{index // 10}.tar"

    def file_names(self, index: int) -> tuple[str, ...]:
        self.lookups += 1
        return (f"{index}.jpg", f"{index}.txt")

    def byte_range(self, index: int) -> tuple[int, int]:
        self.lookups += 1
        return 512 * index, 100


KNOWN = SourceInfo(dataset_path="data/cats", index=42, shard_name="shard-4.tar", file_names=("42.jpg", "42.txt"))


def test_lazy_source_info_looks_names_up_on_access() -> None:
    shards = Shards()

    source = lazy_source_info(shards, 42)

    assert shards.lookups == 0
    assert (source.dataset_path, source.index, source.shard_name) == ("data/cats", 42, "shard-4.tar")
    assert source.file_names == ("42.jpg", "42.txt")
    assert source.byte_range == (512 * 42, 100)


def test_lazy_source_info_equals_source_info() -> None:
    lazy = lazy_source_info(Shards(), 42)

    assert lazy == KNOWN
    assert hash(lazy) == hash(KNOWN)
    assert repr(lazy) == repr(KNOWN)
    assert lazy != lazy_source_info(Shards(), 43)
    assert lazy != "shard-4.tar"


def test_pickled_source_info_has_no_reference_to_dataset() -> None:
    data = pickle.dumps(lazy_source_info(Shards(), 42))

    assert b"Shards" not in data
    assert pickle.loads(data) == KNOWN  # noqa: S301 - our own
