"""KeyIndex finds samples by key, in an index that is written once and mapped into memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.build import a_dataset, rewrite_shard, samples
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.index.index import index
from wdsctl.core.offsets import key_index
from wdsctl.core.offsets.key_index import KeyMatches, _hash_key, _hash_keys, offsets_digest, open_key_index
from wdsctl.core.offsets.read import Offsets


def a_store(root: Path, shards: dict[str, dict[str, bytes]]) -> tuple[DatasetLocation, Offsets]:
    a_dataset(root, shards)
    index(str(root))
    return open_store(root)


def open_store(root: Path, generation: int = 1) -> tuple[DatasetLocation, Offsets]:
    place = locate(str(root))
    return place, Offsets(place.offsets_path(generation))


def test_key_index_finds_every_key(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 50), "b.tar": samples(50, 50)})

    names = open_key_index(place, offsets)

    assert [names.find(f"{i:06}").rows for i in range(100)] == [(i,) for i in range(100)]
    assert names.find("000100") == KeyMatches((), ())


def test_key_index_returns_all_rows_of_duplicate_key_in_order(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": {"x.jpg": b"1"}, "b.tar": {"x.jpg": b"2"}})

    assert open_key_index(place, offsets).find("x").rows == (0, 1)


def test_key_index_returns_keys_in_other_case_as_near_matches(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": {"Cats/Tom.jpg": b"1", "cats/tom.jpg": b"2"}})
    names = open_key_index(place, offsets)

    assert names.find("cats/TOM") == KeyMatches((), (0, 1))
    assert names.find("cats/tom") == KeyMatches((1,), (0,))


def test_key_index_is_written_once(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 5)})
    open_key_index(place, offsets)
    created_stat = os.stat(os.path.join(place.meta, "names-1.bin"))

    open_key_index(*open_store(tmp_path))

    assert os.stat(os.path.join(place.meta, "names-1.bin")) == created_stat


def test_key_indexes_of_removed_generations_are_deleted(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 5)})
    open_key_index(place, offsets)
    for generation in range(2, 6):
        rewrite_shard(tmp_path / "a.tar", samples(generation * 10, 5))
        index(str(tmp_path))
    open_key_index(*open_store(tmp_path, 5))

    assert sorted(each for each in os.listdir(place.meta) if each.startswith("names")) == ["names-5.bin"]


def test_damaged_or_foreign_key_index_is_rewritten(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path / "one", {"a.tar": samples(0, 5)})
    other, _ = a_store(tmp_path / "two", {"a.tar": samples(7, 6)})
    path = os.path.join(place.meta, "names-1.bin")
    open_key_index(*open_store(tmp_path / "two"))
    with open(os.path.join(other.meta, "names-1.bin"), "rb") as file:
        foreign_content = file.read()

    for content in (b"", b"WDSNAM1\n", foreign_content, foreign_content[:-1], b"\0" * 400):
        with open(path, "wb") as file:
            file.write(content)
        assert open_key_index(place, offsets).find("000004").rows == (4,)


def test_key_index_stays_in_memory_if_file_cannot_be_written(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 5)})
    os.mkdir(os.path.join(place.meta, "names-1.bin"))  # nothing can be renamed over a folder

    assert open_key_index(place, offsets).find("000004").rows == (4,)


def test_key_index_without_keys_finds_nothing(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 1)})
    empty = key_index.KeyIndex(offsets, np.empty(0, np.uint64), np.empty(0, np.uint32))

    assert empty.find("000000") == KeyMatches((), ())
    assert open_key_index(place, offsets).find("000000").rows == (0,)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=30))
def test_hash_keys_equals_hash_key_of_each(keys: list[str]) -> None:
    each = [key.encode("utf-8", "surrogatepass") for key in keys]
    text = np.frombuffer(b"".join(each), np.uint8)
    bounds = np.cumsum([0, *map(len, each)])

    assert _hash_keys(text, bounds).tolist() == [_hash_key(key) for key in each]


def test_offsets_digest_depends_on_content_of_dataset(tmp_path: Path) -> None:
    _, one = a_store(tmp_path / "one", {"a.tar": samples(0, 5)})
    _, same = a_store(tmp_path / "two", {"a.tar": samples(0, 5)})
    _, other = a_store(tmp_path / "three", {"a.tar": samples(0, 6)})

    assert offsets_digest(one) == offsets_digest(same) != offsets_digest(other)
