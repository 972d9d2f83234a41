"""The batch classes that a training loop receives, and the transfer of their tensors to a device or pinned memory."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from wdsctl.loader.batching.columns import collate_field, gather_field, is_named_tuple, missing_field_error
from wdsctl.loader.samples import BASE_FIELDS, Sample, SourceInfo, edataclass
from wdsctl.loader.samples.base import is_required
from wdsctl.loader.samples.display import batch_html, fields_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from typing_extensions import Self

    from wdsctl.loader.decoding.memory import BatchMemory

    MoveTensor = Callable[[Any], Any]

B = TypeVar("B")


def to_device(batch: B, device: torch.device | str, *, non_blocking: bool) -> B:
    options = {"non_blocking": True} if non_blocking else {}
    return cast("B", _move_items(batch, "to", lambda value: value.to(device, **options)))


def maybe_pin(batch: B) -> B:
    """The batch in pinned memory; unchanged and with one warning if there is no accelerator."""
    return pin_batch(batch, None) if _has_accelerator() else batch


@cache
def _has_accelerator() -> bool:
    import torch

    # torch.accelerator is new in torch 2.6.
    found = bool(getattr(torch, "accelerator", torch.cuda).is_available())
    if not found:
        logging.getLogger("wdsctl.loader").warning("pin_memory=True has no effect: this machine has no accelerator")
    return found


def pin_batch(batch: B, device: torch.device | str | None) -> B:
    arguments = () if device is None else (device,)
    return cast("B", _move_items(batch, "pin_memory", lambda value: value.pin_memory(*arguments)))


def _move_value(value: Any, method: str, move: MoveTensor) -> Any:
    """Move what has the method: tensors, nested batches, encodings of tokenizers."""
    return move(value) if hasattr(value, method) else _move_items(value, method, move)


def _move_items(value: Any, method: str, move: MoveTensor) -> Any:
    if isinstance(value, dict):
        return type(value)({name: _move_field(name, item, method, move) for name, item in value.items()})
    if isinstance(value, (list, tuple)):
        items = [_move_value(item, method, move) for item in value]
        return type(value)(*items) if is_named_tuple(value) else type(value)(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{n: _move_field(n, getattr(value, n), method, move) for n in names})
    return value


def _move_field(name: str, value: Any, method: str, move: MoveTensor) -> Any:
    return value if name in BASE_FIELDS else _move_value(value, method, move)


@edataclass
class Batch:
    """The base class of batches. Access fields as `batch.image` or `batch["image"]`, or unpack them with `{**batch}`.

    Base fields have one entry per sample, in order. `__subflavors__` is None if no sample has any; `__sources__` is one
    tuple of the sources of all samples.
    """

    __key__: list[str]
    __restore_key__: tuple[Any, ...] = ()
    __subflavors__: list[dict[str, Any] | None] | None = None
    __sources__: tuple[SourceInfo, ...] | None = None

    def __repr__(self) -> str:
        """A few lines for a batch of any size: fields with shapes, dtypes and the start of texts."""
        return fields_text(self)

    def _repr_html_(self) -> str:
        return batch_html(self)

    @classmethod
    def from_samples(cls, samples: Sequence[Any], *, memories: Sequence[BatchMemory] = (), **override: Any) -> Self:
        """A batch with the fields of this class: tensors padded and stacked to (samples, ...), the rest as lists.

        `override` sets fields directly. Samples may lack fields that have a default. Raises LoaderError (WDS506) if
        samples lack a required field, or only some of them have a field, or tensors cannot be stacked.
        """
        values = {**base_columns(samples), **override}
        for field in dataclasses.fields(cls):
            if not field.init or field.name in values or field.name in BASE_FIELDS:
                continue
            present = gather_field(samples, field.name)
            if len(present) == len(samples):
                values[field.name] = collate_field(present, field=field.name, memories=memories)
            elif present or is_required(field):
                raise missing_field_error(field.name)
        return cls(**values)

    @classmethod
    def derive_from(cls, base_batch: Batch, **fields: Any) -> Self:
        """A new batch with these fields and the base fields (keys, sources, ...) of `base_batch`."""
        return cls(**{**{name: getattr(base_batch, name) for name in BASE_FIELDS}, **fields})

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return getattr(self, name)

    # Not iterable: otherwise Python would ask for item 0, and `image, text = batch` would raise KeyError.
    __iter__ = None

    def __contains__(self, name: object) -> bool:
        return name in Batch.keys(self)

    def keys(self) -> list[str]:
        """The names of all fields, base fields first."""
        return [field.name for field in dataclasses.fields(self)]

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """A batch of the same type with all tensors on `device`, also those in lists, dicts and dataclasses."""
        return to_device(self, device, non_blocking=non_blocking)

    def pin_memory(self, device: torch.device | str | None = None) -> Self:
        """A batch of the same type with all tensors in pinned memory, for asynchronous copies to a GPU."""
        return pin_batch(self, device)


class CrudeBatch(dict[str, Any]):
    """The batch of samples that are dicts. Access parts as `batch["jpg"]`, or as `batch.jpg` if the name allows."""

    __slots__ = ()

    def __repr__(self) -> str:
        return fields_text(self)

    def _repr_html_(self) -> str:
        return batch_html(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the batch has no field '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """A batch of the same type with all tensors on `device`, also those in lists, dicts and dataclasses."""
        return to_device(self, device, non_blocking=non_blocking)

    def pin_memory(self, device: torch.device | str | None = None) -> Self:
        """A batch of the same type with all tensors in pinned memory, for asynchronous copies to a GPU."""
        return pin_batch(self, device)


def batch_type_of(sample_type: type[Sample]) -> type[Batch]:
    """The batch class of a sample type, with its fields: CaptioningBatch for CaptioningSample. Created once.

    Its batches are pickled by sample type, so that another process only has to import the sample type.
    """
    if sample_type not in _BATCH_TYPES:
        _BATCH_TYPES[sample_type] = _make_batch_type(sample_type)
    return _BATCH_TYPES[sample_type]


def base_columns(samples: Sequence[Any]) -> dict[str, Any]:
    """The base fields of a batch; none if a sample lacks them."""
    keys = gather_field(samples, "__key__")
    if len(keys) < len(samples):
        return {}
    subflavors = gather_field(samples, "__subflavors__")
    sources = tuple(itertools.chain.from_iterable(filter(None, gather_field(samples, "__sources__"))))
    return {
        "__key__": keys,
        "__restore_key__": tuple(gather_field(samples, "__restore_key__")),
        "__subflavors__": subflavors if any(entry is not None for entry in subflavors) else None,
        "__sources__": sources or None,
    }


#: Sample type -> its batch class, which is created at run time.
_BATCH_TYPES: dict[type[Sample], type[Batch]] = {}


def _make_batch_type(sample_type: type[Sample]) -> type[Batch]:
    def reduce(batch: Batch) -> tuple[Any, ...]:
        return _rebuild_batch, (sample_type, {name: getattr(batch, name) for name in Batch.keys(batch)})

    name = f"{sample_type.__name__.removesuffix('Sample')}Batch"
    fields = [(field.name, Any) for field in dataclasses.fields(sample_type) if field.name not in BASE_FIELDS]
    namespace = {"__reduce__": reduce, "__doc__": f"A batch of {sample_type.__name__}."}
    batch_type = dataclasses.make_dataclass(
        name, fields, bases=(Batch,), namespace=namespace, kw_only=True, slots=True, repr=False
    )
    batch_type.__module__ = sample_type.__module__
    return cast("type[Batch]", batch_type)


def _rebuild_batch(sample_type: type[Sample], values: dict[str, Any]) -> Batch:
    return batch_type_of(sample_type)(**values)
