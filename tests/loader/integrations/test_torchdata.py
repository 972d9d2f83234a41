"""Batches through torch's DataLoader: divided by `shard`, saved and resumed."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from torch.utils.data import DataLoader

from tests.loader.datasets import Raw, a_dataset
from wdsctl.core.errors import UsageError
from wdsctl.loader import get_loader, get_train_dataset, get_val_dataset
from wdsctl.loader.integrations.torchdata import IterableBatches


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "shards", 100)


def batches(path: str, **options: Any) -> IterableBatches:
    return IterableBatches(get_train_dataset(path, batch_size=4, lanes=6, task_encoder=Raw(), **options))


def keys(loader: Any, count: int) -> list[Any]:
    return [batch.__key__ for batch in islice(loader, count)]


def through_torch(dataset: IterableBatches) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=None, num_workers=0)


def test_torchs_dataloader_hands_out_the_loaders_batches(path: str) -> None:
    expected = keys(get_loader(batches(path).dataset), 5)

    assert keys(through_torch(batches(path)), 5) == expected


def test_shards_are_the_ranks_of_a_job(path: str) -> None:
    ranks = [keys(through_torch(batches(path).shard(3, rank)), 2) for rank in range(3)]

    assert [batch for step in zip(*ranks, strict=True) for batch in step] == keys(batches(path), 6)


def test_the_state_of_the_dataset_continues_with_the_next_batch(path: str) -> None:
    dataset = batches(path)
    keys(through_torch(dataset), 3)

    resumed = batches(path)
    resumed.load_state_dict(dataset.state_dict())

    assert keys(through_torch(resumed), 2) == keys(batches(path), 5)[3:]


def test_a_dataset_that_has_begun_is_not_divided(path: str) -> None:
    dataset = batches(path)
    keys(dataset, 1)

    with pytest.raises(UsageError, match="after its first batch"):
        dataset.shard(2, 0)
    dataset.close()


def test_its_length_is_that_of_a_pass_and_an_endless_one_has_none(path: str) -> None:
    assert len(batches(path, virtual_epoch_length=7)) == 7
    assert batches(path)
    with pytest.raises(TypeError):
        len(batches(path))


def test_several_workers_of_torch_are_refused(path: str) -> None:
    validation = IterableBatches(get_val_dataset(path, split_part="train", batch_size=4, task_encoder=Raw()))
    loader = DataLoader(validation, batch_size=None, num_workers=2, multiprocessing_context="fork")

    with pytest.raises(RuntimeError, match="WDS517: each of 2 workers of torch's DataLoader"):
        keys(loader, 1)
