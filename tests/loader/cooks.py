"""Cookers that tests train with, and the datasets and stores that they cook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests.build import an_image
from tests.loader.running import raising_worker_config
from tests.loader.stores.stores import a_tar_store, blend_with_stores, make_primary_dataset
from wdsctl.loader import (
    Cooker,
    DefaultTaskEncoder,
    TextSample,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_loader,
    get_train_dataset,
    stateless,
)

IMAGES = {f"m/{i}.png": an_image("PNG", compress_level=i) for i in range(6)}


@stateless
def with_text(sample: Any, media: Any) -> TextSample:
    return TextSample(**basic_sample_keys(sample), text=media.get(sample["json"]["media"], sample))


class Texts(DefaultTaskEncoder[Any, Any, Any, Any]):
    cookers = (Cooker(with_text),)


@cooker(need_primary=True, need_cache=True)
def with_lazy(sample: Any, media: Any, primary: Any, cache: Any) -> dict[str, Any]:
    number = primary.get(".json", sample)["number"]
    cached = cache.to_cache(torch.full((3,), number), f"number {number}")
    return {**sample, "lazy": cache.get_lazy(media, sample["json"]["media"]), "aside": cached, "number": number}


class Packs(DefaultTaskEncoder[Any, Any, Any, Any]):
    """Packs of samples whose images are read when the pack is built."""

    cookers = (Cooker(with_lazy),)

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:
        ordered = sorted(samples, key=lambda sample: (sample["number"] % 5, sample["number"]))
        return [ordered[i : i + 3] for i in range(0, len(ordered), 3)]

    def postencode_sample(self, sample: Any) -> Any:
        noise = float(torch.rand(1))
        image, cached = sample.pop("lazy").get(sample), sample.pop("aside").get()
        return {**sample, "image": image, "noise": noise, "aside": cached}

    def pack_selected_samples(self, samples: list[Any]) -> Any:
        sources = tuple(source for sample in samples for source in sample["__sources__"])
        numbers = [(sample["number"], sample["noise"], sample["aside"].tolist()) for sample in samples]
        images = torch.stack([sample["image"] for sample in samples]).sum()
        return {**samples[0], "__sources__": sources, "numbers": numbers, "image": images}


def packing(path: Any, rank: int = 0, world: int = 1, pool: Any = None, **options: Any) -> Any:
    workers = {name: options.pop(name) for name in ("num_workers", "start_method") if name in options}
    config = raising_worker_config(rank, world)
    config = WorkerConfig(rank, world, global_error_handler=config.global_error_handler, **workers)
    options = {"batch_size": 2, "shuffle_buffer_size": 8, "packing_buffer_size": 7, "lanes": 4, **options}
    dataset = get_train_dataset(path, task_encoder=Packs(), worker_config=config, **options)
    return get_loader(dataset, cache_pool=pool)


def blend_of_texts(root: Path) -> dict[str, Any]:
    return blend_with_stores(make_primary_dataset(root / "primary"), media=a_tar_store(root / "media"))


def blend_of_images(root: Path) -> dict[str, Any]:
    return blend_with_stores(
        make_primary_dataset(root / "primary", 40, "m/{}.png"), media=a_tar_store(root / "media", IMAGES)
    )
