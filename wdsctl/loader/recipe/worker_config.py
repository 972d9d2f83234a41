"""`WorkerConfig`: the data-parallel rank of a loader and its worker processes.

Processes that work on one batch (tensor-, pipeline- and context-parallel peers) read the same data: they share one
data-parallel rank, which is the only one that a loader takes. Context-parallel peers split the sequences of one batch;
a rank that counts them too ("dp-cp") would give each of them other sequences.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import prod
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import UsageError, require_int
from wdsctl.loader.runtime.failures import ErrorHandler, log_exception, reraise_exception

if TYPE_CHECKING:
    from wdsctl.loader.workers.options import StartMethod


#: Megatron's order of dimensions, the fastest first: neighbours in the job are tensor-parallel peers.
MEGATRON_DIMENSION_ORDER = "tp-cp-ep-dp-pp"

_DIMENSION_NAMES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
_DATA_DIMENSIONS = ("dp_replicate", "dp_shard")


def data_parallel_rank(
    rank: int, world_size: int, sizes: Mapping[str, int], order: str = MEGATRON_DIMENSION_ORDER
) -> tuple[int, int]:
    """(rank, size) in the data-parallel group of process `rank` of `world_size`.

    `sizes`: of tp, pp, cp and ep. As in Megatron-Core, batches follow the layout of the dense layers, which has no `ep`
    dimension: experts regroup the same processes. Raises UsageError.
    """
    sizes = {name: operator.index(size) for name, size in sizes.items()}
    dims = _parse_dimensions(order, sizes)
    rank, world_size = operator.index(rank), operator.index(world_size)
    for name, size in sizes.items():
        if size < 1:
            raise UsageError(f"{_DIMENSION_NAMES[name]} is {size}, expected 1 or more", hint="pass 1 or more")
    if not 0 <= rank < world_size:
        raise UsageError(
            f"rank {rank} is out of range for world size {world_size}",
            hint="pass a rank of the job, from 0 to world_size - 1",
        )
    peers = sizes["tp"] * sizes["pp"] * sizes["cp"]
    if world_size % peers:
        raise UsageError(
            f"world size {world_size} is not a multiple of tensor {sizes['tp']} x pipeline {sizes['pp']} x context "
            f"{sizes['cp']} = {peers}",
            hint="pass the world size and the parallel sizes that the job was started with",
        )
    data_size = world_size // peers
    if world_size // sizes["pp"] % sizes["ep"]:
        raise UsageError(
            f"{world_size // sizes['pp']} processes per pipeline stage are not a multiple of expert {sizes['ep']}",
            hint="pass the sizes that the job was started with",
        )
    stride = prod(sizes[name] for name in dims[: dims.index("dp")])
    return rank // stride % data_size, data_size


def mesh_rank(mesh: Any, dims: Sequence[str]) -> tuple[int, int]:
    """(rank, size) over some dimensions of a device mesh, the first varying slowest. Raises UsageError."""
    mesh_dims = tuple(mesh.mesh_dim_names or ())
    data_dims = tuple(name for name in dims if name in mesh_dims) if tuple(dims) == _DATA_DIMENSIONS else tuple(dims)
    missing = [name for name in data_dims if name not in mesh_dims]
    if not data_dims or missing or len(set(data_dims)) < len(data_dims):
        raise UsageError(
            f"the mesh has dimensions {', '.join(mesh_dims) or 'without names'}, expected {', '.join(dims)}",
            hint="pass the data-parallel dimensions, such as dims=('dp',); init_device_mesh(..., mesh_dim_names=...) "
            "names them",
        )
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise UsageError("this process is not in the mesh", hint="create the loader only on ranks of the mesh")
    rank, total = 0, 1
    for name in data_dims:
        size = mesh.size(mesh_dims.index(name))
        rank, total = rank * size + coordinate[mesh_dims.index(name)], total * size
    return rank, total


def _parse_dimensions(order: str, sizes: Mapping[str, int]) -> list[str]:
    """The dimensions in order, without `ep`. Dimensions of size 1 may be missing, as in Megatron."""
    dims = order.lower().split("-")
    known = {*sizes, "dp"}
    unknown = sorted(set(dims) - known)
    if unknown or len(set(dims)) < len(dims):
        problem = f"has unknown dimensions {', '.join(map(repr, unknown))}" if unknown else "repeats a dimension"
        raise UsageError(
            f"the order {order!r} {problem}",
            hint=f"join tp, cp, ep, dp and pp by hyphens, the fastest first: {MEGATRON_DIMENSION_ORDER!r}",
        )
    missing = sorted(name for name in known - set(dims) if sizes.get(name, 2) > 1)
    if missing:
        raise UsageError(
            f"the order {order!r} lacks {', '.join(missing)}",
            hint=f"name all dimensions, as in {MEGATRON_DIMENSION_ORDER!r}",
        )
    return [name for name in dims if name != "ep"]


_MIN_VALUES = {"rank": 0, "world_size": 1, "num_workers": 0, "prefetch_factor": 1, "worker_log_level": 0}
#: The values of `StartMethod`, whose module would import torch.
_START_METHODS = ("fork", "forkserver", "spawn")
_UNSET: Any = None


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The data-parallel rank of a loader and its worker processes.

    Ranks that need the same data (tensor-, pipeline- or context-parallel peers) pass the same `rank`. By default, rank
    and world size are those of torch.distributed if it is initialised, else 0 of 1. Raises UsageError for values out of
    range. The process group is neither compared nor pickled.
    """

    rank: int = _UNSET
    world_size: int = _UNSET
    #: Processes that prepare batches; 0: the training process does.
    num_workers: int = 0
    #: Changes the order under the same seed.
    seed_offset: int = 0
    #: The ranks that the data is divided among; None: all ranks of torch.distributed if it is initialised.
    data_parallel_group: Any = field(default=None, compare=False)
    #: Batches that each worker prepares ahead; None: 2, or for small batches as many as 8 MB hold, up to 16.
    prefetch_factor: int | None = None
    #: Whether workers stay alive when a loop ends. Otherwise, each loop starts new ones.
    persistent_workers: bool = True
    #: Called with the error, the sample and its sources if a sample fails.
    global_error_handler: ErrorHandler = log_exception
    #: The same while a sample, pack or batch is restored.
    restore_error_handler: ErrorHandler = reraise_exception
    #: "fork": from a fork server, which the first batch or `loader.start()` forks; call that before threads and CUDA
    #: start. "forkserver" and "spawn" need task encoders that can be pickled.
    start_method: StartMethod = "fork"
    #: Energon's debug log of keys, and its level. Without effect (WDS523): use `trace` of `get_train_dataset`.
    worker_debug_path: str | None = None
    worker_log_level: int = 0
    #: Whether rank and world size are defaults without torch.distributed. Only `dataclasses.replace` passes it.
    has_default_rank: bool = field(kw_only=True, compare=False, repr=False, default=False)

    def __post_init__(self) -> None:
        self._resolve_rank()
        counts = [name for name in _MIN_VALUES if name != "prefetch_factor" or self.prefetch_factor is not None]
        for name in (*counts, "seed_offset"):
            object.__setattr__(self, name, require_int(name, getattr(self, name)))
        object.__setattr__(self, "persistent_workers", bool(self.persistent_workers))
        if self.world_size < 1 or not 0 <= self.rank < self.world_size:
            raise UsageError(
                f"rank {self.rank} is out of range for world size {self.world_size}",
                hint="pass a rank from 0 to world_size - 1",
            )
        for name in counts:
            if getattr(self, name) < _MIN_VALUES[name]:
                raise UsageError(f"{name} is {getattr(self, name)}", hint=f"pass {_MIN_VALUES[name]} or more")
        for name in ("global_error_handler", "restore_error_handler"):
            if not callable(getattr(self, name)):
                raise UsageError(f"{name} is not a function", hint="pass a function of (error, sample, sources)")
        if self.start_method not in _START_METHODS:
            raise UsageError(f"start_method is {self.start_method!r}", hint=f"use one of {', '.join(_START_METHODS)}")
        self._warn_of_unused_logs()

    def _warn_of_unused_logs(self) -> None:
        """Warn once (WDS523): copies, such as a worker's, do not warn again."""
        if self.worker_debug_path is None and not self.worker_log_level:
            return
        object.__setattr__(self, "worker_debug_path", None)
        object.__setattr__(self, "worker_log_level", 0)
        warnings.warn(
            "WDS523: worker_debug_path and worker_log_level are not supported; to record which samples are in each "
            "batch, pass trace=FOLDER to get_train_dataset",
            stacklevel=4,
        )

    def _resolve_rank(self) -> None:
        distributed_rank = None
        if self.rank is _UNSET and self.world_size is _UNSET:
            distributed_rank = _distributed_rank(self.data_parallel_group)
            is_default = distributed_rank is None
        else:
            if self.rank is _UNSET or self.world_size is _UNSET:
                _check_only_rank(self.data_parallel_group)
            is_default = self.has_default_rank and (self.rank, self.world_size) == (0, 1)
        object.__setattr__(self, "has_default_rank", is_default)
        rank, size = distributed_rank or (0, 1)
        object.__setattr__(self, "rank", rank if self.rank is _UNSET else self.rank)
        object.__setattr__(self, "world_size", size if self.world_size is _UNSET else self.world_size)

    def config(self) -> dict[str, Any]:
        """Rank, ranks and workers, as JSON."""
        group = self.data_parallel_group
        names = ("rank", "world_size", "num_workers")
        sizes: dict[str, Any] = {name: getattr(self, name) for name in names}
        return {**sizes, "data_parallel_group": None if group is None else group.size()}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without what another process cannot use: the process group, and a default rank."""
        excluded = {"data_parallel_group", "has_default_rank"}
        excluded |= {"rank", "world_size"} if self.has_default_rank else set()
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in excluded}
        return _unpickle, (type(self), values)

    def __copy__(self) -> WorkerConfig:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> WorkerConfig:
        return self

    @classmethod
    def default_worker_config(
        cls, num_workers: int = 4, data_parallel_group: Any = None, **options: Any
    ) -> WorkerConfig:
        """Energon's default: four workers. Rank and world size as in the constructor.

        Raises UsageError on a rank outside of the group.
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
        order: str = MEGATRON_DIMENSION_ORDER,
        **options: Any,
    ) -> WorkerConfig:
        """From the global rank and the parallel sizes of a job, with ranks laid out as in Megatron.

        `rank` and `world_size` count all processes. `order` names the dimensions, the fastest first. `expert` is only
        checked: experts are spread over ranks with different data. `options` are the other fields.
        Raises UsageError if the sizes do not divide the world size.
        """
        sizes = {"tp": tensor, "pp": pipeline, "cp": context, "ep": expert}
        return cls(*data_parallel_rank(rank, world_size, sizes, order), **options)

    @classmethod
    def from_device_mesh(
        cls, mesh: Any, dims: Sequence[str] | str = ("dp_replicate", "dp_shard"), **options: Any
    ) -> WorkerConfig:
        """From a `torch.distributed.device_mesh.DeviceMesh` and its data-parallel dimensions.

        Rank and world size are those over all `dims`, the first varying slowest. Of the default dimensions, one may be
        missing. `options` are the other fields. Raises UsageError if the mesh lacks the dimensions or this process.
        """
        return cls(*mesh_rank(mesh, (dims,) if isinstance(dims, str) else tuple(dims)), **options)


def _distributed_rank(group: Any) -> tuple[int, int] | None:
    """(rank, size) in the group; None if torch.distributed is not initialised. Raises UsageError outside the group."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    rank = distributed.get_rank(group)
    if rank < 0:
        raise UsageError(
            f"rank {distributed.get_rank()} of the job is not in the data-parallel group",
            hint="pass the group that this process belongs to",
        )
    return rank, distributed.get_world_size(group)


def _check_only_rank(group: Any) -> None:
    """Raise UsageError if torch.distributed has several ranks: with half of the position given, all of them would be
    rank 0, or the only rank."""
    _, world_size = _distributed_rank(group) or (0, 1)
    if world_size > 1:
        raise UsageError(
            f"only one of rank and world_size is given, but torch.distributed has {world_size} ranks",
            hint="pass both, or neither for those of torch.distributed",
        )


def _unpickle(kind: type[WorkerConfig], values: dict[str, Any]) -> WorkerConfig:
    return kind(**values)
