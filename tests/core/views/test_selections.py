from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import rewrite_shard, samples, some_shards, split_by_ratios
from tests.core.catalog.readers import read_shards, read_view_samples, select_split
from wdsctl.core.catalog.ledger import ViewShard
from wdsctl.core.catalog.splits import sample_flags
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.index.index import index
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.selections import (
    SampleSelection,
    intersect_selections,
    match_view_shards,
    open_view,
    select_all,
    selection_hash,
    shard_selection,
    to_view_shards,
)
from wdsctl.core.views.views import create_view

SIZES = {1: 9, 2: 1, 5: 16}

flags = st.fixed_dictionaries({shard: st.lists(st.booleans(), min_size=n, max_size=n) for shard, n in SIZES.items()})


def make_selection(flags_by_shard: dict[int, list[bool]]) -> SampleSelection:
    parts = (shard_selection(shard, np.array(entries)) for shard, entries in flags_by_shard.items())
    return {part.shard: part for part in parts if part.samples}


@given(flags, flags)
def test_intersect_selections_keeps_samples_of_both(one: dict[int, list[bool]], other: dict[int, list[bool]]) -> None:
    expected = {shard: [a and b for a, b in zip(one[shard], other[shard], strict=True)] for shard in SIZES}
    found = intersect_selections(make_selection(one), make_selection(other))

    assert {n: sample_flags(found.get(n), SIZES[n]).tolist() for n in SIZES} == expected
    assert list(found) == sorted(found)
    assert all(part.samples == sum(expected[shard]) for shard, part in found.items())


def a_shard(number: int, path: str, layout_hash: str, samples: int) -> ShardRow:
    return ShardRow(number, path, 0, 0, samples, samples, "ok", None, layout_hash)


@given(flags, flags)
def test_selection_hash_depends_on_samples_not_on_ids_and_paths(
    one: dict[int, list[bool]], other: dict[int, list[bool]]
) -> None:
    shards = [a_shard(n, f"{n}.tar", f"layout {n}", size) for n, size in SIZES.items()]
    other_shards = [a_shard(100 - n, f"moved/{100 - n}.tar", f"layout {n}", size) for n, size in SIZES.items()]
    moved = {100 - n: entries for n, entries in other.items()}

    entries, other_entries = (
        to_view_shards(make_selection(one), shards),
        to_view_shards(make_selection(moved), other_shards),
    )
    assert (selection_hash(entries) == selection_hash(other_entries)) == (one == other)


def test_match_view_shards_matches_by_path_and_layout_or_by_unique_layout() -> None:
    parts = [ViewShard(f"{name}.tar", f"layout {name}", 2, None) for name in ("same", "moved", "changed", "gone")]
    other_shards = [
        a_shard(1, "same.tar", "layout same", 2),
        a_shard(2, "elsewhere.tar", "layout moved", 2),
        a_shard(3, "changed.tar", "layout other", 2),
        a_shard(4, "copy.tar", "layout same", 2),
        a_shard(5, "copy-of-changed.tar", "layout changed", 2),
    ]
    found, changed = match_view_shards(parts, other_shards)

    assert sorted(found) == [1, 2]
    assert changed == ("changed.tar", "gone.tar")


def a_viewed(root: Path) -> str:
    path = some_shards(root, 4)
    index(path)
    split_by_ratios(path, {"train": 1, "val": 1}, by="sample")
    create_view(path, "even", ViewDefinition(where="position % 2 = 0"))
    return path


def test_view_is_found_in_rebuilt_catalog(tmp_path: Path) -> None:
    root = a_viewed(tmp_path / "data")
    place = locate(root)
    before = read_view_samples(place, "even")
    os.rename(tmp_path / "data" / "shard-000.tar", tmp_path / "data" / "zzz.tar")
    for name in os.listdir(place.meta):
        if name != "ledger.sqlite" and os.path.isfile(os.path.join(place.meta, name)):
            os.unlink(os.path.join(place.meta, name))
    index(root)

    paths = {shard.id: shard.path for shard in read_shards(place.catalog_path)}
    after = {paths[shard]: part.bits for shard, part in read_view_samples(place, "even").items()}
    assert sorted(after) == ["shard-001.tar", "shard-002.tar", "shard-003.tar", "zzz.tar"]
    assert set(after.values()) == {part.bits for part in before.values()}


def test_shard_changed_under_view_is_reported(tmp_path: Path) -> None:
    root = a_viewed(tmp_path)
    rewrite_shard(tmp_path / "shard-002.tar", samples(100, 5))
    index(root)

    with pytest.raises(CatalogError, match=r"1 shard that changed .*: shard-002\.tar") as caught:
        read_view_samples(locate(root), "even")
    assert caught.value.code == "WDS331"
    assert f"wdsctl view refresh {root} even" in caught.value.hint
    with open_dataset(root) as dataset:
        assert len(open_view(dataset, "even").selection) == 3


def test_missing_view_is_refused_with_existing_names(tmp_path: Path) -> None:
    root = a_viewed(tmp_path)
    with pytest.raises(InputError, match="no view 'evne'; it has even") as caught:
        read_view_samples(locate(root), "evne")
    assert (caught.value.code, caught.value.hint) == ("WDS330", "did you mean even?")


def test_splits_and_whole_catalog_are_selections_too(tmp_path: Path) -> None:
    root = a_viewed(tmp_path)
    place = locate(root)
    everything = select_all(read_shards(place.catalog_path))
    train, val = select_split(place, "train"), select_split(place, "val")

    assert intersect_selections(everything, train) == train
    assert intersect_selections(train, val) == {}
    assert sum(part.samples for part in (*train.values(), *val.values())) == 20
