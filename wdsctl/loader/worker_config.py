"""Who runs this loader: one of how many ranks, with how many worker processes."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields
from typing import Any

from wdsctl.core.errors import LoaderError, UsageError


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """`rank` of `world_size` data-parallel ranks. `seed_offset` gives another order under the same seed.

    Ranks that must see the same data (tensor, pipeline or context parallel peers) give the same rank here.
    """

    rank: int = 0
    world_size: int = 1
    num_workers: int = 0
    seed_offset: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, whole(field.name, getattr(self, field.name)))
        if self.world_size < 1 or not 0 <= self.rank < self.world_size:
            raise UsageError(
                f"there is no rank {self.rank} among {self.world_size}",
                hint="ranks count from 0 to world_size - 1",
            )
        if self.num_workers < 0:
            raise UsageError(f"num_workers is {self.num_workers}", hint="give 0: the loader runs in this process")
        if self.num_workers > 0:
            raise LoaderError(
                f"num_workers is {self.num_workers}; worker processes come with the next step",
                hint="give num_workers=0: the loader runs in this process",
                code="WDS504",
            )

    @classmethod
    def default_worker_config(cls, num_workers: int = 0, data_parallel_group: Any = None) -> WorkerConfig:
        """Rank and world size from torch.distributed where it is initialised, else the only rank of one."""
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            rank = distributed.get_rank(data_parallel_group)
            return cls(rank, distributed.get_world_size(data_parallel_group), num_workers)
        return cls(num_workers=num_workers)


def whole(name: str, value: Any) -> int:
    """The value as Python's own int: numpy's would neither make a key nor go into a state. Raises UsageError."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise UsageError(f"{name} is {value!r}", hint="give a whole number") from error
