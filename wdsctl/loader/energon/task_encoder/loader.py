"""`megatron.energon.task_encoder.loader`: datasets, with the arguments of earlier versions of Energon."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.recipe import dataset as recipe
from wdsctl.loader.recipe.arguments import DatasetPath
from wdsctl.loader.recipe.dataset import TrainDataset, ValDataset
from wdsctl.loader.recipe.task_encoder import DefaultTaskEncoder

__all__ = ["get_train_dataset", "get_val_dataset", "get_val_datasets"]

#: Arguments of Energon that are options of SampleDecoder.
DECODER_OPTIONS = ("image_decode", "av_decode", "video_decode_audio", "guess_content")
LEGACY_ARGUMENTS = ("handler", "auto_decode", *DECODER_OPTIONS, "cache_pool")

_Handler = Callable[..., Any]


def get_train_dataset(path: DatasetPath, **options: Any) -> TrainDataset:
    """`wdsctl.loader.get_train_dataset` with the arguments of earlier versions of Energon, which cause a warning.

    `handler`: called with the error, the sample and its sources (or without the sources) if a sample fails.
    `auto_decode=False`: parts stay bytes. `image_decode`, `av_decode`, `video_decode_audio`, `guess_content`: options
    of the SampleDecoder; the task encoder must not have another one. `cache_pool`: for cookers with `need_cache`.
    """
    current, changes = _translate_options(options)
    return replace(recipe.get_train_dataset(path, **current), **changes)


def get_val_dataset(path: DatasetPath, **options: Any) -> ValDataset:
    """`wdsctl.loader.get_val_dataset`, with the same further arguments as `get_train_dataset`."""
    current, changes = _translate_options(options, without=("parallel_shard_iters",))
    return replace(recipe.get_val_dataset(path, **current), **changes)


def get_val_datasets(path: DatasetPath, **options: Any) -> list[tuple[ValDataset, Any]]:
    """`wdsctl.loader.get_val_datasets`, with the same further arguments as `get_train_dataset`."""
    current, changes = _translate_options(options, without=("parallel_shard_iters",))
    return [(replace(dataset, **changes), reference) for dataset, reference in recipe.get_val_datasets(path, **current)]


def _translate_options(options: dict[str, Any], without: tuple[str, ...] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of wdsctl's functions, and fields of the dataset that have no option. `without`: options that have
    no effect there.

    The WorkerConfig stays as it is, because programs pass it to the loader and to wrappers, too, which compare it.
    """
    current = {name: value for name, value in options.items() if name not in {*LEGACY_ARGUMENTS, *without}}
    used = [name for name in LEGACY_ARGUMENTS if name in options and name != "cache_pool"]
    changes = {"cache_pool": options.get("cache_pool")}
    if not used:
        return current, changes
    replacements = "WorkerConfig(global_error_handler=...) and `decoder` of the task encoder replace them"
    warnings.warn(f"Energon has deprecated these arguments: {', '.join(used)}; {replacements}", stacklevel=3)
    if options.get("handler") is not None:
        changes["error_handler"] = _LegacyHandler(options["handler"])
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
class _LegacyHandler:
    """An error handler of earlier versions: it gets the exception that a hook raised, with or without sources."""

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
