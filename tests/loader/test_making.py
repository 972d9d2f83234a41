"""What a loader takes beside its dataset, as Energon's loaders do."""

from __future__ import annotations

from typing import Any

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_savable_loader, get_train_dataset
from wdsctl.loader.loader import IGNORED_ENERGON_OPTIONS

pytestmark = pytest.mark.usefixtures("unopened")


@pytest.mark.parametrize("name", sorted(IGNORED_ENERGON_OPTIONS))
def test_what_energons_loaders_need_is_taken_without_effect(name: str) -> None:
    given: Any = {name: 1}

    assert isinstance(get_savable_loader(get_train_dataset("anywhere"), **given), Loader)


def test_any_other_argument_of_a_loader_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError, match="no argument 'checkpoint_every_second'") as raised:
        get_loader(get_train_dataset("anywhere"), checkpoint_every_second=1)

    assert raised.value.hint


def test_a_loader_may_be_given_the_worker_config_of_its_dataset_and_no_other() -> None:
    dataset = get_train_dataset("anywhere", worker_config=WorkerConfig(1, 2, 3))

    assert isinstance(get_savable_loader(dataset, worker_config=WorkerConfig(1, 2, 3)), Loader)
    with pytest.raises(UsageError, match="differs from that of its dataset"):
        get_savable_loader(dataset, worker_config=WorkerConfig(0, 2, 3))


def test_a_loader_takes_a_prefetch_factor_as_the_worker_config_does() -> None:
    dataset = get_train_dataset("anywhere")

    assert isinstance(get_loader(dataset, prefetch_factor=2), Loader)
    with pytest.raises(UsageError, match="prefetch_factor is 0"):
        get_loader(dataset, prefetch_factor=0)
