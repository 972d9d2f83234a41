"""Training and validation datasets: the samples of a loader and their order, as values. Opens no files.

`get_loader` runs them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from wdsctl.core.blend import Blender, BlendPlan, Leaf, read_blend, traverse, validation_plan
from wdsctl.core.dataset.view_root import is_blend_file
from wdsctl.core.errors import CatalogError, InputError, UsageError
from wdsctl.core.urls import is_url, protocol, redact_repr
from wdsctl.loader.packing.buckets import Buckets
from wdsctl.loader.packing.options import Packing
from wdsctl.loader.reading.first_use import check_dataset_exists
from wdsctl.loader.reading.layout import RawMode
from wdsctl.loader.recipe.arguments import (
    AdoptMode,
    AnyTaskEncoder,
    DatasetPath,
    UnevenMode,
    check_common_arguments,
    check_train_arguments,
    size_or_none,
)
from wdsctl.loader.recipe.task_encoder import is_overridden
from wdsctl.loader.recipe.worker_config import WorkerConfig
from wdsctl.loader.runtime.failures import ChangedShardsMode, ErrorHandler
from wdsctl.loader.stores.cache import CachePool
from wdsctl.loader.windows.windows import TOLERANCE_S, DeltaTimestamps

if TYPE_CHECKING:
    from wdsctl.loader.stores.shard_cache import ShardCache

D = TypeVar("D", bound="BaseDataset")

DEFAULT_SHUFFLE_BUFFER_SIZE = 1000  # samples shuffled together
LANES_PER_RANK = 8
VALIDATION_LANES = 48  # on any number of ranks; 1, 2, 3, 4, 6, 8, 12, 16, 24 and 48 divide it
MAX_WAITING_SAMPLES = 100_000  # per lane, buffered while groups fill up


@redact_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class BaseDataset:
    """The arguments that training and validation share: see `get_train_dataset`. None: the loader chooses.

    `lanes`: of a validation only if samples are packed or grouped.
    """

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
    task_encoder: AnyTaskEncoder
    worker_config: WorkerConfig
    catalog: str | None
    dataset_config: str | None
    split_config: str | None
    raw: RawMode
    uneven: UnevenMode
    trace: str | None
    ban: tuple[Any, ...]
    check_determinism: bool
    crude: bool = False  # samples are dicts of all parts, whatever dataset.yaml says
    trust_code: bool = False
    cache_pool: CachePool | None = None  # for cookers that use one; passed to the loader
    delta_timestamps: DeltaTimestamps | None = None  # seconds by feature
    tolerance_s: float = TOLERANCE_S
    shard_cache: ShardCache | None = None  # for slices of datasets at URLs; passed to the loader
    error_handler: ErrorHandler | None = None  # in the place of the WorkerConfig's global_error_handler
    sample_class: type[Any] | None = None  # that all samples must have; for programs of Energon
    changed_shards: ChangedShardsMode | None = None  # None: "error" when a state is resumed; else skip, up to a limit

    #: Classes of samples, by the name of the type, in the place of the type's own; for programs of Energon.
    sample_classes: ClassVar[Mapping[str, type[Any]]] = {}

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        raise _not_iterable_error(self)

    def __iter__(self) -> NoReturn:
        raise _not_iterable_error(self)

    def __getitem__(self, _: object) -> NoReturn:
        raise _not_iterable_error(self)

    def count_epoch_batches(self, samples: int) -> int | None:  # noqa: ARG002 - see `wdsctl.loader.energon`
        """Batches per rank that count as the length of an endless training; None: it has no length."""
        return None


@redact_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainDataset(BaseDataset):
    """A shuffled stream, endless or of one pass. A state only fits a loader with the same arguments."""

    shuffle_buffer_size: int | None
    max_samples_per_sequence: int | None
    parallel_shard_iters: int
    shuffle_over_epochs_multiplier: int | None
    virtual_epoch_length: int
    repeat: bool
    adopt: AdoptMode | None = None
    adopt_weights: bool = False


@redact_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ValDataset(BaseDataset):
    """Identical finite passes in the order of the split. `limit`: maximum number of batches per rank."""

    limit: int | None


def get_train_dataset(
    path: DatasetPath,
    *,
    batch_size: int | None = None,
    split_part: str = "train",
    worker_config: WorkerConfig | None = None,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    packing: Packing | None = None,
    buckets: Buckets | None = None,
    most_waiting: int = MAX_WAITING_SAMPLES,
    shuffle_buffer_size: int | None = DEFAULT_SHUFFLE_BUFFER_SIZE,
    max_samples_per_sequence: int | None = None,
    parallel_shard_iters: int | None = None,
    shuffle_over_epochs_multiplier: int | None = 1,
    shuffle: bool = True,
    virtual_epoch_length: int = 0,
    repeat: bool = True,
    uneven: UnevenMode = "keep",
    seed: int = 0,
    lanes: int | None = None,
    adopt: AdoptMode | None = None,
    adopt_weights: bool = False,
    task_encoder: AnyTaskEncoder | None = None,
    catalog: str | os.PathLike[str] | None = None,
    dataset_config: str | None = None,
    split_config: str | None = None,
    delta_timestamps: DeltaTimestamps | None = None,
    tolerance_s: float = TOLERANCE_S,
    raw: RawMode = "bytes",
    trace: str | os.PathLike[str] | None = None,
    ban: Sequence[Any] = (),
    check_determinism: bool = False,
    trust_code: bool = False,
    changed_shards: ChangedShardsMode | None = None,
) -> TrainDataset:
    """The training split of a prepared dataset or a blend, shuffled in every epoch, endless by default.

    Nothing is opened yet, so that a call costs milliseconds. Raises InputError or CatalogError if a named dataset does
    not exist or was not prepared; UsageError for an invalid argument, and for hooks and arguments that exclude each
    other.

    What is read:

    - `path`: a dataset, a blend file (YAML), the same as a mapping, or a `Blender`. `split_part`: the split.
    - `catalog`: the folder of the catalog if it is not in the dataset. `dataset_config`: a file to use instead of
      dataset.yaml, next to it. `split_config`: a file next to it or in `.nv-meta`, in the format of Energon's
      split.yaml, that replaces the catalog's splits.
    - `delta_timestamps`: time windows of frames, for each feature the seconds relative to the frame, named as in
      LeRobot: `{"action": [0, 0.1, 0.2]}`. A sample then has the feature as a tensor of (times, ...), and `NAME_is_pad`
      for the times outside of the sequence. `tolerance_s`: how far a time may be from that of a frame.
    - `ban`: keys or restore keys of samples to exclude from now on. All others keep their positions in the order.
    - `changed_shards`: what to do with a shard that is missing or not what was indexed: "error" ends the run (WDS528),
      "skip" replaces its samples by others. Default: "error" in a resumed run; a new run skips them, and ends at 100
      in a row.

    Batches:

    - `batch_size`: samples per batch; None returns single samples. `batch_drop_last`: drop an incomplete last batch.
    - `packing_buffer_size`: samples that `select_samples_to_pack` chooses from. `packing`: packs without hooks, see
      `Packing`. `buckets`: batches of samples of similar length, see `Buckets`.
    - `most_waiting`: maximum number of samples buffered per lane while groups fill up; beyond that, the oldest group is
      emitted as a smaller batch.
    - `task_encoder`: the hooks; by default the samples themselves, batched by `generic_batch`.
    - `raw="view"`, with `decoder = None`: parts are memoryviews of the mapped shards instead of bytes, without a copy.
      If a mapped shard is truncated, reading a view kills the process.

    Order:

    - `seed`: decides the order.
    - `shuffle_buffer_size`: samples shuffled together; None, 0 or 1 keep neighbours together. No buffer is filled, so
      that it costs neither memory nor time at the start. `max_samples_per_sequence`: neighbouring samples that are read
      together (a slice), by default 16 from local disks and 128 over a network. `parallel_shard_iters`: minimum number
      of slices shuffled together.
    - `shuffle_over_epochs_multiplier`: epochs shuffled together; None, or `shuffle=False`, keeps the order of the
      shards; -1 draws with replacement.
    - `virtual_epoch_length`: batches per rank after which a `for` loop ends; the next loop continues.
    - `repeat=False`: one pass. `uneven`: what to do if ranks have unequal numbers of batches in it: "keep" them, "drop"
      the surplus, or "pad" by repeating the last batch, marked by `loader.is_padding`.
    - `lanes`: independent streams that the order is divided into, by default 8 per rank; more for a job that will grow.

    Processes and states:

    - `worker_config`: ranks and workers.
    - `adopt="next_epoch"`: a state of a dataset that has grown since continues with the old samples to the end of the
      epoch and then uses all; None continues with the old samples for ever. `adopt_weights`: a state of a blend with
      other weights continues with the present ones; otherwise it is refused.
    - `trace`: a folder where each rank records which samples are in which batch, for `wdsctl trace`.
    - `check_determinism`: run every hook twice per sample, and fail with its name if results differ.
    - `trust_code`: run code next to the data that dataset.yaml names; otherwise it is refused.
    """
    arguments = check_common_arguments(locals())
    dataset = TrainDataset(**check_train_arguments(arguments))
    _check_plan(path, has_defaults=split_part == "train" and dataset.shuffle_over_epochs_multiplier == 1)
    _check_paths(dataset)
    return dataset


def get_val_dataset(
    path: DatasetPath,
    *,
    batch_size: int | None = None,
    split_part: str = "val",
    worker_config: WorkerConfig | None = None,
    batch_drop_last: bool = False,
    packing_buffer_size: int | None = None,
    packing: Packing | None = None,
    buckets: Buckets | None = None,
    most_waiting: int = MAX_WAITING_SAMPLES,
    limit: int | None = None,
    uneven: UnevenMode = "keep",
    seed: int = 0,
    lanes: int | None = None,
    task_encoder: AnyTaskEncoder | None = None,
    catalog: str | os.PathLike[str] | None = None,
    dataset_config: str | None = None,
    split_config: str | None = None,
    delta_timestamps: DeltaTimestamps | None = None,
    tolerance_s: float = TOLERANCE_S,
    raw: RawMode = "bytes",
    trace: str | os.PathLike[str] | None = None,
    ban: Sequence[Any] = (),
    check_determinism: bool = False,
    trust_code: bool = False,
    changed_shards: ChangedShardsMode | None = None,
) -> ValDataset:
    """The validation split: one pass per `for` loop, with the same batches in every pass and on any number of ranks.

    The datasets of a blend follow one another; weights and repetitions have no effect. Batch b goes to rank
    b mod world_size, so that the last ranks may have one batch fewer: see `uneven` of `get_train_dataset`.
    `limit`: maximum number of batches of this rank, the same in every pass.
    `lanes`: streams that pack or group samples independently, if something does; 48 by default on any number of ranks.
    Rank l mod world_size reads all of lane l. Another number of lanes makes other batches.
    `seed` only seeds random numbers in hooks. For all others, and for errors, see `get_train_dataset`.
    """
    arguments = check_common_arguments(locals())
    dataset = ValDataset(**arguments | {"limit": size_or_none("limit", limit)})
    _check_plan(path, has_defaults=split_part == "val")
    _check_paths(dataset)
    return dataset


def get_val_datasets(path: DatasetPath, *, split_part: str = "val", **options: Any) -> list[tuple[ValDataset, Any]]:
    """A validation dataset for each dataset of a blend, with its reference (path, split, subflavors).

    `options`: those of `get_val_dataset`. Reads the blend file; raises what `read_blend` raises.
    """
    blend = get_val_dataset(path, split_part=split_part, **options)
    plan = read_blend_plan(blend)
    datasets = []
    for component in plan.components:
        for repeated_leaf in component.repeated_leaves:
            leaf_plan = replace(plan, components=(replace(component, repeated_leaves=(repeated_leaf,)),))
            datasets.append((replace(blend, path=leaf_plan), traverse(leaf_plan)[0]))
    return datasets


def describe_order(dataset: BaseDataset) -> str:
    """A phrase for the order, for `repr(loader)`."""
    if not isinstance(dataset, TrainDataset):
        return "the order of the split"
    length = "without end" if dataset.repeat else "one pass"
    if dataset.shuffle_over_epochs_multiplier is None:
        return f"unshuffled, {length}"
    if dataset.shuffle_over_epochs_multiplier == -1:
        return f"drawn with replacement, {length}"
    return f"{dataset.shuffle_buffer_size or 1:,} samples shuffled together, {length}"


def is_count_preserving(dataset: BaseDataset) -> bool:
    """Whether every range of `batch_size` positions becomes one batch: nothing packs or groups samples."""
    return (
        dataset.packing is None
        and dataset.packing_buffer_size is None
        and dataset.buckets is None
        and not is_overridden(dataset.task_encoder, "batch_group_criterion")
    )


def resolve_changed_shards(dataset: D, *, is_resumed: bool) -> D:
    """The dataset with a default for `changed_shards`: "error" for a resumed run."""
    return replace(dataset, changed_shards="error") if is_resumed and dataset.changed_shards is None else dataset


def _check_plan(path: DatasetPath, *, has_defaults: bool) -> None:
    """Raise UsageError for a split or a shuffling beside a plan, which has both already."""
    if isinstance(path, BlendPlan) and not has_defaults:
        raise UsageError(
            "split_part, shuffle and shuffle_over_epochs_multiplier have no effect on a BlendPlan",
            hint="pass split_part and multiplier to read_blend, or pass the blend file instead of its plan",
        )


def _check_paths(dataset: BaseDataset) -> None:
    """Raise errors of the blend file, and of datasets with a weight that do not exist. URLs are not requested."""
    if isinstance(dataset.path, str) and is_url(dataset.path) and is_blend_file(dataset.path):
        return
    plan = read_blend_plan(dataset)
    segments = [segment.weights for segment in plan.schedule] or [tuple(each.weight for each in plan.components)]
    checked: set[str] = set()  # a blend may name one dataset often
    for number, component in enumerate(plan.components):
        if any(weights[number] for weights in segments):
            for repeated_leaf in component.repeated_leaves:
                if repeated_leaf.repetitions:
                    _check_leaf(repeated_leaf.leaf, dataset, checked)


def _check_leaf(leaf: Leaf, dataset: BaseDataset, checked: set[str]) -> None:
    """Raise errors of a leaf. `checked`: the paths of datasets that exist."""
    with locate_errors(leaf, dataset):
        if leaf.path not in checked:
            check_dataset_exists(leaf.path, dataset.catalog)
            checked.add(leaf.path)
        for reference in leaf.aux.values():
            path = reference.removeprefix("filesystem://")
            if not protocol(path) and not os.path.exists(path):
                hint = "correct the path: relative paths in a blend file start at the folder of that file"
                raise InputError("the auxiliary store does not exist", where=path, hint=hint)
    for member in leaf.join.members if leaf.join is not None else ():
        _check_leaf(member, dataset, checked)


@contextmanager
def locate_errors(leaf: Leaf, dataset: BaseDataset) -> Iterator[None]:
    """Add the line of the blend file that names a dataset to errors of the dataset."""
    try:
        yield
    except (InputError, CatalogError) as error:
        if leaf.where in ("", str(dataset.path)):
            raise
        where = f"{error.where} ({leaf.where})" if error.where else leaf.where
        raise type(error)(error.message, hint=error.hint, where=where, code=error.code) from error


def _not_iterable_error(dataset: BaseDataset) -> TypeError:
    """For `for` loops and torch's DataLoader. A TypeError is Python's protocol for objects that are not iterable."""
    return TypeError(
        f"{type(dataset).__name__} cannot be iterated: iterate get_loader(dataset), which replaces torch's DataLoader "
        "(for workers: worker_config=WorkerConfig(num_workers=...))"
    )


def read_blend_plan(dataset: BaseDataset) -> BlendPlan:
    """The plan of a dataset's path: a prepared dataset, a blend file, a mapping, a Blender or a plan.

    Raises what `read_blend` raises. Reads nothing of prepared datasets.
    """
    path = dataset.path
    if isinstance(path, BlendPlan):
        return path if isinstance(dataset, TrainDataset) else validation_plan(path)
    mode: Any = "train" if isinstance(dataset, TrainDataset) else "val"
    multiplier = dataset.shuffle_over_epochs_multiplier if isinstance(dataset, TrainDataset) else None
    read = path.plan if isinstance(path, Blender) else partial(read_blend, path)
    plan: BlendPlan = read(split_part=dataset.split_part, mode=mode, multiplier=multiplier)
    return plan
