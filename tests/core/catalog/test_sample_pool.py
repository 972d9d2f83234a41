from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import some_shards, split_by_ratios
from wdsctl.core.catalog.browse import CatalogBrowser
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.samples import StoredSamples, draw_numbers, open_sample_pool
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.inspect.histograms import measure_sizes


@given(count=st.integers(0, 50), size=st.integers(0, 40), seed=st.integers(0, 9))
def test_draw_numbers_is_unique_and_deterministic(count: int, size: int, seed: int) -> None:
    numbers = draw_numbers(count, size, seed)
    assert numbers == sorted(set(numbers)) == draw_numbers(count, size, seed)
    assert len(numbers) == min(count, size)
    assert all(0 <= number < size for number in numbers)


def test_draw_numbers_matches_golden_values() -> None:
    """A seed in a report must select the same samples in later releases."""
    assert draw_numbers(5, 1000, 1) == [137, 582, 782, 821, 867]


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_sample_pool_of_split_is_in_tar_order(tmp_path: Path, by: str) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by=by)  # type: ignore[arg-type]
    place = locate(root)
    with Catalog.open(place.catalog_path) as catalog:
        browser = CatalogBrowser(catalog)
        stored = StoredSamples(place, browser.generation)
        for name in ("train", "val"):
            members = browser.members(name)
            assert members is not None
            pool = open_sample_pool(place, browser, members)
            ids = [pool.at(number).id for number in range(len(pool))]
            assert ids == [sample.id for sample in stored.samples() if members.has(sample.id)] == sorted(ids)
            assert measure_sizes(stored.offsets, members).samples == len(pool) == {"train": 15, "val": 5}[name]


def test_browser_and_stored_samples_return_equal_parts(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    place = locate(root)
    with Catalog.open(place.catalog_path) as catalog:
        browser = CatalogBrowser(catalog)
        stored = StoredSamples(place, browser.generation)
        expected = [(each.id, each.key, each.shard, each.parts) for each in browser.samples()]
        assert expected == [(each.id, each.key, each.shard, each.parts) for each in stored.samples()]
        assert [each.key for each in stored.samples("00000")] == [each.key for each in browser.samples("00000")]
        assert stored.find("000007") == [stored.at(7)]
