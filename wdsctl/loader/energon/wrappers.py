"""Energon's wrappers of datasets that have an exact meaning here, and its functions that join batches.

`LimitDataset`, `RepeatDataset` and `ConcatDataset` describe passes over validations, and `open_wrapped` makes a loader
of them. `MapDataset` and `FilterDataset` add a step to the task encoder of a dataset, which workers run.
"""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import isgenerator
from itertools import islice
from types import GenericAlias
from typing import Any, Generic, TypeVar

import torch

from wdsctl.core.errors import LoaderError, UsageError, require_int
from wdsctl.loader.energon.replaced import like_class, replaced
from wdsctl.loader.energon.submodules import publish_submodules
from wdsctl.loader.loader import Loader
from wdsctl.loader.recipe.arguments import AnyTaskEncoder
from wdsctl.loader.recipe.dataset import BaseDataset, TrainDataset, ValDataset
from wdsctl.loader.recipe.task_encoder import AugmentTaskEncoder, is_overridden
from wdsctl.loader.recipe.worker_config import WorkerConfig
from wdsctl.loader.runtime.failures import SkipSample

__all__ = [
    "BaseWrapperDataset",
    "BatchDataset",
    "BlendDataset",
    "ConcatDataset",
    "EpochizeDataset",
    "FilterDataset",
    "GcDataset",
    "GroupBatchDataset",
    "IterMapDataset",
    "LimitDataset",
    "LogSampleDataset",
    "MapDataset",
    "MixBatchDataset",
    "PackingDataset",
    "RepeatDataset",
    "SavableDataset",
    "ShuffleBufferDataset",
    "WatchdogDataset",
    "concat_pad",
    "generic_concat",
    "homogeneous_concat_mix",
]

T = TypeVar("T")


class SavableDataset(ABC, Generic[T]):
    """Energon's base class of datasets, for annotations and `isinstance`: all datasets and wrappers here are one."""


class _Subscriptable:
    """A class that Energon's users subscript in annotations: `LimitDataset[Batch]`."""

    def __class_getitem__(cls, item: Any) -> GenericAlias:
        return GenericAlias(cls, item)


@dataclass(frozen=True)
class RepeatDataset(_Subscriptable):
    """The passes of a dataset, one after the other: `repeats` of them, or without end."""

    dataset: AnyDataset
    repeats: int | None = None
    worker_config: WorkerConfig | None = None

    def __post_init__(self) -> None:
        _check_inner(self)
        if self.repeats is not None and require_int("repeats", self.repeats) < 0:
            raise UsageError(f"repeats is {self.repeats}", hint="pass 0 or more, or None to repeat without end")


@dataclass(frozen=True)
class LimitDataset(_Subscriptable):
    """The first `length` batches per rank of a dataset, the same ones in every pass.

    `reset_after_epoch` has no effect: as in Energon 7.4, every pass begins with the first batch.
    """

    dataset: AnyDataset
    length: int
    reset_after_epoch: bool = False
    worker_config: WorkerConfig | None = None

    def __post_init__(self) -> None:
        _check_inner(self)
        if any(isinstance(each, TrainDataset) for each in leaves(self)):
            raise UsageError(
                "LimitDataset begins every pass with the first batch, so a training would read these batches only",
                hint="to end a loop and continue with the next batch, pass virtual_epoch_length to get_train_dataset",
            )
        if require_int("length", self.length) < 0:
            raise UsageError(f"length is {self.length}", hint="pass 0 or more batches")


@dataclass(frozen=True, init=False)
class ConcatDataset(_Subscriptable):
    """The passes of several datasets, one after the other."""

    datasets: tuple[AnyDataset, ...]
    worker_config: WorkerConfig | None

    def __init__(self, *datasets: AnyDataset, worker_config: WorkerConfig | None = None) -> None:
        object.__setattr__(self, "datasets", datasets)
        object.__setattr__(self, "worker_config", worker_config)
        _check_inner(self)


Wrapper = RepeatDataset | LimitDataset | ConcatDataset
AnyDataset = BaseDataset | Wrapper

BatchDataset = replaced("BatchDataset")
BlendDataset = replaced("BlendDataset")
GroupBatchDataset = replaced("GroupBatchDataset")
IterMapDataset = replaced("IterMapDataset")
LogSampleDataset = replaced("LogSampleDataset")
MixBatchDataset = replaced("MixBatchDataset")
PackingDataset = replaced("PackingDataset")
ShuffleBufferDataset = replaced("ShuffleBufferDataset")
WatchdogDataset = replaced("WatchdogDataset")
BaseWrapperDataset = replaced("BaseWrapperDataset")

for _kind in (BaseDataset, RepeatDataset, LimitDataset, ConcatDataset):
    SavableDataset.register(_kind)


@like_class
def EpochizeDataset(  # noqa: N802 - Energon's name
    dataset: BaseDataset, length: int, worker_config: WorkerConfig | None = None
) -> TrainDataset:
    """The training with virtual epochs: a `for` loop ends after `length` batches per rank, the next one continues."""
    if not (isinstance(dataset, TrainDataset) and dataset.repeat):
        raise UsageError(
            "EpochizeDataset needs an endless training", hint="wrap get_train_dataset(...) without repeat=False"
        )
    _check_worker_config(dataset, worker_config)
    if require_int("length", length) < 1:
        raise UsageError(f"length is {length}", hint="pass 1 or more batches")
    return replace(dataset, virtual_epoch_length=require_int("length", length))


@like_class
def GcDataset(  # noqa: N802 - Energon's name
    dataset: AnyDataset,
    *,
    worker_config: WorkerConfig | None = None,
    every_n_iter: int = 10,  # noqa: ARG001 - Energon's
    freeze: bool = True,  # noqa: ARG001 - Energon's
) -> AnyDataset:
    """The dataset itself: Python collects the garbage of workers."""
    _check_worker_config(dataset, worker_config)
    return dataset


@like_class
def MapDataset(  # noqa: N802 - Energon's name
    dataset: BaseDataset,
    map_fn: Callable[[Any], Any],
    *,
    stateless_map_fn: bool = False,  # noqa: ARG001 - Energon's
    map_fn_config: Any = None,  # noqa: ARG001 - Energon's
    failure_tolerance: int = 100,  # noqa: ARG001 - Energon's
    worker_config: WorkerConfig | None = None,
) -> BaseDataset:
    """The dataset with `map_fn` applied to each batch, or to each sample without batches, by the workers.

    `map_fn` may be a generator of any number of outputs, may raise SkipSample, and gets the same random numbers after a
    resume. Raises UsageError for packs without batches, which have no last hook.
    """
    _check_worker_config(dataset, worker_config)
    hook = _last_hook(dataset)
    encoder = _ThenApply(dataset.task_encoder, hook, map_fn)
    return replace(dataset, task_encoder=encoder)


@like_class
def FilterDataset(  # noqa: N802 - Energon's name
    dataset: BaseDataset,
    *,
    filter_fn: Callable[[Any], bool],
    filter_fn_config: Any = None,  # noqa: ARG001 - Energon's
    worker_config: WorkerConfig | None = None,
) -> BaseDataset:
    """The dataset without the batches (or samples, if it makes no batches) for which `filter_fn` returns false."""
    return MapDataset(dataset, _Keep(filter_fn), worker_config=worker_config)


@dataclass(frozen=True)
class _Keep:
    """Skips what a predicate refuses."""

    is_kept: Callable[[Any], bool]

    def __call__(self, value: Any) -> Any:
        if not self.is_kept(value):
            raise SkipSample
        return value


class _ThenApply(AugmentTaskEncoder):
    """A task encoder that applies a function to the output of its last hook."""

    def __init__(self, inner: AnyTaskEncoder, hook: str, apply: Callable[[Any], Any]) -> None:
        super().__init__(inner)
        self._apply = apply
        self._call_inner = getattr(inner, hook)
        setattr(self, hook, self._then_apply)

    def _then_apply(self, value: Any) -> Any:
        output = self._call_inner(value)
        if not isgenerator(output):
            return self._apply(output)
        return self._apply_to_each(output)

    def _apply_to_each(self, outputs: Iterator[Any]) -> Iterator[Any]:
        for output in outputs:
            try:
                applied = self._apply(output)
            except SkipSample:
                continue
            if isgenerator(applied):
                yield from applied
            else:
                yield applied


def _last_hook(dataset: BaseDataset) -> str:
    encoder = dataset.task_encoder
    if dataset.batch_size is not None or dataset.buckets is not None or is_overridden(encoder, "batch_group_criterion"):
        return "encode_batch"
    if dataset.packing is not None or dataset.packing_buffer_size is not None:
        raise UsageError(
            "MapDataset cannot follow packs that are not batched", hint="apply the function in pack_selected_samples"
        )
    hooks = ("preencode_sample", "postencode_sample")
    return "postencode_sample" if any(is_overridden(encoder, hook) for hook in hooks) else "encode_sample"


def cyclic_iter(iterable: Iterable[Any]) -> Iterator[Any]:
    """Iterate over something again and again. Raises LoaderError if an iteration yields nothing: it would never end."""
    while True:
        is_empty = True
        for each in iterable:
            is_empty = False
            yield each
        if is_empty:
            raise LoaderError("the loader has no batches", hint="check the split and the batch size", code="WDS511")


class WrappedLoader:
    """The batches of a wrapped dataset: each `for` loop is one pass, from its first batch.

    It has no state to save. `loaders`: of the datasets that are wrapped, from the first to the last.
    """

    def __init__(self, dataset: Wrapper, loaders: Sequence[Loader]) -> None:
        self._dataset = dataset
        self.loaders = tuple(loaders)

    def __iter__(self) -> Iterator[Any]:
        return _iterate(self._dataset, iter(self.loaders))

    def __len__(self) -> int:
        """Batches of this rank in one pass. Raises TypeError if it never ends, or if hooks decide."""
        return _count_batches(self._dataset, iter(self.loaders))

    def __bool__(self) -> bool:
        return True

    @property
    def dataset(self) -> Wrapper:
        return self._dataset

    @property
    def worker_config(self) -> WorkerConfig:
        return self.loaders[0].worker_config

    def save_state_rank(self) -> Any:
        """Raises LoaderError: every loop begins with the first batch."""
        raise _no_state_error(self._dataset)

    def restore_state_rank(self, state: Any) -> None:  # noqa: ARG002 - see `save_state_rank`
        raise _no_state_error(self._dataset)

    save_state = save_state_rank
    restore_state = restore_state_rank

    def start(self) -> None:
        """Open the datasets and start the workers now."""
        for loader in self.loaders:
            loader.start()

    def close(self) -> None:
        """End the workers and close the shards."""
        for loader in self.loaders:
            loader.close()


def open_wrapped(dataset: Wrapper, open_loader: Callable[[BaseDataset], Loader]) -> WrappedLoader:
    """The loader of a wrapped dataset; `open_loader` makes those of the datasets in it."""
    return WrappedLoader(dataset, [open_loader(each) for each in _limited_leaves(dataset, None)])


def leaves(dataset: AnyDataset) -> list[BaseDataset]:
    """The datasets that are wrapped, from the first to the last."""
    if isinstance(dataset, ConcatDataset):
        return [leaf for each in dataset.datasets for leaf in leaves(each)]
    return leaves(dataset.dataset) if isinstance(dataset, (RepeatDataset, LimitDataset)) else [dataset]


def _limited_leaves(dataset: AnyDataset, limit: int | None) -> list[BaseDataset]:
    """The leaves; a validation has a limit if a wrapper needs no more batches of it, so that none is prefetched."""
    if isinstance(dataset, LimitDataset):
        return _limited_leaves(dataset.dataset, dataset.length if limit is None else min(limit, dataset.length))
    if isinstance(dataset, RepeatDataset):
        return _limited_leaves(dataset.dataset, limit)
    if isinstance(dataset, ConcatDataset):
        return [leaf for each in dataset.datasets for leaf in _limited_leaves(each, limit)]
    if limit and isinstance(dataset, ValDataset):
        return [replace(dataset, limit=limit if dataset.limit is None else min(limit, dataset.limit))]
    return [dataset]


def _iterate(dataset: AnyDataset, loaders: Iterator[Loader]) -> Iterator[Any]:
    """One pass over a dataset, whose leaves have the next of these loaders."""
    if isinstance(dataset, LimitDataset):
        return islice(_iterate(dataset.dataset, loaders), dataset.length)
    if isinstance(dataset, RepeatDataset):
        return _repeat(dataset, list(islice(loaders, len(leaves(dataset)))))
    if isinstance(dataset, ConcatDataset):
        parts = [(each, list(islice(loaders, len(leaves(each))))) for each in dataset.datasets]
        return (batch for each, own in parts for batch in _iterate(each, iter(own)))
    return iter(next(loaders))


class _Pass:
    """Each iteration is one pass over a dataset."""

    def __init__(self, dataset: AnyDataset, loaders: list[Loader]) -> None:
        self._dataset = dataset
        self._loaders = loaders

    def __iter__(self) -> Iterator[Any]:
        return _iterate(self._dataset, iter(self._loaders))


def _repeat(dataset: RepeatDataset, loaders: list[Loader]) -> Iterator[Any]:
    one_pass = _Pass(dataset.dataset, loaders)
    if dataset.repeats is None:
        return cyclic_iter(one_pass)
    return (batch for _ in range(dataset.repeats) for batch in one_pass)


def _count_batches(dataset: AnyDataset, loaders: Iterator[Loader]) -> int:
    if isinstance(dataset, LimitDataset):
        inner = dataset.dataset
        if isinstance(inner, RepeatDataset) and inner.repeats is None:
            return dataset.length
        return min(dataset.length, _count_batches(inner, loaders))
    if isinstance(dataset, RepeatDataset):
        if dataset.repeats is None:
            raise TypeError("a dataset that is repeated without end has no length: wrap it in a LimitDataset")
        return dataset.repeats * _count_batches(dataset.dataset, loaders)
    if isinstance(dataset, ConcatDataset):
        return sum(_count_batches(each, loaders) for each in dataset.datasets)
    return len(next(loaders))


def _check_inner(wrapper: Wrapper) -> None:
    """Raise UsageError unless a wrapper has datasets whose passes end, with its WorkerConfig."""
    name = type(wrapper).__name__
    inner = wrapper.datasets if isinstance(wrapper, ConcatDataset) else (wrapper.dataset,)
    if not inner:
        raise UsageError(f"{name} has no datasets", hint="pass one dataset or more")
    for each in inner:
        if not isinstance(each, (BaseDataset, RepeatDataset, LimitDataset, ConcatDataset)):
            raise UsageError(
                f"{name} takes datasets, found {type(each).__name__}", hint="pass what get_val_dataset returns"
            )
        _check_worker_config(each, wrapper.worker_config)
        if isinstance(each, TrainDataset) and each.repeat:
            raise UsageError(
                f"{name} takes datasets whose passes end, found an endless training",
                hint="pass what get_val_dataset returns, or get_train_dataset(..., repeat=False)",
            )


def _check_worker_config(dataset: AnyDataset, worker_config: WorkerConfig | None) -> None:
    if worker_config is not None and any(leaf.worker_config != worker_config for leaf in leaves(dataset)):
        raise UsageError(
            "the worker_config of the wrapper differs from that of its dataset",
            hint="pass the same worker_config to get_val_dataset and to the wrapper, or omit it in the wrapper",
        )


def _no_state_error(dataset: Wrapper) -> LoaderError:
    return LoaderError(
        f"a loader of a {type(dataset).__name__} has no state: each loop begins with the first batch",
        hint="save the state of the training's loader only",
    )


def concat_pad(batch: Sequence[torch.Tensor]) -> torch.Tensor:
    """Tensors one after the other along the first dimension, padded with zeros to the largest in the others."""
    sizes = [max(each.shape[dim] for each in batch) for dim in range(1, batch[0].ndim)]
    joined = batch[0].new_zeros((sum(each.shape[0] for each in batch), *sizes))
    start = 0
    for each in batch:
        joined[(slice(start, start + each.shape[0]), *map(slice, each.shape[1:]))] = each
        start += each.shape[0]
    return joined


def generic_concat(batch: Sequence[Any]) -> Any:
    """Batches joined field by field: tensors by `concat_pad`, mappings and dataclasses by their fields, others as a
    list."""
    first = batch[0]
    if isinstance(first, torch.Tensor):
        return concat_pad(batch)
    if isinstance(first, dict):
        return {key: generic_concat([each[key] for each in batch]) for key in first}
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in dataclasses.fields(first)]
        return type(first)(**{name: generic_concat([getattr(each, name) for each in batch]) for name in names})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        named: Any = type(first)
        return named(**{name: generic_concat([getattr(each, name) for each in batch]) for name in named._fields})
    return batch


def homogeneous_concat_mix(samples: Sequence[Any]) -> Any:
    """Batches of one type as one batch: see `generic_concat`. Raises UsageError for batches of several types."""
    types = sorted({type(each).__name__ for each in samples})
    if len({type(each) for each in samples}) > 1:
        raise UsageError(f"the batches have several types: {', '.join(types)}", hint="join batches of one type")
    return generic_concat(samples)


publish_submodules(__name__)
