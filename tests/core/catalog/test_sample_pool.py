from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import some_shards
from wdsctl.core.catalog.browse import CatalogBrowser
from wdsctl.core.catalog.samples import StoredSamples, draw_numbers, open_sample_pool
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.inspect.histograms import measure_sizes
from wdsctl.core.split.split import split_by_ratios


@given(count=st.integers(0, 50), size=st.integers(0, 40), seed=st.integers(0, 9))
def test_what_is_drawn_is_there_once_and_the_same_for_a_seed(count: int, size: int, seed: int) -> None:
    numbers = draw_numbers(count, size, seed)
    assert numbers == sorted(set(numbers)) == draw_numbers(count, size, seed)
    assert len(numbers) == min(count, size)
    assert all(0 <= number < size for number in numbers)


def test_a_golden_draw_stays_as_it_is() -> None:
    """Who notes a seed in a report wants the same samples from a later release."""
    assert draw_numbers(5, 1000, 1) == [137, 582, 782, 821, 867]


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_a_split_is_numbered_in_tar_order_and_sized_as_it_is(tmp_path: Path, by: str) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by=by)  # type: ignore[arg-type]
    place = locate(root)
    with CatalogBrowser(place.catalog) as browser:
        stored = StoredSamples(place, browser.generation)
        for name in ("train", "val"):
            members = browser.members(name)
            assert members is not None
            pool = open_sample_pool(place, browser, members)
            ids = [pool.at(number).id for number in range(len(pool))]
            assert ids == [sample.id for sample in stored.samples() if members.has(sample.id)] == sorted(ids)
            assert measure_sizes(stored.offsets, members).samples == len(pool) == {"train": 15, "val": 5}[name]


def test_rows_and_offsets_tell_the_same_of_parts(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    place = locate(root)
    with CatalogBrowser(place.catalog) as browser:
        stored = StoredSamples(place, browser.generation)
        told = [(each.id, each.key, each.shard, each.parts) for each in browser.samples()]
        assert told == [(each.id, each.key, each.shard, each.parts) for each in stored.samples()]
        assert [each.key for each in stored.samples("00000")] == [each.key for each in browser.samples("00000")]
        assert stored.find("000007") == [stored.at(7)]
