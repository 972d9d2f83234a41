"""`megatron.energon.loader`: loaders of datasets and of Energon's wrappers."""

from __future__ import annotations

from functools import partial
from typing import Any

from wdsctl.loader import loader as wdsctl_loader
from wdsctl.loader.energon.wrappers import AnyDataset, ConcatDataset, LimitDataset, RepeatDataset, open_wrapped

__all__ = ["get_loader", "get_savable_loader"]


def get_savable_loader(dataset: AnyDataset, **options: Any) -> Any:
    """`wdsctl.loader.get_savable_loader`, which also takes LimitDataset, RepeatDataset and ConcatDataset.

    The loader of a wrapper has no state to save: see `WrappedLoader`.
    """
    if isinstance(dataset, (LimitDataset, RepeatDataset, ConcatDataset)):
        return open_wrapped(dataset, partial(wdsctl_loader.get_savable_loader, **options))
    return wdsctl_loader.get_savable_loader(dataset, **options)


def get_loader(dataset: AnyDataset, **options: Any) -> Any:
    """The same as `get_savable_loader`."""
    return get_savable_loader(dataset, **options)
