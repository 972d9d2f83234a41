"""Trainings that several tests run, on one rank or more, and what they take from them."""

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


def training_of(path: DatasetPath, rank: int = 0, world: int = 1, encoder: Any = None, **options: Any) -> Loader:
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


def rounds(world: list[Loader], count: int) -> list[Any]:
    """So many batches of every rank, as the job has them."""
    streams = [iter(loader) for loader in world]
    return [next(stream) for _ in range(count) for stream in streams]


def ids(batches: list[Any]) -> list[Any]:
    """The restore keys of all their samples: which source, pass and sample, and of several outputs which one."""
    return [key for batch in batches for key in batch["__restore_key__"]]


def restore_keys(batches: list[Any]) -> list[Any]:
    """The same, of the samples in `Packs` too."""
    packs = [each for batch in batches if "members" in batch for each in batch["members"]]
    return [tuple(key) for pack in packs for key in pack] or ids(batches)


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


class Packs(Raw):
    """Three samples a pack, which keeps their restore keys."""

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        return [samples[i : i + 3] for i in range(0, len(samples), 3)]

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        return {**samples[0], "members": [sample["__restore_key__"] for sample in samples]}


def tokens(batches: list[Any]) -> Counter[int]:
    """Bytes of `txt` that each source delivered: what a column `size:txt` counts as tokens."""
    counts: Counter[int] = Counter()
    for batch in batches:
        for key, text in zip(batch["__restore_key__"], batch["txt"], strict=True):
            counts[key[0]] += len(text)
    return counts
