from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import sources
from tests.build import some_shards, split_by_ratios
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.lock import lock_dataset
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.index.vacuum import catalog_vacuum
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.staging import change_catalog, stage_catalog
from wdsctl.core.validate.dataset import validate_dataset
from wdsctl.core.validate.request import ValidateRequest


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


def drop_last_shard(root: str) -> None:
    max(Path(root).glob("*.tar")).unlink()
    index(root, missing="drop")


VERBS: dict[str, Callable[[str, int], object]] = {
    "append": lambda root, step: some_shards(Path(root), 1, first=step + 10),
    "index": lambda root, _: index(root),
    "rebuild": lambda root, _: index(root, rebuild=True),
    "drop": lambda root, _: drop_last_shard(root),
    "split": lambda root, step: split_by_ratios(
        root, {"train": step % 3 + 1, "val": 1}, by="sample", allow_split_changes=True
    ),
    "vacuum": lambda root, _: catalog_vacuum(root, generations=1),
    "quarantine": lambda root, _: validate_dataset(root, ValidateRequest(quarantine=True)),
}


def read_answers(dataset: OpenDataset) -> list[object]:
    """What a handle says about a dataset, over catalog, ledger and dataset.yaml."""
    catalog = dataset.catalog
    return [
        dataset.state(),
        [row[:5] for row in catalog.shards()],
        [(split.name, split.samples) for split in catalog.splits()],
        sum(1 for _ in dataset.browser.samples()),
        dataset.ledger.rows("SELECT count(*) FROM run"),
        dataset.config.split,
    ]


@pytest.mark.parametrize("seed", range(6))
def test_refreshed_handle_answers_as_new_one(tmp_path: Path, seed: int) -> None:
    """Random commands between two handles that stay open, the same for each seed."""
    root, draw = some_shards(tmp_path, 3), random.Random(seed)
    index(root)
    with open_dataset(root) as one, open_dataset(root) as other:
        for step in range(12):
            VERBS[draw.choice([*VERBS])](root, step)
            handle = draw.choice([one, other])
            handle.refresh()
            with open_dataset(root) as new:
                assert read_answers(handle) == read_answers(new)
            if draw.random() < 0.3:
                other.catalog.shards()  # leaves it behind the next command


def test_command_writes_through_handle_that_reads(tmp_path: Path) -> None:
    """What a command reads after it has changed the catalog is the change, staged or published."""
    root = some_shards(tmp_path, 2)
    index(root)
    with open_dataset(root) as dataset, lock_dataset(dataset.location):
        before = dataset.catalog
        with stage_catalog(dataset) as stage:
            with stage.begin() as draft:
                draft.exclude = ("a*",)
            assert dataset.catalog.exclude_patterns() == ("a*",)
            with change_catalog(dataset) as draft:
                draft.exclude = ("b*",)
            assert dataset.catalog.exclude_patterns() == ("b*",)
            with open_dataset(root) as reader:
                assert reader.catalog.exclude_patterns() == ()
        assert dataset.catalog is not before
        assert dataset.catalog.exclude_patterns() == ("b*",)


def test_draft_that_a_step_spoiled_is_not_published(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)

    def spoil(dataset: OpenDataset) -> None:
        with stage_catalog(dataset) as stage:
            with stage.begin() as draft:
                draft.exclude = ("a*",)
            with change_catalog(dataset) as draft:
                draft.remove_shard(1)
                raise ZeroDivisionError

    with open_dataset(root) as dataset, lock_dataset(dataset.location):
        with pytest.raises(ZeroDivisionError):
            spoil(dataset)
        assert len(dataset.catalog.shards()) == 2
        assert dataset.catalog.exclude_patterns() == ()


#: Modules beside `core/catalog` and `core/opened` that open a catalog or a ledger themselves.
OWN_CONNECTIONS = {
    "core/index/changes.py": "the ledger, which is published when the shards are renamed",
    "core/prepare/prepare.py": "the ledger of a destination that need not exist",
    "core/validate/unit.py": "in the process that checks the shard",
    "core/views/select.py": "rows that are made for the query",
    "core/views/sql_views.py": "the user's SQL, behind a guard",
    "core/views/where.py": "the user's SQL, behind a guard",
    "loader/stores/media_facts.py": "a connection for each thread of a training",
}
OPENERS = ("Catalog.open", "Ledger.open", "NameLookup(", "connect_catalog(", "open_catalog_connection(")


def test_catalogs_and_ledgers_are_opened_by_handle() -> None:
    found = {each for each in sources.modules_with(*OPENERS) if not each.startswith(("core/catalog/", "core/opened/"))}
    assert found == set(OWN_CONNECTIONS)
