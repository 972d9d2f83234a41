"""What a training reads and how: the recipe, before anything is opened. `get_loader` runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, TypeVar

from wdsctl.core.blend_file import Blender, BlendPlan, Leaf, read_blend, traverse
from wdsctl.core.blend_file.paths import is_blend_file
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.repr_of import without_secrets
from wdsctl.core.urls import is_url, protocol
from wdsctl.loader.arguments import (
    Adopt,
    AnyEncoder,
    ChangedShards,
    Path,
    Uneven,
    check_adopt,
    check_one_pass,
    checked_multiplier,
    common,
    size_or_none,
)
from wdsctl.loader.cache.pool import CachePool
from wdsctl.loader.first_use import check_there
from wdsctl.loader.packing.buckets import Buckets
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.raw import Raw
from wdsctl.loader.task_encoder import overridden
from wdsctl.loader.worker_config import WorkerConfig

D = TypeVar("D", bound="Dataset")

WINDOW = 1000  # samples shuffled together, where nobody says otherwise
LANES_A_RANK = 8
LANES_OF_VALIDATION = 48  # whatever the ranks: so many as 1, 2, 3, 4, 6, 8, 12, 16, 24 and 48 of them divide
MOST_WAITING = 100_000  # samples that wait in groups, of one lane


@without_secrets
@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """What trainings and validations have in common. None means: choose well. `lanes`: of validations where something
    packs or groups."""

    path: Any
    split_part: str
    batch_size: int | None
    batch_drop_last: bool
    packing_buffer_size: int | None
    packing: Packing | None
    buckets: Buckets | None
    most_waiting: int
    seed: int
    lanes: int | None
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
    changed_shards: ChangedShards | None = None  # None: an error where a state is resumed, else a skip

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        raise _is_no_loader(self)

    def __iter__(self) -> NoReturn:
        raise _is_no_loader(self)

    def __getitem__(self, _: object) -> NoReturn:
        raise _is_no_loader(self)


@without_secrets
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainDataset(Dataset):
    """A shuffled stream, endless or of one pass. What was chosen is part of the plan, and of its states."""

    shuffle_buffer_size: int | None
    max_samples_per_sequence: int | None
    parallel_shard_iters: int
    shuffle_over_epochs_multiplier: int | None
    virtual_epoch_length: int
    repeat: bool
    adopt: Adopt | None = None
    adopt_weights: bool = False


@without_secrets
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
    changed_shards: ChangedShards | None = None,
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
    `changed_shards`: what becomes of a shard that is gone or not what was indexed: "error" ends the run (WDS528),
    "skip" leaves its samples out, so that others come in their place. By default an error in a run that was resumed,
    which would not be the one that was saved, and else a skip.
    Nothing is opened yet. Raises InputError or CatalogError where a dataset that is named is not there or was not
    prepared; UsageError for an argument that makes no sense, by its name, and for hooks of the encoder and arguments
    that do not go together.
    """
    of_both = common(
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
        lanes=lanes,
        catalog=catalog,
        dataset_config=dataset_config,
        split_config=split_config,
        raw=raw,
        trace=trace,
        ban=ban,
        twice=check_determinism,
        trust_code=trust_code,
        changed_shards=changed_shards,
    )
    multiplier = checked_multiplier(shuffle_over_epochs_multiplier)
    if not repeat:
        check_one_pass(multiplier, virtual_epoch_length)
    check_adopt(adopt)
    dataset = TrainDataset(
        **of_both,
        shuffle_buffer_size=size_or_none("shuffle_buffer_size", shuffle_buffer_size, least=0),
        max_samples_per_sequence=size_or_none("max_samples_per_sequence", max_samples_per_sequence),
        parallel_shard_iters=size_or_none("parallel_shard_iters", parallel_shard_iters) or 1,
        shuffle_over_epochs_multiplier=multiplier if shuffle else None,
        virtual_epoch_length=size_or_none("virtual_epoch_length", virtual_epoch_length, least=0) or 0,
        repeat=bool(repeat),
        adopt=adopt,
        adopt_weights=bool(adopt_weights),
    )
    _check_paths(dataset)
    return dataset


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
    lanes: int | None = None,
    task_encoder: AnyEncoder | None = None,
    catalog: str | os.PathLike[str] | None = None,
    dataset_config: str | None = None,
    split_config: str | None = None,
    raw: Raw = "bytes",
    trace: str | os.PathLike[str] | None = None,
    ban: Sequence[Any] = (),
    check_determinism: bool = False,
    trust_code: bool = False,
    changed_shards: ChangedShards | None = None,
) -> ValDataset:
    """The validation split, one pass a `for` loop, in its own order, with the same batches in every pass and on any
    number of ranks.

    Of a blend, all datasets one after the other; weights and repetitions mean nothing here. Batch b goes to rank
    b mod world_size, so that the last ranks may have one batch fewer: see `uneven` of `get_train_dataset`.
    `batch_drop_last` leaves a last, smaller batch out. `limit`: batches of this rank, at most, the same in every pass.
    `lanes`: where something packs or groups, streams that do so each by itself, by default 48 on any number of ranks.
    Lane l is rank l mod world_size's, whole. With another number of lanes, batches are others.
    `seed` is for random numbers in hooks. The rest is as in `get_train_dataset`.
    """
    of_both = common(
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
        lanes=lanes,
        catalog=catalog,
        dataset_config=dataset_config,
        split_config=split_config,
        raw=raw,
        trace=trace,
        ban=ban,
        twice=check_determinism,
        trust_code=trust_code,
        changed_shards=changed_shards,
    )
    dataset = ValDataset(**of_both, limit=size_or_none("limit", limit))
    _check_paths(dataset)
    return dataset


def get_val_datasets(path: Path, *, split_part: str = "val", **options: Any) -> list[tuple[ValDataset, Any]]:
    """A validation of each dataset of a blend by itself, with the reference it is for (path, split, subflavors).

    `options`: those of `get_val_dataset`. The blend file is read; raises what it is wrong in, see `read_blend`.
    """
    whole_blend = get_val_dataset(path, split_part=split_part, **options)
    plan = plan_of(whole_blend)
    found = []
    for arm in plan.arms:
        for stretch in arm.stretches:
            alone = replace(plan, arms=(replace(arm, stretches=(stretch,)),))
            found.append((replace(whole_blend, path=alone), traverse(alone)[0]))
    return found


def is_count_preserving(dataset: Dataset) -> bool:
    """Whether every run of positions makes one batch: nothing packs, groups, or makes several batches of one."""
    return (
        dataset.packing is None
        and dataset.packing_buffer_size is None
        and dataset.buckets is None
        and not overridden(dataset.task_encoder, "batch_group_criterion")
    )


def resumed(dataset: D, *, is_resumed: bool) -> D:
    """The recipe of a run that goes on from a state, or of one that begins: what it does about changed shards."""
    if dataset.changed_shards is not None:
        return dataset
    return replace(dataset, changed_shards="error" if is_resumed else "skip")


def _check_paths(dataset: Dataset) -> None:
    """Raise what the blend file is wrong in, and where a dataset that is to be read is not there. Of what lies at URLs
    nothing is asked for."""
    if isinstance(dataset.path, str) and is_url(dataset.path) and is_blend_file(dataset.path):
        return
    plan = plan_of(dataset)
    segments = [segment.weights for segment in plan.schedule] or [tuple(arm.weight for arm in plan.arms)]
    for number, arm in enumerate(plan.arms):
        if any(weights[number] for weights in segments):
            for stretch in arm.stretches:
                if stretch.repetitions:
                    _check_leaf(stretch.leaf, dataset)


def _check_leaf(leaf: Leaf, dataset: Dataset) -> None:
    with told_where(leaf, dataset):
        check_there(leaf.path, dataset.catalog)
        for reference in leaf.aux.values():
            path = reference.removeprefix("filesystem://")
            if not protocol(path) and not os.path.exists(path):
                hint = "a path in a blend file is beside that file, unless it is absolute"
                raise InputError("the auxiliary store does not exist", where=path, hint=hint)
    for member in leaf.join.members if leaf.join is not None else ():
        _check_leaf(member, dataset)


@contextmanager
def told_where(leaf: Leaf, dataset: Dataset) -> Iterator[None]:
    """What is wrong with a dataset is told with the line of the blend file that names it."""
    try:
        yield
    except (InputError, CatalogError) as error:
        if leaf.where in ("", str(dataset.path)):
            raise
        where = f"{error.where} ({leaf.where})" if error.where else leaf.where
        raise type(error)(error.message, hint=error.hint, where=where, code=error.code) from error


def _is_no_loader(dataset: Dataset) -> TypeError:
    """What torch's DataLoader is told, and a `for` loop: as a TypeError, which is how objects say that they cannot."""
    return TypeError(
        f"a {type(dataset).__name__} says what is read, and has no samples itself: iterate get_loader(dataset), which "
        "takes the place of torch's DataLoader (its workers: worker_config=WorkerConfig(num_workers=...))"
    )


def plan_of(dataset: Dataset) -> BlendPlan:
    """The flat plan of what a dataset names: a prepared dataset, a blend file, a mapping, a Blender or a plan.

    Raises what `read_blend` raises; of prepared datasets nothing is read.
    """
    path = dataset.path
    if isinstance(path, BlendPlan):
        return path
    mode: Any = "train" if isinstance(dataset, TrainDataset) else "val"
    multiplier = dataset.shuffle_over_epochs_multiplier if isinstance(dataset, TrainDataset) else None
    read = path.plan if isinstance(path, Blender) else partial(read_blend, path)
    plan: BlendPlan = read(split_part=dataset.split_part, mode=mode, multiplier=multiplier)
    return plan
