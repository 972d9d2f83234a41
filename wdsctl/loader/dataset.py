"""What a training reads and how: the recipe, before anything is opened. `get_loader` runs it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isgeneratorfunction
from typing import Any, Literal

from wdsctl.core.blend_file import Blender, BlendPlan, traverse
from wdsctl.core.errors import UsageError
from wdsctl.core.urls import is_url, shown
from wdsctl.loader.cache.pool import CachePool
from wdsctl.loader.packing.buckets import Buckets
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.raw import Raw
from wdsctl.loader.task_encoder import DefaultTaskEncoder, TaskEncoder, overridden
from wdsctl.loader.worker_config import WorkerConfig, whole

Uneven = Literal["pad", "drop", "keep"]
Adopt = Literal["next_epoch"]
AnyEncoder = TaskEncoder[Any, Any, Any, Any]
Path = str | os.PathLike[str] | Mapping[str, Any] | Blender | BlendPlan

WINDOW = 1000  # samples shuffled together, where nobody says otherwise
LANES_A_RANK = 8
MOST_WAITING = 100_000  # samples that wait in groups, of one lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What trainings and validations have in common. None means: choose well."""

    path: Any
    split_part: str
    batch_size: int | None
    batch_drop_last: bool
    packing_buffer_size: int | None
    packing: Packing | None
    buckets: Buckets | None
    most_waiting: int
    seed: int
    task_encoder: AnyEncoder
    worker_config: WorkerConfig
    catalog: str | None
    dataset_config: str | None
    split_config: str | None
    raw: Raw
    uneven: Uneven
    trace: str | None
    ban: tuple[Any, ...]
    twice: bool
    crude: bool = False  # all parts by their names, whatever dataset.yaml says
    trust_code: bool = False
    cache_pool: CachePool | None = None  # for cookers that want one; given to the loader


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainDataset(Dataset):
    """A shuffled stream, endless or of one pass. What was chosen is part of the plan, and of its states."""

    shuffle_buffer_size: int | None
    max_samples_per_sequence: int | None
    parallel_shard_iters: int
    shuffle_over_epochs_multiplier: int | None
    lanes: int | None
    virtual_epoch_length: int
    repeat: bool
    adopt: Adopt | None = None
    adopt_weights: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ValDataset(Dataset):
    """Finite passes in the order of the split, every one the same. `limit`: batches a rank at most."""

    limit: int | None


def get_train_dataset(
    path: Path,
    *,
    batch_size: int | None = None,
    split_part: str = "train",
    worker_config: WorkerConfig | None = None,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    packing: Packing | None = None,
    buckets: Buckets | None = None,
    most_waiting: int = MOST_WAITING,
    shuffle_buffer_size: int | None = WINDOW,
    max_samples_per_sequence: int | None = None,
    parallel_shard_iters: int | None = None,
    shuffle_over_epochs_multiplier: int | None = 1,
    shuffle: bool = True,
    virtual_epoch_length: int = 0,
    repeat: bool = True,
    uneven: Uneven = "keep",
    seed: int = 0,
    lanes: int | None = None,
    adopt: Adopt | None = None,
    adopt_weights: bool = False,
    task_encoder: AnyEncoder | None = None,
    catalog: str | os.PathLike[str] | None = None,
    dataset_config: str | None = None,
    split_config: str | None = None,
    raw: Raw = "bytes",
    trace: str | os.PathLike[str] | None = None,
    ban: Sequence[Any] = (),
    check_determinism: bool = False,
    trust_code: bool = False,
) -> TrainDataset:
    """The training split of a prepared dataset or a blend of several, shuffled anew in every epoch, without end.

    `path`: a dataset, a blend file (YAML), the same as a mapping, or a `Blender`.
    `batch_size`: samples a batch; None hands samples out one by one.
    `packing_buffer_size`: samples that `select_samples_to_pack` chooses from. `packing`: packs without code, see
    `Packing`. `buckets`: batches of samples that are alike, see `Buckets`. `most_waiting`: samples that may wait in
    groups, a lane; beyond, the group that has waited longest goes as a smaller batch.
    `shuffle_buffer_size`: samples shuffled together; None, 0 or 1 keep neighbours together. No buffer is filled: it
    costs no memory and no time at the start. `max_samples_per_sequence`: neighbouring samples that are read together,
    by default 16 from local disks and 128 over a network. `parallel_shard_iters`: so many such runs at least are
    shuffled together. `shuffle_over_epochs_multiplier`: passes shuffled together; None (or `shuffle=False`) takes
    samples as they lie; -1 draws with replacement.
    `virtual_epoch_length`: batches of this rank that a `for` loop gives before it ends; the next one goes on.
    `repeat=False`: one pass. `uneven`: what ranks do where they have not equally many batches of it: "keep" them,
    "drop" what others lack, or "pad" with the last batch once more, marked by `loader.is_padding`.
    `seed`: another seed, another order. `lanes`: streams that the job is made of, by default 8 a rank; a job that will
    grow may ask for more.
    `adopt="next_epoch"`: a state of a dataset that has grown since goes on with what it was to the end of the epoch,
    and then with what it is now; otherwise with what it was, for ever. `adopt_weights`: a state of a blend with other
    weights goes on with the present ones from where it stands; otherwise it is refused.
    `catalog`: its folder, where it is not in the dataset. `dataset_config`: another file beside dataset.yaml.
    `split_config`: a file beside it, or in `.nv-meta`, that divides as Energon's split.yaml does, in the place of the
    catalog's splits.
    `raw="view"`, with `decoder = None`: parts are memoryviews of the mapped shards instead of bytes, without a copy; a
    shard that is truncated under them kills the process.
    `trace`: a folder where every rank keeps which samples were in which batch, for `wdsctl trace`.
    `ban`: keys or restore keys of samples that are left out from here on, while all others keep their places.
    `check_determinism`: every hook runs twice on each sample; one whose results differ is an error that names it.
    `trust_code`: functions that lie beside the data, which dataset.yaml may name, are run; otherwise they are refused.
    Nothing is opened yet.
    """
    common = _common(
        path,
        task_encoder,
        worker_config,
        batch_size=batch_size,
        split_part=split_part,
        batch_drop_last=batch_drop_last,
        packing_buffer_size=packing_buffer_size,
        packing=packing,
        buckets=buckets,
        most_waiting=most_waiting,
        uneven=uneven,
        seed=seed,
        catalog=catalog,
        dataset_config=dataset_config,
        split_config=split_config,
        raw=raw,
        trace=trace,
        ban=ban,
        twice=check_determinism,
        trust_code=bool(trust_code),
    )
    multiplier = shuffle_over_epochs_multiplier
    if multiplier is not None and (whole("shuffle_over_epochs_multiplier", multiplier) < -1 or multiplier == 0):
        raise UsageError(
            f"shuffle_over_epochs_multiplier is {multiplier}",
            hint="give 1 or more passes, None for no shuffling, or -1 for drawing with replacement",
        )
    if not repeat and virtual_epoch_length:
        raise UsageError(
            "virtual epochs are for trainings without end, and repeat=False is one pass",
            hint="leave virtual_epoch_length out, or give repeat=True",
        )
    if not repeat and multiplier == -1:
        raise UsageError("one pass cannot be drawn with replacement", hint="give repeat=True, or a multiplier of 1")
    if adopt not in (None, "next_epoch"):
        raise UsageError(f"adopt is {adopt!r}", hint="give 'next_epoch', or leave it out")
    return TrainDataset(
        **common,
        shuffle_buffer_size=_size("shuffle_buffer_size", shuffle_buffer_size, least=0),
        max_samples_per_sequence=_size("max_samples_per_sequence", max_samples_per_sequence),
        parallel_shard_iters=_size("parallel_shard_iters", parallel_shard_iters) or 1,
        shuffle_over_epochs_multiplier=multiplier if shuffle else None,
        lanes=_size("lanes", lanes),
        virtual_epoch_length=_size("virtual_epoch_length", virtual_epoch_length, least=0) or 0,
        repeat=bool(repeat),
        adopt=adopt,
        adopt_weights=bool(adopt_weights),
    )


def get_val_dataset(
    path: Path,
    *,
    batch_size: int | None = None,
    split_part: str = "val",
    worker_config: WorkerConfig | None = None,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    packing: Packing | None = None,
    buckets: Buckets | None = None,
    most_waiting: int = MOST_WAITING,
    limit: int | None = None,
    uneven: Uneven = "keep",
    seed: int = 0,
    task_encoder: AnyEncoder | None = None,
    catalog: str | os.PathLike[str] | None = None,
    dataset_config: str | None = None,
    split_config: str | None = None,
    raw: Raw = "bytes",
    trace: str | os.PathLike[str] | None = None,
    ban: Sequence[Any] = (),
    check_determinism: bool = False,
    trust_code: bool = False,
) -> ValDataset:
    """The validation split, one pass a `for` loop, in its own order, the same in every pass and on any number of ranks.

    Of a blend, all datasets one after the other; weights and repetitions mean nothing here. Batch b goes to rank
    b mod world_size, so that the last ranks may have one batch fewer: see `uneven` of `get_train_dataset`.
    `batch_drop_last` leaves a last, smaller batch out. `limit`: batches of this rank, at most, the same in every pass.
    `seed` is for random numbers in hooks. The rest is as in `get_train_dataset`.
    """
    common = _common(
        path,
        task_encoder,
        worker_config,
        batch_size=batch_size,
        split_part=split_part,
        batch_drop_last=batch_drop_last,
        packing_buffer_size=packing_buffer_size,
        packing=packing,
        buckets=buckets,
        most_waiting=most_waiting,
        uneven=uneven,
        seed=seed,
        catalog=catalog,
        dataset_config=dataset_config,
        split_config=split_config,
        raw=raw,
        trace=trace,
        ban=ban,
        twice=check_determinism,
        trust_code=bool(trust_code),
    )
    return ValDataset(**common, limit=_size("limit", limit))


def get_val_datasets(path: Path, *, split_part: str = "val", **options: Any) -> list[tuple[ValDataset, Any]]:
    """A validation of each dataset of a blend by itself, with the reference it is for (path, split, subflavors)."""
    from wdsctl.loader.streams import plan_of

    whole_blend = get_val_dataset(path, split_part=split_part, **options)
    plan = plan_of(whole_blend)
    found = []
    for arm in plan.arms:
        for stretch in arm.stretches:
            alone = replace(plan, arms=(replace(arm, stretches=(stretch,)),))
            found.append((replace(whole_blend, path=alone), traverse(alone)[0]))
    return found


def _common(
    path: Path,
    task_encoder: AnyEncoder | None,
    worker_config: WorkerConfig | None,
    **given: Any,
) -> dict[str, Any]:
    """The arguments that both kinds of datasets take, checked."""
    encoder = task_encoder or DefaultTaskEncoder()
    kept = path if isinstance(path, (Mapping, Blender, BlendPlan)) else os.fspath(path)
    given["batch_size"] = _size("batch_size", given["batch_size"])
    given["batch_drop_last"] = bool(given["batch_drop_last"])
    given["packing_buffer_size"] = _size("packing_buffer_size", given["packing_buffer_size"])
    given["most_waiting"] = _size("most_waiting", whole("most_waiting", given["most_waiting"]))
    given["seed"] = whole("seed", given["seed"])
    given["catalog"] = None if given["catalog"] is None else os.fspath(given["catalog"])
    given["trace"] = None if given["trace"] is None else os.path.abspath(os.fspath(given["trace"]))
    given["raw"] = _checked_raw(given["raw"], encoder, kept)
    given["ban"] = tuple(given["ban"])
    _check_uneven(given["uneven"])
    _check_packing(encoder, given)
    workers = worker_config or WorkerConfig.default_worker_config()
    return {**given, "path": kept, "task_encoder": encoder, "worker_config": workers}


def _check_packing(encoder: AnyEncoder, given: Mapping[str, Any]) -> None:
    both = [hook for hook in ("encode_sample", "preencode_sample") if overridden(encoder, hook)]
    both += ["postencode_sample"] if overridden(encoder, "postencode_sample") else []
    if "encode_sample" in both and len(both) > 1:
        raise UsageError(
            f"the task encoder overrides encode_sample and {both[1]}",
            hint="override either encode_sample, or preencode_sample and postencode_sample",
        )
    selects = overridden(encoder, "select_samples_to_pack")
    if given["packing"] is not None and (selects or given["packing_buffer_size"] is not None):
        raise UsageError(
            "packing= chooses packs by length, and select_samples_to_pack or packing_buffer_size say otherwise",
            hint="give one of the two; the window of packing= is Packing(window=...)",
        )
    if (given["packing_buffer_size"] is not None) != selects:
        missing = "select_samples_to_pack is not overridden" if not selects else "there is no packing_buffer_size"
        raise UsageError(
            f"packing by the task encoder needs both, and {missing}",
            hint="override select_samples_to_pack and give packing_buffer_size, or give packing=Packing(...)",
        )
    if (selects or given["packing"] is not None) and isgeneratorfunction(encoder.postencode_sample):
        raise UsageError(
            "postencode_sample is a generator, and under packing a sample of a pack must stay one sample",
            hint="return one sample, or make several of one in preencode_sample",
        )
    if selects and not overridden(encoder, "pack_selected_samples"):
        raise UsageError(
            "the task encoder selects samples to pack and does not pack them", hint="override pack_selected_samples"
        )
    if given["buckets"] is not None and overridden(encoder, "batch_group_criterion"):
        raise UsageError("buckets= and batch_group_criterion both make groups", hint="give one of the two")


def _check_uneven(uneven: Uneven) -> None:
    if uneven not in ("pad", "drop", "keep"):
        raise UsageError(f"uneven is {uneven!r}", hint="give 'pad', 'drop' or 'keep'")


def _size(name: str, value: int | None, *, least: int = 1) -> int | None:
    if value is None:
        return None
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
