"""Trainings that several tests run, on one or more ranks, and helpers that read from them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tests.loader.datasets import Raw, digest
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset
from wdsctl.loader.recipe.arguments import DatasetPath
from wdsctl.loader.runtime.failures import reraise_exception


def make_training_loader(
    path: DatasetPath, rank: int = 0, world: int = 1, encoder: Any = None, **options: Any
) -> Loader:
    """Returns one rank of a training with windows of 8 samples and batches of 4, unless `options` override them."""
    options = {"batch_size": 4, "shuffle_buffer_size": 8, "worker_config": WorkerConfig(rank, world), **options}
    return get_loader(get_train_dataset(path, task_encoder=encoder or Raw(), **options))


def raising_worker_config(rank: int = 0, world: int = 1) -> WorkerConfig:
    """Returns the config of a rank that stops at the first failing sample."""
    return WorkerConfig(rank, world, global_error_handler=reraise_exception)


def take_batches(loader: Loader, count: int) -> list[Any]:
    return list(islice(loader, count))


def digests(loader: Loader, count: int) -> list[str]:
    return [digest(batch) for batch in islice(loader, count)]


def take_rounds(world: list[Loader], count: int) -> list[Any]:
    """Returns `count` batches of every rank, in the order of the job."""
    streams = [iter(loader) for loader in world]
    return [next(stream) for _ in range(count) for stream in streams]


def ids(batches: list[Any]) -> list[Any]:
    """Returns the restore keys of all samples: component, pass, sample, and the number of the output if several."""
    return [key for batch in batches for key in batch["__restore_key__"]]


def restore_keys(batches: list[Any]) -> list[Any]:
    """Returns the restore keys of all samples, including those in `Packs`."""
    packs = [each for batch in batches if "members" in batch for each in batch["members"]]
    return [tuple(key) for pack in packs for key in pack] or ids(batches)


def json_round_trip(state: Any) -> Any:
    """Returns the state after a round trip through JSON."""
    return json.loads(json.dumps(state))


def save_state_after(loader: Loader, steps: int) -> Any:
    take_batches(loader, steps)
    return json_round_trip(loader.state_dict())


class Twice(Raw):
    """Yields two copies of every sample."""

    def encode_sample(self, sample: Any) -> Iterator[Any]:
        for copy in range(2):
            yield {**sample, "copy": copy}


class Packs(Raw):
    """Packs three samples each and keeps their restore keys."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[i : i + 3] for i in range(0, len(samples), 3)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [sample["__restore_key__"] for sample in samples]}


def tokens(batches: list[Any]) -> Counter[int]:
    """Returns the bytes of `txt` per component, which a column `size:txt` counts as tokens."""
    counts: Counter[int] = Counter()
    for batch in batches:
        for key, text in zip(batch["__restore_key__"], batch["txt"], strict=True):
            counts[key[0]] += len(text)
    return counts
