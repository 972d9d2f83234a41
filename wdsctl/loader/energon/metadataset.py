"""`megatron.energon.metadataset`: what metadatasets and blend files name, read without opening datasets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from wdsctl.core.blend import list_split_names, read_blend, traverse
from wdsctl.loader.energon.epathlib import EPath
from wdsctl.loader.energon.replaced import replaced
from wdsctl.loader.energon.submodules import publish_submodules

__all__ = [
    "DatasetBlendMode",
    "DatasetLoader",
    "DatasetLoaderInterface",
    "Metadataset",
    "MetadatasetV2",
    "load_dataset",
    "prepare_metadataset",
    "traverse_metadataset",
]


_STORE_PREFIX = re.compile(r"^filesystem(://|\+)")  # of folders without shards


class DatasetBlendMode(Enum):
    """How the datasets of a metadataset are combined."""

    NONE = "none"
    DATASET_WEIGHT = "dataset_weight"
    SAMPLE_REPETITIONS = "sample_repetitions"


DatasetLoader = replaced("DatasetLoader")
DatasetLoaderInterface = replaced("DatasetLoaderInterface")
Metadataset = replaced("Metadataset")
MetadatasetV2 = replaced("MetadatasetV2")
load_dataset = replaced("load_dataset")


def traverse_metadataset(path: str | os.PathLike[str] | Mapping[str, Any], *, split_part: str) -> list[Any]:
    """The datasets that a metadataset names for a split, flat and in order: `path` (an EPath), `split_part`, `aux`
    (EPaths by name) and `subflavors`.

    The members of a join follow one another, the primary first. Raises what `read_blend` raises.
    """
    references = traverse(read_blend(_as_blend(path), split_part=split_part, mode="val"))
    paths: list[Any] = [EPath(each.path) for each in references]
    stores: list[dict[str, Any]] = [
        {name: EPath(_STORE_PREFIX.sub("", path)) for name, path in each.aux.items()} for each in references
    ]
    return [each._replace(path=path, aux=aux) for each, path, aux in zip(references, paths, stores, strict=True)]


def prepare_metadataset(path: str | os.PathLike[str] | Mapping[str, Any]) -> None:
    """Check every split of a metadataset; the loader needs no further preparation, also for joins.

    Raises what `read_blend` raises.
    """
    blend = _as_blend(path)
    splits = blend.get("splits", {}) if isinstance(blend, Mapping) else list_split_names(blend)
    for split in splits or ("train",):
        read_blend(blend, split_part=split, mode="val")


def _as_blend(path: str | os.PathLike[str] | Mapping[str, Any]) -> str | Mapping[str, Any]:
    return path if isinstance(path, Mapping) else os.fspath(path)


publish_submodules(__name__)
