"""What a training reads and how: the recipe, before anything is opened. `get_loader` runs it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from wdsctl.core.errors import UsageError
from wdsctl.loader.task_encoder import DefaultTaskEncoder, TaskEncoder
from wdsctl.loader.worker_config import WorkerConfig, whole

Raw = Literal["bytes", "view"]
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
    raw: Raw


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
    raw: Raw


def get_train_dataset(
    path: str | os.PathLike[str],
    *,
    batch_size: int | None = None,
    split_part: str = "train",
    worker_config: WorkerConfig | None = None,
    shuffle_buffer_size: int | None = WINDOW,
    max_samples_per_sequence: int | None = None,
    parallel_shard_iters: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    lanes: int | None = None,
    task_encoder: AnyEncoder | None = None,
    catalog: str | os.PathLike[str] | None = None,
    raw: Raw = "bytes",
) -> TrainDataset:
    """The training split of a prepared dataset, shuffled anew in every epoch, without end.

    `batch_size`: samples a batch; None hands samples out one by one. `shuffle_buffer_size`: samples shuffled together;
    None, 0 or 1 keep neighbours together. No buffer is filled: it costs no memory and no time at the start.
    `max_samples_per_sequence`: neighbouring samples that are read together, by default 16 from local disks and 128 over
    a network. `parallel_shard_iters`: so many such runs at least are shuffled together. `seed`: another seed, another
    order. `lanes`: streams that the job is made of, by default 8 a rank; a job that will grow may ask for more.
    `catalog`: its folder, where it is not in the dataset. `raw="view"`, with `decoder = None`: parts are memoryviews of
    the mapped shards instead of bytes, without a copy; a shard that is truncated under them kills the process.
    Nothing is opened yet.
    """
    encoder, workers = task_encoder or DefaultTaskEncoder(), worker_config or WorkerConfig.default_worker_config()
    return TrainDataset(
        path=os.fspath(path),
        split_part=split_part,
        batch_size=_size("batch_size", batch_size),
        shuffle_buffer_size=_size("shuffle_buffer_size", shuffle_buffer_size, least=0),
        max_samples_per_sequence=_size("max_samples_per_sequence", max_samples_per_sequence),
        parallel_shard_iters=_size("parallel_shard_iters", parallel_shard_iters) or 1,
        shuffle=bool(shuffle),
        seed=whole("seed", seed),
        lanes=_size("lanes", lanes),
        task_encoder=encoder,
        worker_config=workers,
        catalog=None if catalog is None else os.fspath(catalog),
        raw=_checked_raw(raw, encoder),
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
    raw: Raw = "bytes",
) -> ValDataset:
    """The validation split, one pass a `for` loop, in its own order, the same in every pass and on any number of ranks.

    Batch b goes to rank b mod world_size, so that the last ranks may have one batch fewer. `batch_drop_last` leaves a
    last, smaller batch out. `seed` is for random numbers in hooks.
    """
    encoder = task_encoder or DefaultTaskEncoder()
    return ValDataset(
        path=os.fspath(path),
        split_part=split_part,
        batch_size=_size("batch_size", batch_size),
        batch_drop_last=bool(batch_drop_last),
        seed=whole("seed", seed),
        task_encoder=encoder,
        worker_config=worker_config or WorkerConfig.default_worker_config(),
        catalog=None if catalog is None else os.fspath(catalog),
        raw=_checked_raw(raw, encoder),
    )


def _size(name: str, value: int | None, *, least: int = 1) -> int | None:
    if value is None:
        return None
    size = whole(name, value)
    if size < least:
        raise UsageError(f"{name} is {size}", hint=f"give {least} or more, or leave it out")
    return size


def _checked_raw(raw: Raw, encoder: AnyEncoder) -> Raw:
    if raw not in ("bytes", "view"):
        raise UsageError(f"raw is {raw!r}", hint="give 'bytes' or 'view'")
    if raw == "view" and encoder.decoder is not None:
        raise UsageError("raw='view' is for parts that are not decoded", hint="set decoder = None in the task encoder")
    return raw
