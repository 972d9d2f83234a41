from __future__ import annotations

import pickle

from wdsctl.loader.samples import SourceInfo, lazy_source_info


class Shards:
    """An origin that counts how often it is asked."""

    dataset_path = "data/cats"

    def __init__(self) -> None:
        self.asked = 0

    def shard_name(self, index: int) -> str:
        self.asked += 1
        return f"shard-{index // 10}.tar"

    def file_names(self, index: int) -> tuple[str, ...]:
        self.asked += 1
        return (f"{index}.jpg", f"{index}.txt")

    def byte_range(self, index: int) -> tuple[int, int]:
        self.asked += 1
        return 512 * index, 100


KNOWN = SourceInfo(dataset_path="data/cats", index=42, shard_name="shard-4.tar", file_names=("42.jpg", "42.txt"))


def test_names_are_looked_up_when_they_are_asked_for_and_not_before() -> None:
    shards = Shards()

    source = lazy_source_info(shards, 42)

    assert shards.asked == 0
    assert (source.dataset_path, source.index, source.shard_name) == ("data/cats", 42, "shard-4.tar")
    assert source.file_names == ("42.jpg", "42.txt")
    assert source.byte_range == (512 * 42, 100)


def test_a_source_is_its_four_facts_however_they_were_learned() -> None:
    lazy = lazy_source_info(Shards(), 42)

    assert lazy == KNOWN
    assert hash(lazy) == hash(KNOWN)
    assert repr(lazy) == repr(KNOWN)
    assert lazy != lazy_source_info(Shards(), 43)
    assert lazy != "shard-4.tar"


def test_a_pickled_source_needs_no_dataset() -> None:
    data = pickle.dumps(lazy_source_info(Shards(), 42))

    assert b"Shards" not in data
    assert pickle.loads(data) == KNOWN  # noqa: S301 - our own
