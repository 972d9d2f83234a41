"""What the ranks of a job tell one another: states, flags, and whether they run the same plan.

Values travel as JSON in tensors of bytes, so that nothing is unpickled, over any backend that has all_gather (gloo,
NCCL). Every rank of the group makes the same calls in the same order. Where torch.distributed is not initialised, this
process is the only rank.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import LoaderError, UsageError, several
from wdsctl.core.job_state import differences, listed
from wdsctl.loader.plan import digest
from wdsctl.loader.worker_config import WorkerConfig

if TYPE_CHECKING:
    import torch

    from wdsctl.core.state_form import State


def gather_states(state: State, group: Any = None, dst: int | None = 0) -> list[State] | None:
    """The states of all ranks of the group, in their order, on process `dst` of the whole job; None on the others.

    Without a `dst`, all ranks have them.
    """
    to = _rank(group) if dst is None else _rank_of(dst, group)
    states = _all_values(state, group)
    return states if _rank(group) == to else None


def everybodys_states(states: Any, group: Any = None, src: int | None = None) -> Any:
    """The states of all ranks, on all of them: what rank `src` of the group holds, or what each gives.

    Where ranks give more than their own state, that is what each of them has.
    """
    if src is not None:
        return _given_by(src, states, group)
    given = _all_values(states, group)
    is_own = all(isinstance(each, dict) and each.get("kind") == "rank" for each in given)
    return given if is_own else states


def scatter_states(states: Sequence[State] | State | None, group: Any = None, src: int = 0) -> Any:
    """What this rank restores of what rank `src` of the group holds: the states of all ranks, or a merged one.

    The rank's own state where there is one for each rank of the group, else all that was given, which a loader merges.
    Of a pass it is all, too: one rank may have ended it while another has batches left. What the other processes give
    is not looked at. Raises LoaderError on all of them where `src` has none.
    """
    given = _given_by(src, states, group)
    if isinstance(given, list) and len(given) == _size(group):
        own = given[_rank(group)]
        if isinstance(own, dict) and own.get("rank") == _rank(group) and own.get("pass") is None:
            return own
    return given


def _given_by(src: int, states: Any, group: Any) -> Any:
    """What rank `src` of the group gives, on all of them. Raises LoaderError on all of them where it has none."""
    if not 0 <= src < _size(group):
        raise UsageError(
            f"there is no rank {src} among the {_size(group)} that share the data",
            hint="src_rank is a rank of the data-parallel group, from 0, and not one of the whole job",
        )
    given = _all_values(states if _rank(group) == src else None, group)[src]
    if given is None:
        raise LoaderError(
            f"rank {src} has no states to give",
            hint="give what save_state_global() returned there, or the rank that has it as src_rank",
        )
    return given


def any_rank(flag: bool, group: Any = None) -> bool:
    """Whether it is so on any rank of the group."""
    return any(_all_numbers(int(flag), group))


def all_ranks(flag: bool, group: Any = None) -> bool:
    """Whether it is so on all ranks of the group."""
    return all(_all_numbers(int(flag), group))


def same_on_all(value: Any, group: Any = None) -> None:
    """Raise LoaderError WDS520 on all ranks, naming those that differ, unless a JSON value is the same on all.

    16 bytes a rank travel; the values themselves only where they differ.
    """
    own = digest(value)
    if not any_rank(own != _all_values(own, group)[0], group):
        return
    values = _all_values(value, group)
    names = [digest(each) for each in values]
    odd = [rank for rank, name in enumerate(names) if name != names[0]]
    lines = _what_differs(values[0], values[odd[0]], ("on rank 0", f"on rank {odd[0]}"))
    raise LoaderError(
        several(f"the plan of rank{'s' * (len(odd) > 1)} {listed(odd)} is not that of rank 0:", *lines),
        hint="give all ranks the same dataset, seed and arguments, and catalogs of the same generation",
        code="WDS520",
    )


def is_running(workers: WorkerConfig) -> bool:
    """Whether the ranks of a WorkerConfig can talk: torch.distributed is initialised, and its group is theirs."""
    group = workers.data_parallel_group
    return workers.world_size > 1 and _is_running() and _size(group) == workers.world_size


def check_group(workers: WorkerConfig) -> None:
    """Raise UsageError unless the group of a WorkerConfig is that of its rank and world size."""
    group = workers.data_parallel_group
    there = _rank(group), _size(group)
    if there != (workers.rank, workers.world_size):
        what = "torch.distributed has" if group is None else "its data_parallel_group has"
        raise UsageError(
            f"the loader is rank {workers.rank} of {workers.world_size}, and {what} this process as rank {there[0]} of "
            f"{there[1]}",
            hint="give WorkerConfig the data_parallel_group of its ranks; what ranks agree on goes over it",
        )


def check_place(workers: WorkerConfig) -> None:
    """Raise UsageError where a loader took itself for the only rank, and torch.distributed has others by now."""
    if workers.is_alone_by_default and _size(workers.data_parallel_group) > 1:
        raise UsageError(
            f"the loader was made before torch.distributed was initialised, as rank 0 of 1: each of the "
            f"{_size(workers.data_parallel_group)} ranks would get the same batches",
            hint="make the dataset after init_process_group (with Lightning in train_dataloader), or give "
            "WorkerConfig(rank=..., world_size=...), which may be 0 and 1",
        )


def _what_differs(one: Any, other: Any, places: tuple[str, str]) -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        return differences(one, other, places)
    return [f"{one!r} {places[0]}, {other!r} {places[1]}"]


def _all_values(value: Any, group: Any) -> list[Any]:
    """A JSON value of each rank, in the order of the ranks."""
    if not _is_running():
        return [json.loads(json.dumps(value))]
    import torch

    data = json.dumps(value, separators=(",", ":")).encode()
    sizes = _all_numbers(len(data), group)
    # Ranks give tensors of one size: all_gather asks for it.
    own = torch.zeros(max(sizes), dtype=torch.uint8)
    own[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    rows = _all_gathered(own, group)
    return [json.loads(row[:size].numpy().tobytes()) for row, size in zip(rows, sizes, strict=True)]


def _all_numbers(number: int, group: Any) -> list[int]:
    if not _is_running():
        return [number]
    import torch

    return [int(row) for row in _all_gathered(torch.tensor([number], dtype=torch.int64), group)]


def _all_gathered(own: torch.Tensor, group: Any) -> list[torch.Tensor]:
    import torch
    from torch import distributed

    mine = own.to(_device(group))
    rows = [torch.empty_like(mine) for _ in range(_size(group))]
    distributed.all_gather(rows, mine, group=group)
    return [row.cpu() for row in rows]


def _device(group: Any) -> torch.device:
    """Where the group's backend takes tensors from."""
    import torch
    from torch import distributed

    backend = str(distributed.get_backend(group))
    if backend == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("xpu") if backend == "xccl" else torch.device("cpu")


def _is_running() -> bool:
    from torch import distributed

    return bool(distributed.is_available() and distributed.is_initialized())


def _rank_of(process: int, group: Any) -> int:
    """The rank in the group of a process of the whole job."""
    from torch import distributed

    if not _is_running() or group is None:
        if not 0 <= process < _size(group):
            raise UsageError(f"there is no process {process} in this job", hint="processes count from 0")
        return process
    ranks = distributed.get_process_group_ranks(group)
    if process not in ranks:
        raise UsageError(
            f"process {process} is not in the data-parallel group, which has {listed(ranks)}",
            hint="give the rank, in the whole job, of a process of the group",
        )
    return ranks.index(process)


def _rank(group: Any) -> int:
    from torch import distributed

    return distributed.get_rank(group) if _is_running() else 0


def _size(group: Any) -> int:
    from torch import distributed

    return distributed.get_world_size(group) if _is_running() else 1
