"""Checks of the arguments of datasets: their values, and arguments that exclude each other. Opens no files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from inspect import isgeneratorfunction
from typing import Any, Literal

from wdsctl.core.blend import Blender, BlendPlan
from wdsctl.core.errors import UsageError, require_int
from wdsctl.core.urls import is_url, normalize_root, redact_secrets
from wdsctl.loader.packing.buckets import Buckets
from wdsctl.loader.reading.layout import RawMode
from wdsctl.loader.recipe.hooks import warn_of_misspelled_hooks
from wdsctl.loader.recipe.task_encoder import DefaultTaskEncoder, TaskEncoder, is_overridden
from wdsctl.loader.recipe.worker_config import WorkerConfig
from wdsctl.loader.windows.windows import check_delta_timestamps

UnevenMode = Literal["pad", "drop", "keep"]
AdoptMode = Literal["next_epoch"]
AnyTaskEncoder = TaskEncoder[Any, Any, Any, Any]
DatasetPath = str | os.PathLike[str] | Mapping[str, Any] | Blender | BlendPlan


def check_common_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `get_train_dataset` or `get_val_dataset` with those checked that both have.

    Counts become Python ints, paths strings. Raises UsageError that names the argument; warns (WDS515, WDS516) with
    the stack level of the caller's caller.
    """
    checked = dict(arguments)
    encoder, workers, path = checked["task_encoder"], checked["worker_config"], checked["path"]
    if isinstance(encoder, type):
        raise UsageError(f"task_encoder is the class {encoder.__name__}", hint=f"pass an object: {encoder.__name__}()")
    if encoder is not None and not isinstance(encoder, TaskEncoder):
        hint = "pass an object of a class that derives from DefaultTaskEncoder and overrides its hooks"
        raise UsageError(f"task_encoder is a {type(encoder).__name__}, expected a TaskEncoder", hint=hint)
    if workers is not None and not isinstance(workers, WorkerConfig):
        raise UsageError(f"worker_config is {workers!r}", hint="pass WorkerConfig(num_workers=...), or omit it")
    checked["task_encoder"] = encoder = encoder or DefaultTaskEncoder()
    checked["worker_config"] = workers or WorkerConfig()
    checked["path"] = path if isinstance(path, (Mapping, Blender, BlendPlan)) else os.fspath(path)
    for name in ("batch_size", "packing_buffer_size", "lanes"):
        checked[name] = size_or_none(name, checked[name])
    checked["most_waiting"] = _checked_size("most_waiting", checked["most_waiting"])
    checked["seed"] = require_int("seed", checked["seed"])
    for name in ("batch_drop_last", "trust_code"):
        checked[name] = bool(checked[name])
    checked["catalog"] = None if checked["catalog"] is None else os.fspath(checked["catalog"])
    checked["trace"] = None if checked["trace"] is None else _trace_folder(os.fspath(checked["trace"]))
    checked["delta_timestamps"], checked["tolerance_s"] = check_delta_timestamps(
        checked["delta_timestamps"], checked["tolerance_s"]
    )
    _check_raw(checked["raw"], encoder, checked["path"])
    ban = checked["ban"]
    if isinstance(ban, (str, bytes)) or not isinstance(ban, Iterable):
        hint = f"pass a list of keys and restore keys: ban=[{ban!r}]"
        raise UsageError(f"ban is {ban!r}, not a list of samples", hint=hint)
    checked["ban"] = tuple(ban)
    if checked["uneven"] not in ("pad", "drop", "keep"):
        raise UsageError(f"uneven is {checked['uneven']!r}", hint="pass 'pad', 'drop' or 'keep'")
    if checked["changed_shards"] not in (None, "error", "skip"):
        hint = "pass 'error' or 'skip', or omit it: by default, a resumed run fails and a new run skips changed shards"
        raise UsageError(f"changed_shards is {checked['changed_shards']!r}", hint=hint)
    _check_hooks(encoder, checked)
    warn_of_misspelled_hooks(encoder, stacklevel=3)
    if checked["packing_buffer_size"] is None and is_overridden(encoder, "select_samples_to_pack"):
        warnings.warn(  # Energon allows this
            "WDS516: samples are not packed: without packing_buffer_size, the loader does not call "
            "select_samples_to_pack and pack_selected_samples",
            stacklevel=3,
        )
    return checked


def check_train_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `TrainDataset` from arguments that passed `check_common_arguments`. Raises UsageError."""
    checked = dict(arguments)
    multiplier = checked["shuffle_over_epochs_multiplier"]
    if multiplier is not None:
        multiplier = require_int("shuffle_over_epochs_multiplier", multiplier)
        if multiplier < -1 or multiplier == 0:
            raise UsageError(
                f"shuffle_over_epochs_multiplier is {multiplier}",
                hint="pass 1 or more epochs, None for no shuffling, or -1 to draw with replacement",
            )
    if not checked["repeat"]:
        if checked["virtual_epoch_length"]:
            raise UsageError(
                "virtual_epoch_length needs an endless training, and repeat=False is one pass",
                hint="omit virtual_epoch_length, or pass repeat=True",
            )
        if multiplier == -1:
            raise UsageError("one pass cannot be drawn with replacement", hint="pass repeat=True, or a multiplier of 1")
    if checked["adopt"] not in (None, "next_epoch"):
        raise UsageError(f"adopt is {checked['adopt']!r}", hint="pass 'next_epoch', or omit it")
    checked["shuffle_over_epochs_multiplier"] = multiplier if checked.pop("shuffle") else None
    for name, minimum in (("shuffle_buffer_size", 0), ("max_samples_per_sequence", 1)):
        checked[name] = size_or_none(name, checked[name], minimum=minimum)
    for name, minimum in (("parallel_shard_iters", 1), ("virtual_epoch_length", 0)):
        checked[name] = size_or_none(name, checked[name], minimum=minimum) or minimum
    for name in ("repeat", "adopt_weights"):
        checked[name] = bool(checked[name])
    return checked


def _trace_folder(path: str) -> str:
    """The absolute path of a folder of traces, or its URL unchanged. Raises UsageError for an empty path."""
    if not path:
        raise UsageError("trace is an empty path", hint="pass the folder or the URL of the trace, or omit it")
    folder = normalize_root(path)
    return folder if is_url(folder) else os.path.abspath(folder)


def size_or_none(name: str, value: int | None, *, minimum: int = 1) -> int | None:
    """A count as a Python int; None stays None. Raises UsageError below `minimum`."""
    return None if value is None else _checked_size(name, value, minimum=minimum)


def _check_hooks(encoder: AnyTaskEncoder, arguments: Mapping[str, Any]) -> None:
    """Raise UsageError for hooks that exclude each other or an argument."""
    other = next((hook for hook in ("preencode_sample", "postencode_sample") if is_overridden(encoder, hook)), None)
    if other is not None and is_overridden(encoder, "encode_sample"):
        raise UsageError(
            f"the task encoder overrides encode_sample and {other}",
            hint="override either encode_sample, or preencode_sample and postencode_sample",
        )
    selects = is_overridden(encoder, "select_samples_to_pack")
    if arguments["packing"] is not None and (selects or arguments["packing_buffer_size"] is not None):
        raise UsageError(
            "packing= cannot be combined with select_samples_to_pack or packing_buffer_size",
            hint="use one of the two; for packing=, set the buffer with Packing(window=...)",
        )
    buffers = arguments["packing_buffer_size"] is not None
    if buffers and not selects:
        raise UsageError(
            "packing_buffer_size needs a task encoder that overrides select_samples_to_pack",
            hint="override select_samples_to_pack, or pass packing=Packing(...) instead to pack by length",
        )
    if (buffers or arguments["packing"] is not None) and isgeneratorfunction(encoder.postencode_sample):
        raise UsageError(
            "postencode_sample is a generator, but each sample of a pack must stay one sample",
            hint="return one sample, or yield several in preencode_sample",
        )
    if buffers and not is_overridden(encoder, "pack_selected_samples"):
        raise UsageError(
            "the task encoder overrides select_samples_to_pack but not pack_selected_samples",
            hint="override pack_selected_samples",
        )
    if arguments["buckets"] is not None:
        _check_buckets(arguments["buckets"], encoder, arguments["batch_size"])


def _check_buckets(buckets: Buckets, encoder: AnyTaskEncoder, batch_size: int | None) -> None:
    if is_overridden(encoder, "batch_group_criterion"):
        raise UsageError("buckets= cannot be combined with batch_group_criterion", hint="use one of the two")
    if batch_size is None and buckets.edges_without_size:
        unsized = ", ".join(map(str, buckets.edges_without_size))
        raise UsageError(
            f"some buckets have no batch size: {unsized}",
            hint="pass batch_size, sizes with all edges and 'above', or max_tokens",
        )


def _checked_size(name: str, value: int, *, minimum: int = 1) -> int:
    size = require_int(name, value)
    if size < minimum:
        raise UsageError(f"{name} is {size}, expected {minimum} or more", hint=f"pass {minimum} or more, or omit it")
    return size


def _check_raw(raw: RawMode, encoder: AnyTaskEncoder, path: Any) -> None:
    if raw not in ("bytes", "view"):
        raise UsageError(f"raw is {raw!r}", hint="pass 'bytes' or 'view'")
    if raw == "view" and encoder.decoder is not None:
        raise UsageError("raw='view' needs undecoded parts", hint="set decoder = None in the task encoder")
    if raw == "view" and isinstance(path, str) and is_url(path):
        raise UsageError(
            "raw='view' maps files into memory, which URLs do not support",
            where=redact_secrets(path),
            hint="omit raw, or copy the dataset to a disk",
        )
