from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import some_shards
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import QuarantineEntry, add_to_quarantine, delete_quarantine_entries
from wdsctl.core.catalog.ledger_file import has_quarantine
from wdsctl.core.catalog.read import has_splits, read_current_generation
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.split.split import split_by_ratios


@pytest.fixture
def place(tmp_path: Path) -> DatasetLocation:
    root = some_shards(tmp_path, 2)
    index(root)
    return locate(root)


def test_a_catalog_has_splits_once_some_were_made(place: DatasetLocation) -> None:
    assert not has_splits(place.catalog)
    split_by_ratios(place.root, {"train": 1, "val": 1})
    assert has_splits(place.catalog)


def test_a_quarantine_is_there_until_it_is_released(place: DatasetLocation) -> None:
    assert not has_quarantine(place.ledger)
    with Ledger.open(place.ledger) as ledger:
        add_to_quarantine(ledger, [QuarantineEntry(shard="a.tar", layout_hash="x", code="WDS102", run_id=1)])
    assert has_quarantine(place.ledger)
    with Ledger.open(place.ledger) as ledger:
        delete_quarantine_entries(ledger)
    assert not has_quarantine(place.ledger)


def test_a_quarantine_that_cannot_be_read_may_be_one(place: DatasetLocation) -> None:
    assert not has_quarantine(f"{place.ledger}-of-another-name")
    Path(place.ledger).write_bytes(b"no database" * 100)
    assert has_quarantine(place.ledger)


@pytest.mark.parametrize(("content", "code"), [(None, "WDS301"), (b"no catalog", "WDS302")])
def test_a_catalog_that_is_none_is_said_as_everywhere(tmp_path: Path, content: bytes | None, code: str) -> None:
    path = tmp_path / "catalog.sqlite"
    if content is not None:
        path.write_bytes(content)
    for ask in (read_current_generation, has_splits):
        with pytest.raises(CatalogError) as caught:
            ask(str(path))
        assert caught.value.code == code
