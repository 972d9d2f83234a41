"""Single facts of a published catalog and its ledger, each over a connection of its own."""

from __future__ import annotations

from wdsctl.core.catalog.ledger import Ledger, StoredView, ViewShard
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.views import selections
from wdsctl.core.views.selections import SampleSelection


def read_current_generation(path: str) -> int:
    with Catalog.open(path) as catalog:
        return catalog.generation


def has_splits(path: str) -> bool:
    with Catalog.open(path) as catalog:
        return catalog.has_splits


def read_shards(path: str) -> list[ShardRow]:
    with Catalog.open(path) as catalog:
        return catalog.shards()


def read_split(path: str, name: str) -> list[SplitShard]:
    with Catalog.open(path) as catalog:
        return catalog.split(name)


def read_views(path: str) -> list[StoredView]:
    with Ledger.open_for_views(path) as ledger:
        return ledger.views()


def read_view(path: str, name: str) -> tuple[StoredView, list[ViewShard]] | None:
    with Ledger.open_for_views(path) as ledger:
        return ledger.view(name)


def select_split(location: DatasetLocation, name: str) -> SampleSelection:
    with OpenDataset(location) as dataset:
        return selections.select_split(dataset, name)


def read_view_samples(location: DatasetLocation, name: str) -> SampleSelection:
    with OpenDataset(location) as dataset:
        return selections.read_view_samples(dataset, name)
