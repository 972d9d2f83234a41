"""A training that uses all features: a blend of three, hooks that skip, repeat and draw, packs, groups, generators."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

import torch

from tests.loader.datasets import Raw, a_dataset, numbered
from wdsctl.core.blend import Blender
from wdsctl.loader import SkipSample, TrainDataset, WorkerConfig, get_train_dataset

SIZES = (240, 90, 37)
WEIGHTS = (5, 3, 1)


def number_of(sample: Any) -> int:
    """The number of a sample: its key, or a part's value in shards of other formats, whose keys restart per shard."""
    own = next((sample[name] for name in sample if name.startswith("number.")), None)
    return int(sample["__key__"]) if own is None else int(own)


class Everything(Raw):
    """Implements every hook. A sample's number determines its repetitions, its length and its group."""

    def preencode_sample(self, sample: Any) -> Iterator[Any]:
        number = number_of(sample)
        if number % 33 == 5:
            raise SkipSample
        for copy in range(1 + (number % 7 == 0)):
            noise = torch.rand(1)
            yield {**sample, "copy": copy, "noise": noise, "length": 1 + number % 5}

    def postencode_sample(self, sample: Any) -> Any:
        return {**sample, "late": torch.rand(1)}

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        """Neighbours up to a length of 8; the very last one is left out."""
        packs: list[list[Any]] = [[]]
        for sample in samples[:-1]:
            if sum(each["length"] for each in packs[-1]) + sample["length"] > 8:
                packs.append([])
            packs[-1].append(sample)
        return packs

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        first = samples[0]
        members = tuple((each["__subflavors__"]["name"], each["__key__"], each["copy"]) for each in samples)
        noise = torch.cat([each["noise"] + each["late"] for each in samples])
        pack = {name: first[name] for name in ("__key__", "__restore_key__", "__subflavors__", "__sources__")}
        return {**pack, "members": members, "noise": noise, "total": sum(each["length"] for each in samples)}

    def batch_group_criterion(self, sample: Any) -> tuple[Hashable, int | None]:
        return ("many", 3) if len(sample["members"]) > 2 else ("few", None)

    def encode_batch(self, batch: Any) -> Iterator[Any]:
        for half in range(2):
            yield {**batch, "half": half, "level": torch.rand(1)}


def a_blend(folder: Path) -> Blender:
    """A blend of three prepared datasets of different sizes, one of them with several shards."""
    entries = []
    for name, (samples, weight) in enumerate(zip(SIZES, WEIGHTS, strict=True)):
        path = a_dataset(folder / f"part{name}", samples, shard_samples=50, parts=numbered)
        entries.append(({"path": path, "subflavors": {"name": name}}, weight))
    return Blender(entries)


def everything(blend: Any, rank: int = 0, world: int = 1, workers: int = 0, **options: Any) -> TrainDataset:
    arguments = {
        "batch_size": 2,
        "packing_buffer_size": 12,
        "shuffle_buffer_size": 8,
        "max_samples_per_sequence": 3,
        "lanes": 8,
        "task_encoder": Everything(),
        **options,
    }
    return get_train_dataset(blend, worker_config=WorkerConfig(rank, world, workers), **arguments)
