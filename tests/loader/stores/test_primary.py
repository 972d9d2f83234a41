"""The dataset of a sample as a store: its own parts by extension, those of other samples by name."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.loader.stores.stores import a_tar_store, open_prepared_store
from wdsctl.core.errors import SampleFailed
from wdsctl.loader.stores.open import PrimaryStore


def test_name_with_leading_dot_is_part_of_own_sample(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, {"x.txt": b"0", "y.txt": b"1"}, {"x.txt": b"2", "z.txt": b"3"}))

    ids = [shard.id << 28 for shard in store.offsets.shards]
    samples = [ids[0], ids[0] + 1, ids[1], ids[1] + 1]

    assert [PrimaryStore(store, sample).get(".txt") for sample in samples] == ["0", "1", "2", "3"]
    assert [PrimaryStore(store, sample).find(".txt").name for sample in samples] == ["x.txt", "y.txt", "x.txt", "z.txt"]


def test_other_names_are_entries_of_dataset(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, {"x.txt": b"0", "y.txt": b"1"}))
    primary = PrimaryStore(store, store.offsets.shards[0].id << 28)

    assert primary.get("y.txt") == "1"
    assert primary.open(".txt").read() == b"0"
    assert (primary.get_path(), primary.base_store) == (store.path, store)
    assert pickle.loads(pickle.dumps(primary)).get(".txt") == "0"  # noqa: S301 - our own


def test_missing_part_of_own_sample_is_reported(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, {"x.txt": b"0"}))

    with pytest.raises(SampleFailed) as raised:
        PrimaryStore(store, store.offsets.shards[0].id << 28).get(".jpg")

    assert "'x.txt'" in raised.value.hint


def test_primary_refuses_name_that_is_no_text(tmp_path: Path) -> None:
    store = open_prepared_store(a_tar_store(tmp_path, {"x.txt": b"0"}))
    primary = PrimaryStore(store, store.offsets.shards[0].id << 28)

    assert None not in primary
    with pytest.raises(SampleFailed, match="the store has no 'None'"):
        primary.get(None)  # type: ignore[arg-type]  # a null in JSON
