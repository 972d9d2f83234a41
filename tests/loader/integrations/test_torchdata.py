"""IterableBatches in torch's DataLoader: divided by `shard`, saved and resumed."""

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


def make_dataloader(dataset: IterableBatches) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=None, num_workers=0)


def test_torch_dataloader_returns_batches_of_loader(path: str) -> None:
    expected = keys(get_loader(batches(path).dataset), 5)

    assert keys(make_dataloader(batches(path)), 5) == expected


def test_shard_divides_batches_like_ranks(path: str) -> None:
    ranks = [keys(make_dataloader(batches(path).shard(3, rank)), 2) for rank in range(3)]

    assert [batch for step in zip(*ranks, strict=True) for batch in step] == keys(batches(path), 6)


def test_restored_dataset_continues_with_next_batch(path: str) -> None:
    dataset = batches(path)
    keys(make_dataloader(dataset), 3)

    resumed = batches(path)
    resumed.load_state_dict(dataset.state_dict())

    assert keys(make_dataloader(resumed), 2) == keys(batches(path), 5)[3:]


def test_shard_is_refused_after_first_batch(path: str) -> None:
    dataset = batches(path)
    keys(dataset, 1)

    with pytest.raises(UsageError, match="after its first batch"):
        dataset.shard(2, 0)
    dataset.close()


def test_len_is_pass_length_and_undefined_for_endless_dataset(path: str) -> None:
    assert len(batches(path, virtual_epoch_length=7)) == 7
    assert batches(path)
    with pytest.raises(TypeError):
        len(batches(path))


def test_several_torch_dataloader_workers_are_refused(path: str) -> None:
    validation = IterableBatches(get_val_dataset(path, split_part="train", batch_size=4, task_encoder=Raw()))
    loader = DataLoader(validation, batch_size=None, num_workers=2, multiprocessing_context="fork")

    with pytest.raises(RuntimeError, match="WDS517: each of 2 workers of torch's DataLoader"):
        keys(loader, 1)
