"""Tests that need a GPU; they are skipped elsewhere, where tests without a GPU cover the same code."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from tests.core.job_states import job
from tests.loader.datasets import Raw, a_dataset, numbered
from wdsctl.loader import WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.distributed import all_ranks, any_rank, gather_states, scatter_states

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


class Tensors(Raw):
    def encode_sample(self, sample: Any) -> Any:
        return {**sample, "number": torch.tensor(int(sample["__key__"]))}


def batches(path: str, workers: int, *, pin_memory: bool = False) -> list[Any]:
    config = WorkerConfig(rank=0, world_size=1, num_workers=workers)
    dataset = get_train_dataset(path, batch_size=2, task_encoder=Tensors(), worker_config=config)
    with get_loader(dataset, pin_memory=pin_memory) as loader:
        return list(islice(loader, 8))


@pytest.mark.parametrize("workers", [0, 2])
def test_pinned_batches_can_be_moved_to_gpu(tmp_path: Path, workers: int) -> None:
    path = a_dataset(tmp_path, 8, shard_samples=4, parts=numbered)

    expected = [batch["number"].tolist() for batch in batches(path, workers)]
    pinned = batches(path, workers, pin_memory=True)
    moved = [batch.to("cuda", non_blocking=True) for batch in pinned]
    torch.cuda.synchronize()

    assert all(batch["number"].is_pinned() for batch in pinned)
    assert {batch["number"].device.type for batch in moved} == {"cuda"}
    assert [batch["number"].tolist() for batch in moved] == expected


def test_workers_start_and_stop_while_gpu_is_in_use(tmp_path: Path) -> None:
    path = a_dataset(tmp_path, 8, shard_samples=4, parts=numbered)
    weights = torch.arange(1 << 20, device="cuda", dtype=torch.float64)
    total = float(weights.sum())

    keys = [batch["__key__"] for batch in batches(path, 2)]

    assert keys == [batch["__key__"] for batch in batches(path, 0)]
    assert float(weights.sum()) == total
    assert float((weights.cpu() - torch.arange(1 << 20)).abs().max()) == 0


def test_states_are_gathered_and_scattered_over_nccl(tmp_path: Path) -> None:
    torch.cuda.set_device(0)
    distributed.init_process_group("nccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        states = job(1, lanes=2, drawn=8)
        assert gather_states(states[0]) == states
        assert scatter_states(states) == states[0]
        assert (any_rank(True), all_ranks(True)) == (True, True)
        assert (any_rank(False), all_ranks(False)) == (False, False)
    finally:
        distributed.destroy_process_group()
