"""Tensors of one field become one tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from wdsctl.core.errors import LoaderError
from wdsctl.loader.decoding.blocks import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wdsctl.loader.decoding import BatchMemory


def stacked(tensors: Sequence[torch.Tensor], *, field: str = "", memories: Sequence[BatchMemory] = ()) -> torch.Tensor:
    """(samples, ...): tensors of one size side by side, others padded with zeros at their ends to the largest.

    Images that lie channels last in memory make a batch that does too (`torch.channels_last`). Images that were decoded
    into one of `memories` are the batch already. Raises LoaderError (WDS506) for unlike ranks, dtypes or devices.
    """
    first = tensors[0]
    shapes = {tensor.shape for tensor in tensors}
    _check(tensors, field)
    if len(shapes) > 1:
        return _padded(tensors, torch.Size(max(sizes) for sizes in zip(*shapes, strict=True)))
    for memory in memories:
        batch = memory.whole(tensors)
        if batch is not None:
            return batch
    if _is_channels_last(first):
        return _side_by_side([tensor.movedim(0, -1) for tensor in tensors]).movedim(-1, 1)
    return _side_by_side(list(tensors))


def _side_by_side(tensors: list[torch.Tensor]) -> torch.Tensor:
    if not all(map(_is_plain, tensors)):
        return torch.stack(tensors)
    first = tensors[0]
    return torch.stack(tensors, out=BLOCKS.empty((len(tensors), *first.shape), first.dtype))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is numbers in memory and nothing more: `out` is not for what a subclass or autograd knows besides."""
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.requires_grad or tensor.is_quantized)
    )


def _padded(tensors: Sequence[torch.Tensor], size: torch.Size) -> torch.Tensor:
    first, n = tensors[0], len(tensors)
    if _is_channels_last(first):
        channels, height, width = size
        batch = first.new_zeros((n, height, width, channels)).movedim(-1, 1)
    else:
        batch = first.new_zeros((n, *size))
    for place, tensor in zip(batch.unbind(0), tensors, strict=True):
        place[tuple(slice(length) for length in tensor.shape)] = tensor
    return batch


def _is_channels_last(tensor: torch.Tensor) -> bool:
    return tensor.ndim == 3 and not tensor.is_contiguous() and tensor.movedim(0, -1).is_contiguous()


def _check(tensors: Sequence[torch.Tensor], field: str) -> None:
    first = tensors[0]
    for what, of_first, others in (
        ("numbers of dimensions", first.ndim, {tensor.ndim for tensor in tensors}),
        ("dtypes", first.dtype, {tensor.dtype for tensor in tensors}),
        ("devices", first.device, {tensor.device for tensor in tensors}),
    ):
        if len(others) > 1:
            other = next(value for value in others if value != of_first)
            name = f"the tensors of field '{field}'" if field else "the tensors"
            raise LoaderError(
                f"{name} have unlike {what}: {of_first} and {other}",
                where=f"field '{field}'" if field else "",
                hint="make them alike in encode_sample, or override batch",
                code="WDS506",
            )
