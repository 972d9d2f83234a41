"""Who runs a loader: one of how many data-parallel ranks, with how many worker processes, and how they run."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import UsageError
from wdsctl.loader.failures import Handler, log_exception, reraise_exception
from wdsctl.loader.parallel_ranks import ORDER, data_parallel, mesh_rank

if TYPE_CHECKING:
    from wdsctl.loader.workers.options import Start

_COUNTS = {"rank": 0, "world_size": 1, "num_workers": 0, "prefetch_factor": 1, "worker_log_level": 0}
_STARTS = ("fork", "forkserver", "spawn")
_LEFT_OUT: Any = None


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """`rank` of `world_size` data-parallel ranks. `seed_offset` gives another order under the same seed.

    Ranks that must see the same data (tensor, pipeline or context parallel peers) give the same rank here. Where
    neither rank nor size is given, they are those of torch.distributed, if that is initialised by now. A process group
    stays in its process: it is left out of comparisons and of pickles.
    """

    rank: int = _LEFT_OUT
    world_size: int = _LEFT_OUT
    #: Processes that prepare batches; 0: the training process does.
    num_workers: int = 0
    seed_offset: int = 0
    #: The ranks that share the data, for what they agree on; None: all of torch.distributed, where it is initialised.
    data_parallel_group: Any = field(default=None, compare=False)
    #: Batches that each worker prepares ahead; None: 2, and of small ones as many as 8 MB hold, up to 16.
    prefetch_factor: int | None = None
    #: Whether workers live on when a loop ends. If not, each loop starts its own.
    persistent_workers: bool = True
    #: Called with the error, the sample and its sources, when a sample fails.
    global_error_handler: Handler = log_exception
    #: The same while a sample, a pack or a batch is made again.
    restore_error_handler: Handler = reraise_exception
    #: "fork": from a nursery that is forked with the first batch, or by `loader.start()`, which is best called before
    #: threads and CUDA. "forkserver" and "spawn" need task encoders that can be pickled.
    start_method: Start = "fork"
    #: Energon's file of yielded keys, and how much it tells. Without effect here: a loader's `trace` tells more.
    worker_debug_path: str | None = None
    worker_log_level: int = 0
    #: Whether rank and size were left out, and torch.distributed was not there to say them. Nobody gives it but
    #: `dataclasses.replace`.
    is_alone_by_default: bool = field(kw_only=True, compare=False, repr=False, default=False)

    def __post_init__(self) -> None:
        self._find_place()
        counts = [name for name in _COUNTS if name != "prefetch_factor" or self.prefetch_factor is not None]
        for name in (*counts, "seed_offset"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        object.__setattr__(self, "persistent_workers", bool(self.persistent_workers))
        if self.world_size < 1 or not 0 <= self.rank < self.world_size:
            raise UsageError(
                f"there is no rank {self.rank} among {self.world_size}",
                hint="ranks count from 0 to world_size - 1",
            )
        for name in counts:
            if getattr(self, name) < _COUNTS[name]:
                raise UsageError(f"{name} is {getattr(self, name)}", hint=f"give {_COUNTS[name]} or more")
        for name in ("global_error_handler", "restore_error_handler"):
            if not callable(getattr(self, name)):
                raise UsageError(f"{name} cannot be called", hint="give a function of (error, sample, sources)")
        if self.start_method not in _STARTS:
            raise UsageError(
                f"workers cannot be started by {self.start_method!r}", hint=f"give one of {', '.join(_STARTS)}"
            )
        self._warn_of_logs()

    def _warn_of_logs(self) -> None:
        """Once: who gets a copy of this, such as a worker, is not told again."""
        if self.worker_debug_path is None and not self.worker_log_level:
            return
        object.__setattr__(self, "worker_debug_path", None)
        object.__setattr__(self, "worker_log_level", 0)
        warnings.warn(
            "WDS523: worker_debug_path and worker_log_level write nothing here; with trace=FOLDER, get_train_dataset "
            "keeps which samples were in each batch",
            stacklevel=4,
        )

    def _find_place(self) -> None:
        place = None
        if self.rank is _LEFT_OUT and self.world_size is _LEFT_OUT:
            place = _place(self.data_parallel_group)
            is_alone = place is None
        else:
            is_alone = self.is_alone_by_default and (self.rank, self.world_size) == (0, 1)
        object.__setattr__(self, "is_alone_by_default", is_alone)
        rank, size = place or (0, 1)
        object.__setattr__(self, "rank", rank if self.rank is _LEFT_OUT else self.rank)
        object.__setattr__(self, "world_size", size if self.world_size is _LEFT_OUT else self.world_size)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without what means nothing in another process: the group, and a place that nobody has given."""
        left_out = {"data_parallel_group", "is_alone_by_default"}
        left_out |= {"rank", "world_size"} if self.is_alone_by_default else set()
        names = [each.name for each in fields(self) if each.name not in left_out]
        kept = {name: getattr(self, name) for name in names}
        return _unpickled, (type(self), kept)

    def __copy__(self) -> WorkerConfig:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> WorkerConfig:
        return self

    @classmethod
    def default_worker_config(
        cls, num_workers: int = 4, data_parallel_group: Any = None, **options: Any
    ) -> WorkerConfig:
        """Energon's default: four workers. Rank and world size are those of torch.distributed where it is initialised,
        else those of the only rank of one.

        Raises UsageError on a rank that is not in the group.
        """
        return cls(num_workers=num_workers, data_parallel_group=data_parallel_group, **options)

    @classmethod
    def from_parallel_sizes(
        cls,
        rank: int,
        world_size: int,
        *,
        tensor: int = 1,
        pipeline: int = 1,
        context: int = 1,
        expert: int = 1,
        order: str = ORDER,
        **options: Any,
    ) -> WorkerConfig:
        """From a process's place in the whole job and the sizes of its parallelism, as Megatron lays ranks out.

        `rank` and `world_size` count all processes. `order` names the dimensions, the fastest first. `expert` is
        checked only: experts are spread over ranks that have data of their own. `options` are the other fields.
        Raises UsageError where the sizes do not divide the job.
        """
        sizes = {"tp": tensor, "pp": pipeline, "cp": context, "ep": expert}
        own, size = data_parallel(rank, world_size, sizes, order)
        return cls(own, size, **options)

    @classmethod
    def from_device_mesh(
        cls, mesh: Any, dims: Sequence[str] | str = ("dp_replicate", "dp_shard"), **options: Any
    ) -> WorkerConfig:
        """From a `torch.distributed.device_mesh.DeviceMesh` and those of its dimensions that share the data out.

        Rank and size are those in `dims` taken together, the first varying slowest. Of the default ones that the mesh
        does not have, the others do. `options` are the other fields.
        """
        own, size = mesh_rank(mesh, (dims,) if isinstance(dims, str) else tuple(dims))
        return cls(own, size, **options)


def _place(group: Any) -> tuple[int, int] | None:
    """Rank and size in the group; None where torch.distributed is not initialised. Raises UsageError outside of it."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    rank = distributed.get_rank(group)
    if rank < 0:
        raise UsageError(
            f"rank {distributed.get_rank()} of the job is not in the data-parallel group",
            hint="each process gives the group that it belongs to itself",
        )
    return rank, distributed.get_world_size(group)


def _unpickled(kind: type[WorkerConfig], values: dict[str, Any]) -> WorkerConfig:
    return kind(**values)


def whole(name: str, value: Any) -> int:
    """The value as Python's own int: numpy's would neither make a key nor go into a state. Raises UsageError."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise UsageError(f"{name} is {value!r}", hint="give a whole number") from error
