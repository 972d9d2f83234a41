"""Samples by key or key prefix, from the offsets file alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder
from wdsctl.core.catalog.browse import CatalogBrowser
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.samples import StoredSamples
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index


@pytest.fixture
def stored(tmp_path: Path) -> StoredSamples:
    names = ["b", "é", "ba", "a", "baß", "ab"]
    root = a_folder(tmp_path, {"a.jsonl": "".join(f'{{"id": "{name}"}}\n' for name in names).encode()})
    index(root, key="id")
    place = locate(root)
    with Catalog.open(place.catalog_path) as catalog:
        browser = CatalogBrowser(catalog)
        return StoredSamples(place, browser.generation)


@pytest.mark.parametrize(
    ("prefix", "keys"),
    [
        ("", ["b", "é", "ba", "a", "baß", "ab"]),
        ("b", ["b", "ba", "baß"]),
        ("ba", ["ba", "baß"]),
        ("é", ["é"]),
        ("c", []),
        ("a long one", []),
    ],
)
def test_stored_samples_filters_keys_by_prefix_in_file_order(
    stored: StoredSamples, prefix: str, keys: list[str]
) -> None:
    assert list(stored.keys(prefix)) == keys
    assert [sample.key for sample in stored.samples(prefix)] == keys


@pytest.mark.parametrize(
    ("key", "neighbours"),
    [("aa", ["a", "ab"]), ("", ["a"]), ("zz", ["baß", "é"]), ("ü", ["é"]), ("ba", ["b", "baß"])],
)
def test_neighbours_returns_adjacent_keys_in_sort_order(stored: StoredSamples, key: str, neighbours: list[str]) -> None:
    assert stored.neighbours(key) == neighbours
