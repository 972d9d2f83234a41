"""Trainings that several tests run, on one rank or more, and what they take from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tests.loader.datasets import Raw, digest
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.arguments import Path
from wdsctl.loader.failures import reraise_exception


def training_of(path: Path, rank: int = 0, world: int = 1, encoder: Any = None, **options: Any) -> Loader:
    """A rank of a training in windows of eight samples and batches of four, unless `options` say otherwise."""
    options = {"batch_size": 4, "shuffle_buffer_size": 8, "worker_config": WorkerConfig(rank, world), **options}
    return get_loader(get_train_dataset(path, task_encoder=encoder or Raw(), **options))


def strict(rank: int = 0, world: int = 1) -> WorkerConfig:
    """A rank that stops at the first sample that fails."""
    return WorkerConfig(rank, world, global_error_handler=reraise_exception)


def taken(loader: Loader, count: int) -> list[Any]:
    return list(islice(loader, count))


def digests(loader: Loader, count: int) -> list[str]:
    return [digest(batch) for batch in islice(loader, count)]


def ids(batches: list[Any]) -> list[Any]:
    """The restore keys of all their samples: which source, pass and sample, and of several outputs which one."""
    return [key for batch in batches for key in batch["__restore_key__"]]


def through_json(state: Any) -> Any:
    """The state as a file would give it back."""
    return json.loads(json.dumps(state))


def saved_after(loader: Loader, steps: int) -> Any:
    taken(loader, steps)
    return through_json(loader.state_dict())


class Twice(Raw):
    """Makes two of every sample."""

    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for copy in range(2):
            yield {**sample, "copy": copy}
