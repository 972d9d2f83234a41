"""`megatron.energon.task_encoder.loader`: datasets, with the arguments of earlier versions of Energon."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from wdsctl.core.errors import UsageError
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.loader import get_savable_loader
from wdsctl.loader.recipe import dataset as recipe
from wdsctl.loader.recipe.arguments import DatasetPath
from wdsctl.loader.recipe.dataset import BaseDataset, TrainDataset, ValDataset
from wdsctl.loader.recipe.task_encoder import DefaultTaskEncoder
from wdsctl.loader.runtime.failures import log_exception, reraise_exception
from wdsctl.loader.samples.energon_types import CaptioningSample, InterleavedSample

__all__ = ["get_train_dataset", "get_val_dataset", "get_val_datasets"]

#: Arguments of Energon that are options of SampleDecoder.
DECODER_OPTIONS = ("image_decode", "av_decode", "video_decode_audio", "guess_content")
LEGACY_ARGUMENTS = ("handler", "auto_decode", "ignore_decoder_errors", *DECODER_OPTIONS)
#: Arguments of Energon -> fields of a dataset that wdsctl's functions have no argument for.
FIELD_OF_ARGUMENT = {"cache_pool": "cache_pool", "sample_type": "sample_class"}

_Handler = Callable[..., Any]


class _EnergonDataset:
    """What Energon's datasets have: a length and a config, which open the dataset; and samples with its fields."""

    __slots__ = ()
    sample_classes: ClassVar[Mapping[str, type[Any]]] = {
        kind.__name__: kind for kind in (CaptioningSample, InterleavedSample)
    }

    def __len__(self) -> int:
        """Batches per rank of one pass. Raises TypeError if hooks decide."""
        dataset: Any = self
        return len(get_savable_loader(dataset))

    def config(self) -> dict[str, Any]:
        """The plan, as JSON: see `Loader.config`."""
        dataset: Any = self
        return get_savable_loader(dataset).config()

    def count_epoch_batches(self, samples: int) -> int | None:
        """Batches per rank in which `samples` are drawn once, the last one maybe smaller; None if hooks decide."""
        dataset: Any = self
        if not recipe.is_count_preserving(dataset):
            return None
        per_batch: int = (dataset.batch_size or 1) * dataset.worker_config.world_size
        return samples // per_batch if dataset.batch_drop_last else -(-samples // per_batch)


class EnergonTrainDataset(_EnergonDataset, TrainDataset):
    """A training whose length is one epoch, although it has no end: Energon's programs read it."""

    __slots__ = ()


class EnergonValDataset(_EnergonDataset, ValDataset):
    """A validation with a length."""

    __slots__ = ()


D = TypeVar("D", bound=BaseDataset)


def _copy_as(kind: type[D], dataset: BaseDataset, changes: dict[str, Any]) -> D:
    """A dataset with other fields, as an object of a class that derives from its own."""
    return kind(**{**{each.name: getattr(dataset, each.name) for each in fields(dataset)}, **changes})


def get_train_dataset(path: DatasetPath, **options: Any) -> EnergonTrainDataset:
    """`wdsctl.loader.get_train_dataset` with the arguments of earlier versions of Energon, which cause a warning.

    `handler`: called with the error, the sample and its sources (or without the sources) if a sample fails.
    `auto_decode=False`: parts stay bytes. `image_decode`, `av_decode`, `video_decode_audio`, `guess_content`: options
    of the SampleDecoder; the task encoder must not have another one. `ignore_decoder_errors` has no effect: samples
    that cannot be decoded are skipped. `cache_pool`: for cookers with `need_cache`.
    `sample_type`: the class that all samples must have; otherwise the first batch raises UsageError.
    """
    current, changes = _translate_options(options)
    return _copy_as(EnergonTrainDataset, recipe.get_train_dataset(path, **current), changes)


def get_val_dataset(path: DatasetPath, **options: Any) -> EnergonValDataset:
    """`wdsctl.loader.get_val_dataset`, with the same further arguments as `get_train_dataset`."""
    current, changes = _translate_options(options, without=("parallel_shard_iters",))
    return _copy_as(EnergonValDataset, recipe.get_val_dataset(path, **current), changes)


def get_val_datasets(path: DatasetPath, **options: Any) -> list[tuple[EnergonValDataset, Any]]:
    """`wdsctl.loader.get_val_datasets`, with the same further arguments as `get_train_dataset`."""
    current, changes = _translate_options(options, without=("parallel_shard_iters",))
    datasets = recipe.get_val_datasets(path, **current)
    return [(_copy_as(EnergonValDataset, dataset, changes), reference) for dataset, reference in datasets]


def _translate_options(options: dict[str, Any], without: tuple[str, ...] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of wdsctl's functions, and fields of the dataset that have no option. `without`: options that have
    no effect there.

    The WorkerConfig stays as it is, because programs pass it to the loader and to wrappers, too, which compare it.
    """
    left_out = {*LEGACY_ARGUMENTS, *FIELD_OF_ARGUMENT, *without}
    current = {name: value for name, value in options.items() if name not in left_out}
    used = [name for name in LEGACY_ARGUMENTS if name in options]
    changes = {field: options[name] for name, field in FIELD_OF_ARGUMENT.items() if name in options}
    handler = getattr(options.get("worker_config"), "global_error_handler", log_exception)
    if handler not in (log_exception, reraise_exception):
        changes["error_handler"] = _EnergonHandler(handler)
    if not used:
        return current, changes
    replacements = "WorkerConfig(global_error_handler=...) and `decoder` of the task encoder replace them"
    warnings.warn(f"Energon has deprecated these arguments: {', '.join(used)}; {replacements}", stacklevel=3)
    if options.get("handler") is not None:
        changes["error_handler"] = _EnergonHandler(options["handler"])
    decoding = {name: options[name] for name in DECODER_OPTIONS if name in options}
    if not options.get("auto_decode", True):
        current["task_encoder"] = _with_decoder(options.get("task_encoder"), None)
    elif decoding:
        current["task_encoder"] = _with_decoder(options.get("task_encoder"), SampleDecoder(**decoding))
    return current, changes


def _with_decoder(encoder: Any, decoder: SampleDecoder | None) -> Any:
    """A copy of the encoder with another decoder. Raises UsageError if it has one already that differs."""
    encoder = DefaultTaskEncoder() if encoder is None else encoder
    if decoder is not None and encoder.decoder is not DefaultTaskEncoder.decoder and encoder.decoder != decoder:
        raise UsageError(
            f"{type(encoder).__name__} has a decoder, and the arguments of the dataset ask for another one",
            hint="set the options in the decoder of the task encoder only",
        )
    changed = copy.copy(encoder)
    changed.decoder = decoder
    return changed


@dataclass(frozen=True)
class _EnergonHandler:
    """An error handler that gets the exception that a hook raised; those of earlier versions take no sources."""

    handler: _Handler

    def __call__(self, error: Exception, sample: Any, sources: Any) -> Any:
        raised = error.__cause__ if isinstance(error.__cause__, Exception) else error
        arguments = (raised, sample, sources)[: _parameter_count(self.handler)]
        return self.handler(*arguments)


def _parameter_count(handler: _Handler) -> int:
    """3, or 2 for a handler of (error, key), as in Energon before version 6."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # a function in C
        return 3
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return 3
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return min(3, len(positional))
