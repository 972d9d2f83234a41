"""Arguments of a loader beside its dataset, compatible with Energon's loaders."""

from __future__ import annotations

from typing import Any

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_savable_loader, get_train_dataset
from wdsctl.loader.loader import IGNORED_ENERGON_OPTIONS

pytestmark = pytest.mark.usefixtures("unopened_datasets")


@pytest.mark.parametrize("name", sorted(IGNORED_ENERGON_OPTIONS))
def test_get_savable_loader_ignores_options_of_energon_loaders(name: str) -> None:
    options: Any = {name: 1}

    assert isinstance(get_savable_loader(get_train_dataset("anywhere"), **options), Loader)


def test_get_loader_refuses_unknown_argument_by_name() -> None:
    with pytest.raises(UsageError, match="no argument 'checkpoint_every_second'") as raised:
        get_loader(get_train_dataset("anywhere"), checkpoint_every_second=1)

    assert raised.value.hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("batch_size", "pass batch_size to get_train_dataset"),
        ("num_workers", r"pass worker_config=WorkerConfig\(num_workers=...\) to get_train_dataset"),
    ],
)
def test_get_loader_names_where_argument_of_dataset_belongs(name: str, hint: str) -> None:
    options: Any = {name: 2}

    with pytest.raises(UsageError, match=hint):
        get_loader(get_train_dataset("anywhere"), **options)


def test_get_savable_loader_refuses_worker_config_other_than_that_of_dataset() -> None:
    dataset = get_train_dataset("anywhere", worker_config=WorkerConfig(1, 2, 3))

    assert isinstance(get_savable_loader(dataset, worker_config=WorkerConfig(1, 2, 3)), Loader)
    with pytest.raises(UsageError, match="differs from that of its dataset"):
        get_savable_loader(dataset, worker_config=WorkerConfig(0, 2, 3))


def test_get_loader_takes_prefetch_factor_like_worker_config() -> None:
    dataset = get_train_dataset("anywhere")

    assert isinstance(get_loader(dataset, prefetch_factor=2), Loader)
    with pytest.raises(UsageError, match="prefetch_factor is 0"):
        get_loader(dataset, prefetch_factor=0)
