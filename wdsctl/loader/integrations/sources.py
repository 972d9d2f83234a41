"""The datasets that users give to the adapters of trainers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from wdsctl.loader.loader import Loader, get_loader
from wdsctl.loader.recipe.dataset import BaseDataset, TrainDataset, ValDataset

#: A dataset, or a function that makes one. The function is called once the trainer has initialised torch.distributed,
#: so that the dataset finds its rank.
TrainSource: TypeAlias = TrainDataset | Callable[[], TrainDataset]
ValSource: TypeAlias = ValDataset | Callable[[], ValDataset]


def open_loader(source: TrainSource | ValSource, options: dict[str, Any]) -> Loader:
    """The loader of a dataset, or of the dataset that a function makes. `options`: of `get_loader`."""
    return get_loader(source if isinstance(source, BaseDataset) else source(), **options)
