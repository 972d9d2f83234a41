"""Batches for transformers' Trainer, which skips their numbers at a resume. Needs transformers, not accelerate."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from tests.loader.datasets import Raw, a_dataset
from wdsctl.loader import get_loader, get_train_dataset
from wdsctl.loader.integrations.dcp import WholeJob

pytest.importorskip("transformers", reason="the extra `examples` installs it")

from wdsctl.loader.integrations.transformers import (
    CountedBatches,
)

LENGTH = 6


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_dataset(tmp_path_factory.mktemp("data") / "shards", 24)


def job_of(path: str, **options: Any) -> WholeJob:
    return WholeJob(get_loader(get_train_dataset(path, batch_size=4, lanes=6, task_encoder=Raw(), **options)))


def keys(batches: Any, count: int | None = None) -> list[Any]:
    return [batch.__key__ for batch in islice(batches, count)]


def skip_numbers(batches: CountedBatches, skipped: int) -> Any:
    """The batches of the numbers from `skipped` on, as Accelerate's `skip_first_batches` makes them for a Trainer."""
    numbers: Any = batches.batch_sampler
    return DataLoader(batches.dataset, batch_sampler=islice(numbers, skipped, None), collate_fn=batches.collate_fn)


def test_resumed_job_skips_numbers_and_no_batch(path: str) -> None:
    job = job_of(path, virtual_epoch_length=LENGTH)
    truth = keys(job_of(path), 2 * LENGTH)

    first = keys(CountedBatches(job), 4)
    resumed = job_of(path, virtual_epoch_length=LENGTH)
    resumed.load_state_dict(job.state_dict())
    rest = keys(skip_numbers(CountedBatches(resumed), 4))

    assert first + rest + keys(CountedBatches(resumed)) == truth


def test_epoch_of_trainer_continues_over_end_of_virtual_epoch(path: str) -> None:
    """In a second training without a resume, the trainer counts from 0, wherever the loader is."""
    job = job_of(path, virtual_epoch_length=LENGTH)
    truth = keys(job_of(path), 3 * LENGTH)

    found = keys(CountedBatches(job), 4)
    found += [key for _ in range(2) for key in keys(CountedBatches(job))]

    assert found == truth[: 4 + 2 * LENGTH]


def test_pass_ends_epoch_of_trainer(path: str, caplog: pytest.LogCaptureFixture) -> None:
    job = job_of(path, repeat=False, uneven="drop")

    passes = [keys(CountedBatches(job)) for _ in range(2)]

    assert passes == [keys(job_of(path), LENGTH), keys(job_of(path), 2 * LENGTH)[LENGTH:]]
    assert not caplog.records


def test_other_batch_than_trainer_counted_causes_warning(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """After another number of accumulated batches, a trainer counts other batches than it has trained."""
    job = job_of(path, repeat=False, uneven="drop")
    keys(CountedBatches(job), 2)

    rest = keys(skip_numbers(CountedBatches(job), 4))

    assert rest == keys(job_of(path), 4)[2:]
    assert "the trainer is at batch 4 of an epoch of 6, and the training data at batch 2" in caplog.text


def test_counted_batches_have_length_of_job(path: str) -> None:
    assert len(CountedBatches(job_of(path, virtual_epoch_length=LENGTH))) == LENGTH
    with pytest.raises(TypeError):
        len(CountedBatches(job_of(path)))


def test_loop_leaves_generator_of_training_alone(path: str) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()

    keys(CountedBatches(job_of(path)), 3)

    assert torch.equal(torch.get_rng_state(), before)
