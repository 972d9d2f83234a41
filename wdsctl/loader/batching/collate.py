"""Collation: the default batch of samples, its parts for own `batch` hooks, and the conversion to another type."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import LoaderError
from wdsctl.loader.batching.batch import Batch, CrudeBatch, base_columns, batch_type_of
from wdsctl.loader.batching.columns import (
    collate_field,
    collate_structure,
    gather_field,
    is_structure,
    missing_field_error,
    stack_tensors,
    structure_fields,
)
from wdsctl.loader.samples import BASE_FIELDS, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from wdsctl.loader.decoding.memory import BatchMemory


def generic_batch(samples: Sequence[Any], *, memories: Sequence[BatchMemory] = ()) -> Any:
    """The default batch: (samples, ...) tensors, padded with zeros to the largest size per dimension; the rest as
    lists.

    Samples of a sample type become its batch class (CaptioningBatch), dicts a CrudeBatch, other dataclasses and named
    tuples one of their own type, and bare values a tensor or a list. Images that were decoded into one of `memories`
    are not copied: the batch shares memory with its samples. Raises LoaderError (WDS506) if samples have different
    types, fields or dtypes.
    """
    _check_same_type(samples)
    first = samples[0]
    if isinstance(first, Sample):
        return batch_type_of(type(first)).from_samples(samples, memories=memories)
    if isinstance(first, dict):
        return _crude_batch(samples, memories)
    if is_structure(first):
        return collate_structure(samples, memories=memories)
    return collate_field(samples, memories=memories)


def batch_stack(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack tensors of one shape: (samples, ...). Raises LoaderError (WDS506) if their shapes or dtypes differ."""
    shapes = {tuple(value.shape) for value in values}
    if len(shapes) > 1:
        raise LoaderError(
            f"cannot stack tensors of {len(shapes)} shapes: {', '.join(map(str, sorted(shapes)))}",
            hint="use batch_pad_stack, which pads tensors to the largest shape",
            code="WDS506",
        )
    return stack_tensors(values)


def batch_pad_stack(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack tensors with equally many dimensions: (samples, ...), padded with zeros at the end of each dimension.

    Raises LoaderError (WDS506) if their numbers of dimensions, dtypes or devices differ.
    """
    return stack_tensors(values)


def batch_list(values: Sequence[Any]) -> list[Any]:
    """The values as a list, unchanged."""
    return list(values)


def _crude_batch(samples: Sequence[dict[str, Any]], memories: Sequence[BatchMemory]) -> CrudeBatch:
    names = samples[0].keys()
    for sample in samples:
        if sample.keys() != names:
            raise missing_field_error(min(sample.keys() ^ names))
    columns = {
        name: collate_field(gather_field(samples, name), field=name, memories=memories)
        for name in names
        if name not in BASE_FIELDS
    }
    return CrudeBatch({**base_columns(samples), **columns})


def _check_same_type(samples: Sequence[Any]) -> None:
    if not samples:
        raise LoaderError("cannot batch zero samples", hint="call batch with at least one sample", code="WDS506")
    if len({type(sample) for sample in samples}) > 1:
        names = sorted({type(sample).__name__ for sample in samples})
        raise LoaderError(
            f"cannot batch samples of different types: {', '.join(names)}",
            hint="convert the samples to one type in encode_sample, or override batch",
            code="WDS506",
        )


def convert_to_type(value: Any, target: type[Any] | None) -> Any:
    """The value as `target`: a dataclass, NamedTuple or dict. Unchanged if it has that type or `target` is None.

    A dict gets all fields, the others the fields that they define. Raises LoaderError if a required field is missing.
    """
    if target is None or isinstance(value, target):
        return value
    if not is_structure(value):
        raise LoaderError(
            f"cannot convert {type(value).__name__} to {target.__name__}: it has no fields",
            hint="return a dataclass, a named tuple or a dict from the previous hook",
        )
    fields = structure_fields(value)
    if issubclass(target, dict):
        return target(fields)
    target_fields = _constructor_fields(target)
    values = {name: fields[name] for name in target_fields if name in fields}
    missing = [name for name, is_required in target_fields.items() if is_required and name not in values]
    if missing:
        raise LoaderError(
            f"{target.__name__} needs a field '{missing[0]}', which {type(value).__name__} does not have",
            where=f"field '{missing[0]}'",
            hint=f"use one of the fields of {target.__name__}: {', '.join(fields)}",
        )
    return target(**values)


def batch_to_type(samples: Sequence[Any], target: type[Any] | None, memories: Sequence[BatchMemory] = ()) -> Any:
    """The default batch as `target`; types with a `from_samples` method build it themselves."""
    if target is None or not hasattr(target, "from_samples"):
        return convert_to_type(generic_batch(samples, memories=memories), target)
    if getattr(target.from_samples, "__func__", None) is Batch.from_samples.__func__:  # type: ignore[attr-defined]
        return target.from_samples(samples, memories=memories)
    return target.from_samples(samples)


def _constructor_fields(target: type[Any]) -> dict[str, bool]:
    """Parameter of the constructor -> whether it is required."""
    if dataclasses.is_dataclass(target):
        missing = dataclasses.MISSING
        return {
            field.name: field.default is missing and field.default_factory is missing
            for field in dataclasses.fields(target)
            if field.init
        }
    if issubclass(target, tuple) and hasattr(target, "_fields"):
        named: Any = target
        return {name: name not in named._field_defaults for name in named._fields}
    raise LoaderError(f"cannot convert samples to {target.__name__}", hint="use a dataclass, a NamedTuple or dict")
