"""The arguments of a recipe: what they may be, and which of them go together. Nothing is opened."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from inspect import isgeneratorfunction
from typing import Any, Literal

from wdsctl.core.blend_file import Blender, BlendPlan
from wdsctl.core.errors import UsageError
from wdsctl.core.urls import is_url, shown
from wdsctl.loader.hook_names import warn_of_near_hooks
from wdsctl.loader.packing.buckets import Buckets
from wdsctl.loader.raw import Raw
from wdsctl.loader.task_encoder import DefaultTaskEncoder, TaskEncoder, overridden
from wdsctl.loader.worker_config import WorkerConfig, whole

Uneven = Literal["pad", "drop", "keep"]
Adopt = Literal["next_epoch"]
ChangedShards = Literal["error", "skip"]
AnyEncoder = TaskEncoder[Any, Any, Any, Any]
Path = str | os.PathLike[str] | Mapping[str, Any] | Blender | BlendPlan


def common(
    path: Path,
    task_encoder: AnyEncoder | None,
    worker_config: WorkerConfig | None,
    **given: Any,
) -> dict[str, Any]:
    """The arguments that trainings and validations have in common, by the names that `Dataset` has for them: checked,
    numbers as Python's own, paths as text. Raises UsageError by the name of what is wrong."""
    _check_kinds(task_encoder, worker_config)
    encoder = task_encoder or DefaultTaskEncoder()
    kept = path if isinstance(path, (Mapping, Blender, BlendPlan)) else os.fspath(path)
    given["batch_size"] = size_or_none("batch_size", given["batch_size"])
    given["batch_drop_last"] = bool(given["batch_drop_last"])
    given["packing_buffer_size"] = size_or_none("packing_buffer_size", given["packing_buffer_size"])
    given["most_waiting"] = _size("most_waiting", given["most_waiting"])
    given["seed"] = whole("seed", given["seed"])
    given["lanes"] = size_or_none("lanes", given["lanes"])
    given["catalog"] = None if given["catalog"] is None else os.fspath(given["catalog"])
    given["trace"] = None if given["trace"] is None else os.path.abspath(os.fspath(given["trace"]))
    given["raw"] = _checked_raw(given["raw"], encoder, kept)
    given["ban"] = _banned(given["ban"])
    given["trust_code"] = bool(given["trust_code"])
    _check_uneven(given["uneven"])
    _check_changed_shards(given["changed_shards"])
    _check_hooks(encoder, given)
    warn_of_near_hooks(encoder, stacklevel=3)
    _warn_of_no_packing(encoder, given, stacklevel=3)
    workers = worker_config or WorkerConfig()
    return {**given, "path": kept, "task_encoder": encoder, "worker_config": workers}


def _check_kinds(encoder: Any, workers: Any) -> None:
    """Raise UsageError for a class in the place of an encoder, and a number in that of a WorkerConfig."""
    if isinstance(encoder, type):
        raise UsageError(f"task_encoder is the class {encoder.__name__}", hint=f"give one: {encoder.__name__}()")
    if workers is not None and not isinstance(workers, WorkerConfig):
        raise UsageError(f"worker_config is {workers!r}", hint="give WorkerConfig(num_workers=...), or leave it out")


def _banned(ban: Any) -> tuple[Any, ...]:
    if isinstance(ban, (str, bytes)) or not isinstance(ban, Iterable):
        hint = f"give a list of keys and restore keys: ban=[{ban!r}]"
        raise UsageError(f"ban is {ban!r}, and no list of samples", hint=hint)
    return tuple(ban)


def size_or_none(name: str, value: int | None, *, least: int = 1) -> int | None:
    """A count of this name as Python's own int; None stays None. Raises UsageError below `least`."""
    return None if value is None else _size(name, value, least=least)


def checked_multiplier(passes: int | None) -> int | None:
    """How many passes are shuffled together, as Python's own int. Raises UsageError for 0 and below -1."""
    multiplier = None if passes is None else whole("shuffle_over_epochs_multiplier", passes)
    if multiplier is not None and (multiplier < -1 or multiplier == 0):
        raise UsageError(
            f"shuffle_over_epochs_multiplier is {multiplier}",
            hint="give 1 or more passes, None for no shuffling, or -1 for drawing with replacement",
        )
    return multiplier


def check_one_pass(multiplier: int | None, virtual_epoch_length: int) -> None:
    """Raise UsageError for what a training of one pass cannot have."""
    if virtual_epoch_length:
        raise UsageError(
            "virtual epochs are for trainings without end, and repeat=False is one pass",
            hint="leave virtual_epoch_length out, or give repeat=True",
        )
    if multiplier == -1:
        raise UsageError("one pass cannot be drawn with replacement", hint="give repeat=True, or a multiplier of 1")


def check_adopt(adopt: Adopt | None) -> None:
    """Raise UsageError for another word than there is."""
    if adopt not in (None, "next_epoch"):
        raise UsageError(f"adopt is {adopt!r}", hint="give 'next_epoch', or leave it out")


def _check_hooks(encoder: AnyEncoder, given: Mapping[str, Any]) -> None:
    """Raise UsageError for hooks of the encoder that do not go with one another, or not with the arguments."""
    other = next((hook for hook in ("preencode_sample", "postencode_sample") if overridden(encoder, hook)), None)
    if other is not None and overridden(encoder, "encode_sample"):
        raise UsageError(
            f"the task encoder overrides encode_sample and {other}",
            hint="override either encode_sample, or preencode_sample and postencode_sample",
        )
    selects = overridden(encoder, "select_samples_to_pack")
    if given["packing"] is not None and (selects or given["packing_buffer_size"] is not None):
        raise UsageError(
            "packing= chooses packs by length, and select_samples_to_pack or packing_buffer_size say otherwise",
            hint="give one of the two; the window of packing= is Packing(window=...)",
        )
    buffers = given["packing_buffer_size"] is not None
    if buffers and not selects:
        raise UsageError(
            "there is a packing_buffer_size, and select_samples_to_pack is not overridden",
            hint="override it, or leave packing_buffer_size out; packing=Packing(...) packs by length",
        )
    if (buffers or given["packing"] is not None) and isgeneratorfunction(encoder.postencode_sample):
        raise UsageError(
            "postencode_sample is a generator, and under packing a sample of a pack must stay one sample",
            hint="return one sample, or make several of one in preencode_sample",
        )
    if buffers and not overridden(encoder, "pack_selected_samples"):
        raise UsageError(
            "the task encoder selects samples to pack and does not pack them", hint="override pack_selected_samples"
        )
    if given["buckets"] is not None:
        _check_buckets(given["buckets"], encoder, given["batch_size"])


def _warn_of_no_packing(encoder: AnyEncoder, given: Mapping[str, Any], *, stacklevel: int) -> None:
    """An encoder that can pack may be used without, as in Energon; whoever only forgot the size should hear of it."""
    if given["packing_buffer_size"] is None and overridden(encoder, "select_samples_to_pack"):
        warnings.warn(
            "WDS516: nothing is packed: there is no packing_buffer_size, and without it select_samples_to_pack and "
            "pack_selected_samples are not called",
            stacklevel=stacklevel + 1,
        )


def _check_buckets(buckets: Buckets, encoder: AnyEncoder, batch_size: int | None) -> None:
    if overridden(encoder, "batch_group_criterion"):
        raise UsageError("buckets= and batch_group_criterion both make groups", hint="give one of the two")
    if batch_size is None and buckets.unsized:
        unsized = ", ".join(map(str, buckets.unsized))
        raise UsageError(
            f"nothing says how large the batches of some buckets are: {unsized}",
            hint="give batch_size, sizes with all edges and 'above', or max_tokens",
        )


def _check_uneven(uneven: Uneven) -> None:
    if uneven not in ("pad", "drop", "keep"):
        raise UsageError(f"uneven is {uneven!r}", hint="give 'pad', 'drop' or 'keep'")


def _check_changed_shards(changed_shards: ChangedShards | None) -> None:
    if changed_shards not in (None, "error", "skip"):
        hint = "give 'error' or 'skip', or leave it out: an error where a state is resumed, else a skip"
        raise UsageError(f"changed_shards is {changed_shards!r}", hint=hint)


def _size(name: str, value: int, *, least: int = 1) -> int:
    size = whole(name, value)
    if size < least:
        raise UsageError(f"{name} is {size}", hint=f"give {least} or more, or leave it out")
    return size


def _checked_raw(raw: Raw, encoder: AnyEncoder, path: Any) -> Raw:
    if raw not in ("bytes", "view"):
        raise UsageError(f"raw is {raw!r}", hint="give 'bytes' or 'view'")
    if raw == "view" and encoder.decoder is not None:
        raise UsageError("raw='view' is for parts that are not decoded", hint="set decoder = None in the task encoder")
    if raw == "view" and isinstance(path, str) and is_url(path):
        raise UsageError(
            "raw='view' maps files, and what is at a URL cannot be mapped",
            where=shown(path),
            hint="leave raw at 'bytes', or mount the store or copy the dataset to a disk",
        )
    return raw
