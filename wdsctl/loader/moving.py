"""Tensors to a device or into pinned memory, wherever in a batch they stand."""

from __future__ import annotations

import dataclasses
import logging
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from wdsctl.loader.columns import is_named_tuple
from wdsctl.loader.samples import BASE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    Move = Callable[[Any], Any]

B = TypeVar("B")


def to_device(batch: B, device: torch.device | str, *, non_blocking: bool) -> B:
    options = {"non_blocking": True} if non_blocking else {}
    return cast("B", _inside(batch, "to", lambda value: value.to(device, **options)))


def pinned_where_it_can_be(batch: B) -> B:
    """The batch in pinned memory; as it is, with one warning, where there is no device to pin it for."""
    return pinned(batch, None) if _has_device() else batch


@cache
def _has_device() -> bool:
    import torch

    # The more general question came with torch 2.6.
    found = bool(getattr(torch, "accelerator", torch.cuda).is_available())
    if not found:
        logging.getLogger("wdsctl.loader").warning("pin_memory=True does nothing: there is no accelerator here")
    return found


def pinned(batch: B, device: torch.device | str | None) -> B:
    arguments = () if device is None else (device,)
    return cast("B", _inside(batch, "pin_memory", lambda value: value.pin_memory(*arguments)))


def _anywhere(value: Any, method: str, move: Move) -> Any:
    """Whatever has the method is moved by it: tensors, batches within batches, the encodings of tokenizers."""
    return move(value) if hasattr(value, method) else _inside(value, method, move)


def _inside(value: Any, method: str, move: Move) -> Any:
    if isinstance(value, dict):
        return type(value)({name: _field(name, item, method, move) for name, item in value.items()})
    if isinstance(value, (list, tuple)):
        items = [_anywhere(item, method, move) for item in value]
        return type(value)(*items) if is_named_tuple(value) else type(value)(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{n: _field(n, getattr(value, n), method, move) for n in names})
    return value


def _field(name: str, value: Any, method: str, move: Move) -> Any:
    return value if name in BASE_FIELDS else _anywhere(value, method, move)
