"""Samples become a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import LoaderError
from wdsctl.loader.batch import CrudeBatch, base_columns, batch_type_of
from wdsctl.loader.columns import column, gather, is_structure, missing, structure
from wdsctl.loader.samples import BASE_FIELDS, Sample
from wdsctl.loader.stacking import stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from wdsctl.loader.decoding import BatchMemory


def generic_batch(samples: Sequence[Any], *, memories: Sequence[BatchMemory] = ()) -> Any:
    """The default batch: tensors stacked, padded with zeros to the largest of each dimension; the rest as lists.

    Samples of a sample type give its batch class (CaptioningBatch), dicts a CrudeBatch, other dataclasses and named
    tuples one of their own type, and bare values a tensor or a list. Images that were decoded into one of `memories`
    are not copied: the batch and its samples share them. Raises LoaderError (WDS506) where samples do not go together.
    """
    _check(samples)
    first = samples[0]
    if isinstance(first, Sample):
        return batch_type_of(type(first)).from_samples(samples, memories=memories)
    if isinstance(first, dict):
        return _crude_batch(samples, memories)
    if is_structure(first):
        return structure(samples, memories=memories)
    return column(samples, memories=memories)


def batch_stack(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors of one size as one. Raises LoaderError (WDS506) where their sizes differ."""
    sizes = {tuple(value.shape) for value in values}
    if len(sizes) > 1:
        raise LoaderError(
            f"tensors of {len(sizes)} sizes cannot be stacked: {', '.join(map(str, sorted(sizes)))}",
            hint="batch_pad_stack pads them to the largest",
            code="WDS506",
        )
    return stacked(values)


def batch_pad_stack(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors of one rank as one, padded with zeros at their ends to the largest of each dimension."""
    return stacked(values)


def batch_list(values: Sequence[Any]) -> list[Any]:
    """The values as they are."""
    return list(values)


def _crude_batch(samples: Sequence[dict[str, Any]], memories: Sequence[BatchMemory]) -> CrudeBatch:
    names = samples[0].keys()
    for sample in samples:
        if sample.keys() != names:
            raise missing(min(sample.keys() ^ names))
    own = [name for name in names if name not in BASE_FIELDS]
    columns = {name: column(gather(samples, name), field=name, memories=memories) for name in own}
    return CrudeBatch({**base_columns(samples), **columns})


def _check(samples: Sequence[Any]) -> None:
    if not samples:
        raise LoaderError("a batch of no samples", hint="batch needs at least one sample", code="WDS506")
    kinds = sorted({type(sample).__name__ for sample in samples})
    if len({type(sample) for sample in samples}) > 1:
        raise LoaderError(
            f"a batch of unlike samples: {', '.join(kinds)}",
            hint="make them one type in encode_sample, or override batch",
            code="WDS506",
        )
