from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import a_dataset, some_shards, split_by_ratios
from tests.core.dumps import catalog_of
from wdsctl.core.catalog.browse import CatalogBrowser, prefix_end
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import SplitMembers
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index

KEYS = ("a", "a/1", "b", "b2", "ü", "'; DROP TABLE sample; --", "%_", "\U0001f600")


@pytest.fixture
def catalog_path(tmp_path: Path) -> str:
    """The catalog of unordered keys, one of them in two shards."""
    root = a_dataset(
        tmp_path / "d",
        {"x.tar": {f"{key}.txt": b"1" for key in reversed(KEYS)}, "y.tar": {"b.txt": b"2", "b.json": b"3"}},
    )
    index(root)
    return str(catalog_of(root))


@given(prefix=st.text(min_size=1, max_size=4), text=st.text(max_size=6))
def test_prefix_end_bounds_texts_with_prefix(prefix: str, text: str) -> None:
    if any(0xD800 <= ord(letter) < 0xE000 for letter in prefix + text):
        return
    end = prefix_end(prefix)
    low, encoded = prefix.encode(), text.encode()
    assert (low <= encoded and (end is None or encoded < end.encode())) == text.startswith(prefix)


def test_find_returns_literal_key_in_all_shards(catalog_path: str) -> None:
    with Catalog.open(catalog_path) as catalog:
        browser = CatalogBrowser(catalog)
        assert [(each.shard, each.position) for each in browser.find("b")] == [("x.tar", 5), ("y.tar", 0)]
        assert [part.name for part in browser.find("b")[1].parts] == ["txt", "json"]
        for key in KEYS:
            assert [each.key for each in browser.find(key)] == [key] * (2 if key == "b" else 1)
        assert browser.find("x' OR '1'='1") == []


def test_samples_are_in_tar_order_and_with_prefix_by_key(catalog_path: str) -> None:
    with Catalog.open(catalog_path) as catalog:
        browser = CatalogBrowser(catalog)
        assert [each.key for each in browser.samples()] == [*reversed(KEYS), "b"]
        assert [each.key for each in browser.samples("b")] == ["b", "b", "b2"]
        assert [key for _, key in browser.keys("b")] == ["b", "b", "b2"]
        assert [each.key for each in browser.samples("%")] == ["%_"]
        assert [line.path for line in browser.shards("y")] == ["y.tar"]
        assert browser.neighbours("a/2") == ["a/1", "b"]


def test_unfinished_listing_raises_no_error_after_close(catalog_path: str) -> None:
    with Catalog.open(catalog_path) as catalog:
        browser = CatalogBrowser(catalog)
        rest = browser.samples()
        next(rest)
    del rest  # the catalog is closed by now: an error would be reported by pytest as unraisable


def test_split_members_match_bits_of_samples(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    split_by_ratios(root, {"train": 2, "val": 1}, by="sample")
    with Catalog.open(str(catalog_of(root))) as catalog:
        browser = CatalogBrowser(catalog)
        train, val = browser.members("train"), browser.members("val")
        assert train is not None
        assert val is not None
        for sample in browser.samples():
            assert [train.has(sample.id), val.has(sample.id)].count(True) == 1
            assert browser.splits_of(sample.id) == ["train" if train.has(sample.id) else "val"]
        assert train.count(browser.shard_sample_counts()) + val.count(browser.shard_sample_counts()) == 15
        assert browser.members("test") is None
    assert not SplitMembers({1: b"\x01"}).has(1 << 28 | 9)


def test_browser_reports_damaged_catalog(catalog_path: str) -> None:
    with open(catalog_path, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(os.path.getsize(catalog_path) - 4096))
    with pytest.raises(CatalogError, match="WDS302"), Catalog.open(catalog_path) as catalog:
        list(CatalogBrowser(catalog).samples())
