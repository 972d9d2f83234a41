from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards, split_by_ratios
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.opened.handle import open_dataset


def test_handle_reads_the_same_catalog_until_refresh(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    with open_dataset(root) as dataset:
        before = dataset.catalog.splits()
        split_by_ratios(root, {"train": 1.0})

        assert dataset.catalog.splits() == before == []
        dataset.refresh()
        assert [split.name for split in dataset.catalog.splits()] == ["train"]
        catalog = dataset.catalog
        dataset.refresh()
        assert dataset.catalog is catalog, "an unchanged file stays open"


def test_state_of_handle_is_none_without_readable_catalog(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    with open_dataset(root) as dataset:
        assert dataset.state() is None
        index(root)
        assert dataset.state() == {"generation": 1, "shards": 2, "samples": 10}
        Path(dataset.location.catalog_path).write_bytes(b"no catalog")
        dataset.refresh()
        assert dataset.state() is None


def test_handle_reports_missing_catalog_at_every_use(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    with open_dataset(root) as dataset:
        for _ in range(2):
            with pytest.raises(CatalogError, match="WDS301"):
                _ = dataset.catalog
        index(root)
        assert dataset.catalog.generation == 1


def test_handle_of_dataset_without_config_has_defaults(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with open_dataset(root) as dataset:
        Path(dataset.location.config_path).unlink(missing_ok=True)
        assert dataset.config == DatasetConfig()
        text = "sample_type: CrudeSample\nkey_until: first-dot\n"
        Path(dataset.location.config_path).write_text(text, encoding="utf-8")
        dataset.refresh()
        assert dataset.config.key_until == "first-dot"
