"""What a training reads and how: the recipe, before anything is opened. `get_loader` runs it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.task_encoder import DefaultTaskEncoder, TaskEncoder
from wdsctl.loader.worker_config import WorkerConfig

AnyEncoder = TaskEncoder[Any, Any, Any, Any]

WINDOW = 1000  # samples shuffled together, where nobody says otherwise
LANES_A_RANK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainDataset:
    """An endless shuffled stream. None means: choose well. What was chosen is part of the plan, and of its states."""

    path: str
    split_part: str
    batch_size: int | None
    shuffle_buffer_size: int | None
    max_samples_per_sequence: int | None
    parallel_shard_iters: int
    shuffle: bool
    seed: int
    lanes: int | None
    task_encoder: AnyEncoder
    worker_config: WorkerConfig
    catalog: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValDataset:
    """Finite passes in the order of the split, every one the same."""

    path: str
    split_part: str
    batch_size: int | None
    batch_drop_last: bool
    seed: int
    task_encoder: AnyEncoder
    worker_config: WorkerConfig
    catalog: str | None


def get_train_dataset(
    path: str | os.PathLike[str],
    *,
    batch_size: int | None = None,
    split_part: str = "train",
    worker_config: WorkerConfig | None = None,
    shuffle_buffer_size: int | None = WINDOW,
    max_samples_per_sequence: int | None = None,
    parallel_shard_iters: int = 1,
    shuffle: bool = True,
    seed: int = 0,
    lanes: int | None = None,
    task_encoder: AnyEncoder | None = None,
    catalog: str | os.PathLike[str] | None = None,
) -> TrainDataset:
    """The training split of a prepared dataset, shuffled anew in every epoch, without end.

    `batch_size`: samples a batch; None hands samples out one by one. `shuffle_buffer_size`: samples shuffled together;
    None, 0 or 1 keep neighbours together. No buffer is filled: it costs no memory and no time at the start.
    `max_samples_per_sequence`: neighbouring samples that are read together, by default 16 from local disks and 128 over
    a network. `parallel_shard_iters`: so many such runs at least are shuffled together. `seed`: another seed, another
    order. `lanes`: streams that the job is made of, by default 8 a rank; a job that will grow may ask for more.
    `catalog`: its folder, where it is not in the dataset. Nothing is opened yet.
    """
    encoder, workers = task_encoder or DefaultTaskEncoder(), worker_config or WorkerConfig.default_worker_config()
    sizes = {"batch_size": batch_size, "max_samples_per_sequence": max_samples_per_sequence, "lanes": lanes}
    _check_sizes({**sizes, "parallel_shard_iters": parallel_shard_iters})
    if shuffle_buffer_size is not None and shuffle_buffer_size < 0:
        raise UsageError(f"shuffle_buffer_size is {shuffle_buffer_size}", hint="leave it out, or give 1000 or more")
    return TrainDataset(
        path=os.fspath(path),
        split_part=split_part,
        batch_size=batch_size,
        shuffle_buffer_size=shuffle_buffer_size,
        max_samples_per_sequence=max_samples_per_sequence,
        parallel_shard_iters=parallel_shard_iters,
        shuffle=shuffle,
        seed=seed,
        lanes=lanes,
        task_encoder=encoder,
        worker_config=workers,
        catalog=None if catalog is None else os.fspath(catalog),
    )


def get_val_dataset(
    path: str | os.PathLike[str],
    *,
    batch_size: int | None = None,
    split_part: str = "val",
    worker_config: WorkerConfig | None = None,
    batch_drop_last: bool = False,
    seed: int = 0,
    task_encoder: AnyEncoder | None = None,
    catalog: str | os.PathLike[str] | None = None,
) -> ValDataset:
    """The validation split, one pass a `for` loop, in its own order, the same in every pass and on any number of ranks.

    Batch b goes to rank b mod world_size, so that the last ranks may have one batch fewer. `batch_drop_last` leaves a
    last, smaller batch out. `seed` is for random numbers in hooks.
    """
    _check_sizes({"batch_size": batch_size})
    return ValDataset(
        path=os.fspath(path),
        split_part=split_part,
        batch_size=batch_size,
        batch_drop_last=batch_drop_last,
        seed=seed,
        task_encoder=task_encoder or DefaultTaskEncoder(),
        worker_config=worker_config or WorkerConfig.default_worker_config(),
        catalog=None if catalog is None else os.fspath(catalog),
    )


def _check_sizes(sizes: dict[str, int | None]) -> None:
    for name, value in sizes.items():
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}", hint="give 1 or more, or leave it out")
