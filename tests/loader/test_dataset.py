"""What a recipe takes and what it refuses, before anything is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.datasets import Raw
from wdsctl.core.errors import UsageError
from wdsctl.loader import get_train_dataset, get_val_dataset


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": -1},
        {"batch_size": "32"},
        {"batch_size": 2.5},
        {"shuffle_buffer_size": -1},
        {"max_samples_per_sequence": 0},
        {"parallel_shard_iters": 0},
        {"lanes": 0},
        {"most_waiting": None},
        {"most_waiting": 0},
        {"seed": None},
        {"seed": "x"},
        {"raw": "text"},
    ],
    ids=str,
)
def test_sizes_that_make_no_sense_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(options))} is ") as raised:
        get_train_dataset("data", **options)

    assert raised.value.hint


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"seed": 1.5}], ids=str)
def test_a_validation_refuses_them_too(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(options))} is "):
        get_val_dataset("data", **options)


def test_what_is_left_out_is_chosen_later() -> None:
    dataset = get_train_dataset("data")

    assert (dataset.batch_size, dataset.lanes, dataset.max_samples_per_sequence) == (None, None, None)
    assert (dataset.split_part, dataset.shuffle_buffer_size, dataset.parallel_shard_iters) == ("train", 1000, 1)


def test_paths_may_be_of_pathlib_and_numbers_of_numpy() -> None:
    dataset: Any = get_train_dataset(Path("data"), catalog=Path("cat"), seed=np.int64(3), lanes=np.int32(4))  # type: ignore[arg-type]

    assert (dataset.path, dataset.catalog, dataset.seed, dataset.lanes) == ("data", "cat", 3, 4)
    assert type(dataset.seed) is type(dataset.lanes) is int


def test_views_are_for_parts_that_are_not_decoded() -> None:
    with pytest.raises(UsageError, match="not decoded"):
        get_train_dataset("data", raw="view")

    assert get_train_dataset("data", raw="view", task_encoder=Raw()).raw == "view"
