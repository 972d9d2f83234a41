"""One field of several samples as a column of the batch: tensors are stacked, all others become a list."""

from __future__ import annotations

import dataclasses
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.decoding.memory import BLOCK_POOL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wdsctl.loader.decoding.memory import BatchMemory


#: The types of most fields, which need no further look.
LISTED_TYPES = frozenset({bytes, str, int, float, bool, type(None), list, memoryview})


def collate_field(values: Sequence[Any], *, field: str = "", memories: Sequence[BatchMemory] = ()) -> Any:
    """The column of one field.

    Tensors are stacked (`stack_tensors`). Dicts, dataclasses and named tuples that contain tensors keep their type,
    with each of their fields batched. All others become a list: numbers, strings, arrays, lists of tensors, dicts of
    JSON. Raises LoaderError (WDS506) with the field's name if tensors are mixed with other types or cannot be stacked.
    """
    kinds = set(map(type, values))
    if kinds <= LISTED_TYPES:
        return list(values)
    tensors = {kind for kind in kinds if issubclass(kind, torch.Tensor)}
    if tensors and tensors != kinds:
        odd = next(kind for kind in kinds if kind not in tensors)
        found = "None" if odd is type(None) else f"of type {odd.__name__}"
        raise LoaderError(
            f"field '{field}' is a tensor in some samples and {found} in others",
            where=f"field '{field}'",
            hint="convert the field to a tensor for all samples in encode_sample, or override batch",
            code="WDS506",
        )
    if tensors:
        return stack_tensors(values, field=field, memories=memories)
    if len(kinds) == 1 and is_structure(values[0]) and any(map(_holds_tensors, values)):
        return collate_structure(values, field=field, memories=memories)
    return list(values)


def gather_field(samples: Sequence[Any], name: str) -> list[Any]:
    """The values of one field of the samples that have it."""
    is_dict = isinstance(samples[0], dict)
    try:
        return list(map(itemgetter(name) if is_dict else attrgetter(name), samples))
    except KeyError:
        return [sample[name] for sample in samples if name in sample]
    except AttributeError:
        return [getattr(sample, name) for sample in samples if hasattr(sample, name)]


def collate_structure(values: Sequence[Any], *, field: str = "", memories: Sequence[BatchMemory] = ()) -> Any:
    """Dicts, dataclasses or named tuples of one type as one of that type, with a column per field."""
    rows = [structure_fields(value) for value in values]
    names = rows[0].keys()
    for row in rows:
        if row.keys() != names:
            raise missing_field_error(next(iter(row.keys() ^ names)), parent_field=field)
    prefix = f"{field}." if field else ""
    columns = {
        name: collate_field([row[name] for row in rows], field=prefix + name, memories=memories) for name in names
    }
    return type(values[0])(**columns) if not isinstance(values[0], dict) else columns


def is_structure(value: Any) -> bool:
    return isinstance(value, dict) or dataclasses.is_dataclass(value) or is_named_tuple(value)


def is_named_tuple(value: Any) -> TypeGuard[Any]:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def structure_fields(value: Any) -> dict[str, Any]:
    """The fields of a structure by name. Of a dict it is the value itself."""
    if isinstance(value, dict):
        return value
    if is_named_tuple(value):
        return dict(zip(value._fields, value, strict=True))
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def missing_field_error(name: str, *, parent_field: str = "") -> LoaderError:
    path = f"{parent_field}.{name}" if parent_field else name
    return LoaderError(
        f"some samples of the batch have '{path}' and others do not",
        where=f"field '{path}'",
        hint="set the field for all samples in encode_sample, or override batch",
        code="WDS506",
    )


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    return is_structure(value) and any(map(_holds_tensors, structure_fields(value).values()))


def stack_tensors(
    tensors: Sequence[torch.Tensor], *, field: str = "", memories: Sequence[BatchMemory] = ()
) -> torch.Tensor:
    """(samples, ...): tensors stacked, padded with zeros at the end of each dimension if their shapes differ.

    Images that are channels last in memory make a batch that is too (`torch.channels_last`). Images that were decoded
    into one of `memories` are the batch already, without a copy. Raises LoaderError (WDS506) if their numbers of
    dimensions, dtypes, layouts or devices differ, and for sparse and other special tensors that torch cannot stack.
    """
    first = tensors[0]
    _check_stackable(tensors, field)
    shapes = {tensor.shape for tensor in tensors}
    if len(shapes) > 1:
        return _pad_and_stack(tensors, torch.Size(max(sizes) for sizes in zip(*shapes, strict=True)))
    for memory in memories:
        batch = memory.batch_tensor(tensors)
        if batch is not None:
            return batch
    if _is_channels_last(first):
        return _stack_same_size([tensor.movedim(0, -1) for tensor in tensors]).movedim(-1, 1)
    return _stack_same_size(list(tensors))


def _stack_same_size(tensors: list[torch.Tensor]) -> torch.Tensor:
    if not all(map(_is_plain_tensor, tensors)):
        return torch.stack(tensors)
    first = tensors[0]
    return torch.stack(tensors, out=BLOCK_POOL.empty((len(tensors), *first.shape), first.dtype))


def _is_plain_tensor(tensor: torch.Tensor) -> bool:
    """Whether `torch.stack(out=...)` takes it: a dense CPU tensor, no subclass, without gradients or quantization."""
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.requires_grad or tensor.is_quantized)
    )


def _pad_and_stack(tensors: Sequence[torch.Tensor], size: torch.Size) -> torch.Tensor:
    first, n = tensors[0], len(tensors)
    if _is_channels_last(first):
        channels, height, width = size
        batch = first.new_zeros((n, height, width, channels)).movedim(-1, 1)
    else:
        batch = first.new_zeros((n, *size))
    for row, tensor in zip(batch.unbind(0), tensors, strict=True):
        row[tuple(slice(length) for length in tensor.shape)] = tensor
    return batch


def _is_channels_last(tensor: torch.Tensor) -> bool:
    return tensor.ndim == 3 and not tensor.is_contiguous() and tensor.movedim(0, -1).is_contiguous()


def _check_stackable(tensors: Sequence[torch.Tensor], field: str) -> None:
    first = tensors[0]
    problem = ""
    for attribute, of_first, values in (
        ("numbers of dimensions", first.ndim, {tensor.ndim for tensor in tensors}),
        ("dtypes", first.dtype, {tensor.dtype for tensor in tensors}),
        ("layouts", first.layout, {tensor.layout for tensor in tensors}),
        ("devices", first.device, {tensor.device for tensor in tensors}),
    ):
        if len(values) > 1:
            other = next(value for value in values if value != of_first)
            problem = f"have different {attribute}: {of_first} and {other}"
            break
    else:
        if first.layout != torch.strided or first.is_nested:
            problem = _special_problem(tensors)
    if problem:
        tensors_of = f"the tensors of field '{field}'" if field else "the tensors"
        raise LoaderError(
            f"{tensors_of} {problem}",
            where=f"field '{field}'" if field else "",
            hint="convert the tensors in encode_sample, or override batch",
            code="WDS506",
        )


def _special_problem(tensors: Sequence[torch.Tensor]) -> str:
    """Why tensors of one layout, that are nested or sparse, cannot be stacked; empty if torch can."""
    first = tensors[0]
    if first.is_nested:
        return "are nested, which cannot be stacked"
    if first.layout not in (torch.strided, torch.sparse_coo):
        return f"have the layout {first.layout}, which cannot be stacked"
    return "are sparse, and have different sizes" if len({tensor.shape for tensor in tensors}) > 1 else ""
