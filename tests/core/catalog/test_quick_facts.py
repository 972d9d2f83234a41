from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards, split_by_ratios
from tests.core.catalog.readers import has_splits, read_current_generation
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import (
    QuarantineEntry,
    add_to_quarantine,
    delete_quarantine_entries,
)
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import has_quarantine, index
from wdsctl.core.opened.handle import OpenDataset


@pytest.fixture
def place(tmp_path: Path) -> DatasetLocation:
    root = some_shards(tmp_path, 2)
    index(root)
    return locate(root)


def test_has_splits_is_true_after_split(place: DatasetLocation) -> None:
    assert not has_splits(place.catalog_path)
    split_by_ratios(place.root, {"train": 1, "val": 1})
    assert has_splits(place.catalog_path)


def test_has_quarantine_is_true_until_release(place: DatasetLocation) -> None:
    assert not has_quarantine(OpenDataset(place))
    with Ledger.open(place.ledger_path) as ledger:
        add_to_quarantine(ledger, [QuarantineEntry(shard="a.tar", layout_hash="x", code="WDS102", run_id=1)])
    with OpenDataset(place) as dataset:
        assert has_quarantine(dataset)
    with Ledger.open(place.ledger_path) as ledger:
        delete_quarantine_entries(ledger)
    with OpenDataset(place) as dataset:
        assert not has_quarantine(dataset)


def test_has_quarantine_is_true_for_unreadable_ledger(place: DatasetLocation) -> None:
    Path(place.ledger_path).write_bytes(b"no database" * 100)
    assert has_quarantine(OpenDataset(place))


@pytest.mark.parametrize(("content", "code"), [(None, "WDS301"), (b"no catalog", "WDS302")])
def test_missing_or_invalid_catalog_raises_standard_error(tmp_path: Path, content: bytes | None, code: str) -> None:
    path = tmp_path / "catalog.sqlite"
    if content is not None:
        path.write_bytes(content)
    for read in (read_current_generation, has_splits):
        with pytest.raises(CatalogError) as caught:
            read(str(path))
        assert caught.value.code == code
