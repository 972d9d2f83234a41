"""Datasets and sources on the Hugging Face Hub, read from a fake server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build import a_folder, some_shards
from tests.core.prepare.test_remote_sources import SOURCES, assert_same_datasets, run_prepare
from tests.prepare_requests import prepare_request
from tests.stores.hub import hub_server
from tests.stores.servers import in_use
from wdsctl.core.dataset.root_spec import RootSpec
from wdsctl.core.errors import InputError, PermissionDenied
from wdsctl.core.index.index import index_dataset
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.loader import WorkerConfig, get_savable_loader, get_train_dataset


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the repository that serves the folder `raw`."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    (tmp_path / "raw").mkdir()
    with hub_server(tmp_path / "raw") as store, in_use(store):
        yield store.root


@pytest.mark.parametrize("name", SOURCES)
def test_prepare_from_hub_gives_shards_of_local_source(name: str, hub: str, tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", SOURCES[name])

    run_prepare(source, tmp_path / "here")
    run_prepare(hub, tmp_path / "there", workers=2)

    assert_same_datasets(tmp_path / "there", tmp_path / "here")


@pytest.mark.parametrize("subpath", ["", "/d", "@main"])
def test_hub_repository_of_tars_is_a_dataset(hub: str, tmp_path: Path, subpath: str) -> None:
    some_shards(tmp_path / "raw" / subpath.strip("/@main"), 2)

    report = prepare(f"{hub}{subpath}", None, prepare_request(accept_type=True))
    dataset = get_train_dataset(f"{hub}{subpath}", batch_size=5, worker_config=WorkerConfig(0, 1, 0))
    loader = get_savable_loader(dataset)

    assert report.index is not None
    assert report.index.samples == 10
    batches = iter(loader)
    assert len({key for _ in range(2) for key in next(batches).__key__}) == 10


def test_table_in_hub_repository_refers_to_files_in_its_folder(hub: str, tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", SOURCES["csv"])

    run_prepare(f"{source}/t.csv", tmp_path / "here")
    run_prepare(f"{hub}/t.csv", tmp_path / "there")

    assert_same_datasets(tmp_path / "there", tmp_path / "here")


def test_prepare_refuses_missing_hub_repository(hub: str, tmp_path: Path) -> None:
    for url in (f"{hub}-other", f"{hub}/nothing"):
        with pytest.raises(InputError):
            run_prepare(url, tmp_path / "made")


def test_hub_repository_that_needs_token_raises_permission_denied(tmp_path: Path) -> None:
    some_shards(tmp_path, 1)
    with hub_server(tmp_path, token="of-nobody") as store, in_use(store), pytest.raises(PermissionDenied):  # noqa: S106
        index_dataset(RootSpec(store.root), IndexRequest())
