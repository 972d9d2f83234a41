"""Samples are found by their keys, in an index that is made once and mapped."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.build import a_dataset, rewritten, samples
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.index.index import index
from wdsctl.core.offsets import key_index
from wdsctl.core.offsets.key_index import KeyMatches, _hash_key, _hash_keys, offsets_digest, open_key_index
from wdsctl.core.offsets.read import Offsets


def a_store(root: Path, shards: dict[str, dict[str, bytes]]) -> tuple[DatasetLocation, Offsets]:
    a_dataset(root, shards)
    index(str(root))
    return opened(root)


def opened(root: Path, generation: int = 1) -> tuple[DatasetLocation, Offsets]:
    place = locate(str(root))
    return place, Offsets(place.offsets_path(generation))


def test_every_key_is_found_by_its_name(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 50), "b.tar": samples(50, 50)})

    names = open_key_index(place, offsets)

    assert [names.find(f"{i:06}").rows for i in range(100)] == [(i,) for i in range(100)]
    assert names.find("000100") == KeyMatches((), ())


def test_a_key_that_is_there_twice_gives_both_in_order(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": {"x.jpg": b"1"}, "b.tar": {"x.jpg": b"2"}})

    assert open_key_index(place, offsets).find("x").rows == (0, 1)


def test_the_same_in_other_letters_is_near(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": {"Cats/Tom.jpg": b"1", "cats/tom.jpg": b"2"}})
    names = open_key_index(place, offsets)

    assert names.find("cats/TOM") == KeyMatches((), (0, 1))
    assert names.find("cats/tom") == KeyMatches((1,), (0,))


def test_the_index_is_made_once_and_mapped_from_then_on(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 5)})
    open_key_index(place, offsets)
    made = os.stat(os.path.join(place.meta, "names-1.bin"))

    open_key_index(*opened(tmp_path))

    assert os.stat(os.path.join(place.meta, "names-1.bin")) == made


def test_indexes_of_generations_that_are_gone_are_removed(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 5)})
    open_key_index(place, offsets)
    for generation in range(2, 6):
        rewritten(tmp_path / "a.tar", samples(generation * 10, 5))
        index(str(tmp_path))
    open_key_index(*opened(tmp_path, 5))

    assert sorted(each for each in os.listdir(place.meta) if each.startswith("names")) == ["names-5.bin"]


def test_an_index_that_is_damaged_or_of_other_offsets_is_made_again(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path / "one", {"a.tar": samples(0, 5)})
    other, _ = a_store(tmp_path / "two", {"a.tar": samples(7, 6)})
    path = os.path.join(place.meta, "names-1.bin")
    open_key_index(*opened(tmp_path / "two"))
    with open(os.path.join(other.meta, "names-1.bin"), "rb") as file:
        of_others = file.read()

    for content in (b"", b"WDSNAM1\n", of_others, of_others[:-1], b"\0" * 400):
        with open(path, "wb") as file:
            file.write(content)
        assert open_key_index(place, offsets).find("000004").rows == (4,)


def test_a_folder_that_cannot_be_written_has_its_index_in_memory(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 5)})
    os.mkdir(os.path.join(place.meta, "names-1.bin"))  # nothing can be renamed over a folder

    assert open_key_index(place, offsets).find("000004").rows == (4,)


def test_a_dataset_without_samples_has_no_names(tmp_path: Path) -> None:
    place, offsets = a_store(tmp_path, {"a.tar": samples(0, 1)})
    empty = key_index.KeyIndex(offsets, np.empty(0, np.uint64), np.empty(0, np.uint32))

    assert empty.find("000000") == KeyMatches((), ())
    assert open_key_index(place, offsets).find("000000").rows == (0,)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=30))
def test_keys_are_hashed_alike_one_by_one_and_together(keys: list[str]) -> None:
    each = [key.encode("utf-8", "surrogatepass") for key in keys]
    text = np.frombuffer(b"".join(each), np.uint8)
    bounds = np.cumsum([0, *map(len, each)])

    assert _hash_keys(text, bounds).tolist() == [_hash_key(key) for key in each]


def test_a_digest_names_what_is_in_a_dataset(tmp_path: Path) -> None:
    _, one = a_store(tmp_path / "one", {"a.tar": samples(0, 5)})
    _, same = a_store(tmp_path / "two", {"a.tar": samples(0, 5)})
    _, other = a_store(tmp_path / "three", {"a.tar": samples(0, 6)})

    assert offsets_digest(one) == offsets_digest(same) != offsets_digest(other)
