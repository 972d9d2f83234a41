"""What a training loop gets: fields by attribute and by name, and the way to the GPU."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, cast

from wdsctl.loader.columns import column, gather, missing
from wdsctl.loader.moving import pinned, to_device
from wdsctl.loader.samples import BASE_FIELDS, Sample, SourceInfo, edataclass
from wdsctl.loader.samples.base import is_required

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from typing_extensions import Self

    from wdsctl.loader.decoding import BatchMemory


@edataclass
class Batch:
    """The base of all batches: `batch.image` and `batch["image"]`, `{**batch}`, `batch.to("cuda")`.

    The base fields hold an entry a sample, in order; `__subflavors__` is None where no sample has any, and
    `__sources__` are those of all samples in one tuple.
    """

    __key__: list[str]
    __restore_key__: tuple[Any, ...] = ()
    __subflavors__: list[dict[str, Any] | None] | None = None
    __sources__: tuple[SourceInfo, ...] | None = None

    @classmethod
    def from_samples(cls, samples: Sequence[Any], *, memories: Sequence[BatchMemory] = (), **override: Any) -> Self:
        """The fields of this class from the samples: tensors padded and stacked, the rest as lists.

        A field in `override` is taken as it is given; one that has a default need not be in the samples. Raises
        LoaderError (WDS506) where the samples lack a field or do not go together.
        """
        values = {**base_columns(samples), **override}
        for field in dataclasses.fields(cls):
            if not field.init or field.name in values or field.name in BASE_FIELDS:
                continue
            present = gather(samples, field.name)
            if len(present) == len(samples):
                values[field.name] = column(present, field=field.name, memories=memories)
            elif present or is_required(field):
                raise missing(field.name)
        return cls(**values)

    @classmethod
    def derive_from(cls, base_batch: Batch, **fields: Any) -> Self:
        """A new batch with these fields that keeps the base fields (keys, sources, ...) of another."""
        return cls(**{**{name: getattr(base_batch, name) for name in BASE_FIELDS}, **fields})

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return getattr(self, name)

    # Not iterable, and said so: otherwise Python asks for item 0, and `image, text = batch` is a KeyError.
    __iter__ = None

    def __contains__(self, name: object) -> bool:
        return name in Batch.keys(self)

    def keys(self) -> list[str]:
        """The names of all fields, base fields first."""
        return [field.name for field in dataclasses.fields(self)]

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """The same batch with its tensors on a device, also those in lists, dicts and dataclasses."""
        return to_device(self, device, non_blocking=non_blocking)

    def pin_memory(self, device: torch.device | str | None = None) -> Self:
        """The same batch with its tensors in pinned memory, from which copies to a GPU need not wait."""
        return pinned(self, device)


class CrudeBatch(dict[str, Any]):
    """The batch of samples that are dicts: `batch["jpg"]`, and `batch.jpg` where the name allows."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the batch has no field '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """The same batch with its tensors on a device, also those in lists, dicts and dataclasses."""
        return to_device(self, device, non_blocking=non_blocking)

    def pin_memory(self, device: torch.device | str | None = None) -> Self:
        """The same batch with its tensors in pinned memory, from which copies to a GPU need not wait."""
        return pinned(self, device)


def batch_type_of(sample_type: type[Sample]) -> type[Batch]:
    """The batch class of a sample type, with its fields: CaptioningBatch of CaptioningSample. Made once.

    Its batches pickle by the sample type, so that the sample type is all that the other process must import.
    """
    if sample_type not in _MADE:
        _MADE[sample_type] = _make(sample_type)
    return _MADE[sample_type]


def base_columns(samples: Sequence[Any]) -> dict[str, Any]:
    """The base fields of a batch, of samples that have them."""
    keys = gather(samples, "__key__")
    if len(keys) < len(samples):
        return {}
    subflavors = gather(samples, "__subflavors__")
    sources = tuple(itertools.chain.from_iterable(filter(None, gather(samples, "__sources__"))))
    return {
        "__key__": keys,
        "__restore_key__": tuple(gather(samples, "__restore_key__")),
        "__subflavors__": subflavors if any(entry is not None for entry in subflavors) else None,
        "__sources__": sources or None,
    }


#: A class made at run time is found again by what it was made for.
_MADE: dict[type[Sample], type[Batch]] = {}


def _make(sample_type: type[Sample]) -> type[Batch]:
    def reduce(batch: Batch) -> tuple[Any, ...]:
        return _rebuild, (sample_type, {name: getattr(batch, name) for name in Batch.keys(batch)})

    name = f"{sample_type.__name__.removesuffix('Sample')}Batch"
    fields = [(field.name, Any) for field in dataclasses.fields(sample_type) if field.name not in BASE_FIELDS]
    namespace = {"__reduce__": reduce, "__doc__": f"A batch of {sample_type.__name__}."}
    made = dataclasses.make_dataclass(name, fields, bases=(Batch,), namespace=namespace, kw_only=True, slots=True)
    made.__module__ = sample_type.__module__
    return cast("type[Batch]", made)


def _rebuild(sample_type: type[Sample], values: dict[str, Any]) -> Batch:
    return batch_type_of(sample_type)(**values)
