"""Communication between the ranks of a job: gathers states and flags, compares plans, and balances passes (`uneven`).

Values are sent as JSON in tensors of bytes, so that nothing is unpickled, over any backend with all_gather (gloo,
NCCL). Every rank of the group must make the same calls in the same order. If torch.distributed is not initialized, this
process is the only rank.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from wdsctl.core.checkpoint.state import describe_differences, shorten_list
from wdsctl.core.errors import LoaderError, UsageError, join_indented
from wdsctl.core.hashing import json_digest
from wdsctl.loader.pipeline.batches import END
from wdsctl.loader.recipe.dataset import BaseDataset, TrainDataset
from wdsctl.loader.recipe.worker_config import WorkerConfig
from wdsctl.loader.run.build import has_random_hooks
from wdsctl.loader.run.rank_stream import RankStream

if TYPE_CHECKING:
    import torch

    from wdsctl.core.checkpoint.state import LoaderState


def gather_states(state: LoaderState, group: Any = None, dst: int | None = 0) -> list[LoaderState] | None:
    """Return the states of all ranks of the group, in order, on process `dst` of the whole job; None elsewhere.

    If `dst` is None, all ranks get the states.
    """
    to = _group_rank(group) if dst is None else _group_rank_of(dst, group)
    states = _all_gather_json(state, group)
    return states if _group_rank(group) == to else None


def all_gather_states(states: Any, group: Any = None, src: int | None = None) -> Any:
    """The states of all ranks, on all ranks: those that rank `src` of the group passes, or those that each rank passes.

    If ranks pass more than their own state, each rank gets what it passed.
    """
    if src is not None:
        return _broadcast_states(src, states, group)
    gathered = _all_gather_json(states, group)
    is_own = all(isinstance(each, dict) and each.get("kind") == "rank" for each in gathered)
    return gathered if is_own else states


def new_gloo_group(group: Any, timeout: timedelta) -> Any:
    """A group of the same ranks that communicates on the CPU, and gives up after `timeout`. All ranks must call it.

    Raises RuntimeError if one does not.
    """
    from torch import distributed

    ranks = range(distributed.get_world_size()) if group is None else distributed.get_process_group_ranks(group)
    return distributed.new_group(list(ranks), timeout=timeout, backend="gloo", use_local_synchronization=True)


def wait_for_all(gloo_group: Any, timeout: timedelta) -> None:
    """Wait until all ranks of the group call this. Raises RuntimeError after `timeout`, on rank 0 with their names."""
    from torch import distributed

    distributed.monitored_barrier(gloo_group, timeout=timeout, wait_all_ranks=True)


def scatter_states(states: Sequence[LoaderState] | LoaderState | None, group: Any = None, src: int = 0) -> Any:
    """The states from which this rank restores, out of those that rank `src` of the group passes: the states of all
    ranks, or a merged one.

    Returns the rank's own state if there is one for each rank of the group, otherwise all states, which a loader
    merges. Also returns all states of a finite pass, as one rank may have ended the pass while another has batches
    left. Ignores what other processes pass. Raises LoaderError on all ranks if `src` passes none.
    """
    received = _broadcast_states(src, states, group)
    if isinstance(received, list) and len(received) == _group_size(group):
        own = received[_group_rank(group)]
        if isinstance(own, dict) and own.get("rank") == _group_rank(group) and own.get("pass") is None:
            return own
    return received


def _broadcast_states(src: int, states: Any, group: Any) -> Any:
    """Send what rank `src` of the group passes to all ranks. Raises LoaderError on all ranks if `src` passes none."""
    if not 0 <= src < _group_size(group):
        raise UsageError(
            f"src_rank {src} is out of range for a data-parallel group of {_group_size(group)} ranks",
            hint="pass a rank within the data-parallel group, counted from 0, not a rank of the whole job",
        )
    received = _all_gather_json(states if _group_rank(group) == src else None, group)[src]
    if received is None:
        raise LoaderError(
            f"rank {src} has no states to send to the other ranks",
            hint="on that rank, pass what save_state_global() returned; or set src_rank to the rank that has the "
            "states",
        )
    return received


def any_rank(flag: bool, group: Any = None) -> bool:
    """Whether the flag is set on any rank of the group."""
    return any(_all_gather_ints(int(flag), group))


def all_ranks(flag: bool, group: Any = None) -> bool:
    """Whether the flag is set on all ranks of the group."""
    return all(_all_gather_ints(int(flag), group))


def check_same_on_all_ranks(value: Any, group: Any = None) -> None:
    """Raise LoaderError WDS520 on all ranks, with the differing ranks, unless a JSON value is the same on all.

    Sends 16 bytes per rank, and the values themselves only if they differ.
    """
    own = json_digest(value)
    if not any_rank(own != _all_gather_json(own, group)[0], group):
        return
    values = _all_gather_json(value, group)
    names = [json_digest(each) for each in values]
    odd = [rank for rank, name in enumerate(names) if name != names[0]]
    lines = _describe_differences(values[0], values[odd[0]], ("on rank 0", f"on rank {odd[0]}"))
    raise LoaderError(
        join_indented(
            f"the plan of rank{'s' * (len(odd) > 1)} {shorten_list(odd)} differs from that of rank 0:", *lines
        ),
        hint="start all ranks with the same dataset, catalog generation, seed, arguments and bans, and from states of "
        "the same step",
        code="WDS520",
    )


def has_process_group(workers: WorkerConfig) -> bool:
    """Whether the ranks of a WorkerConfig can communicate: torch.distributed is initialized with their group.

    Not in a worker of torch's DataLoader, which was forked from a rank: it has the group, but none of its threads, and
    would wait forever.
    """
    if workers.world_size == 1 or _is_in_data_loader_worker():
        return False
    return _is_initialized() and _group_size(workers.data_parallel_group) == workers.world_size


def has_other_processes() -> bool:
    """Whether torch.distributed is initialized with more than this process."""
    return _group_size(None) > 1


def check_other_processes(workers: WorkerConfig) -> None:
    """Raise LoaderError WDS546 if a loader has other ranks, and this process cannot collect their states."""
    if workers.world_size > 1 and not has_other_processes():
        raise LoaderError(
            f"rank {workers.rank} of {workers.world_size} cannot collect the states of the other ranks: "
            "torch.distributed is not initialised with them",
            hint="initialise torch.distributed in all ranks, or save loader.state_dict() of each rank in its own file",
            code="WDS546",
        )


def check_group(workers: WorkerConfig) -> None:
    """Raise UsageError unless the group of a WorkerConfig is that of its rank and world size."""
    group = workers.data_parallel_group
    there = _group_rank(group), _group_size(group)
    if there != (workers.rank, workers.world_size):
        what = "torch.distributed has" if group is None else "its data_parallel_group has"
        raise UsageError(
            f"the loader is rank {workers.rank} of {workers.world_size}, but {what} this process as rank {there[0]} "
            f"of {there[1]}",
            hint="pass the data_parallel_group of the ranks to WorkerConfig; the ranks communicate over it",
        )


def check_distinct_ranks(workers: WorkerConfig) -> None:
    """Raise LoaderError WDS520 on all ranks if several processes of the group have the same rank: they would read the
    same batches, and no process those of another rank. Sends 8 bytes per rank."""
    ranks = _all_gather_ints(workers.rank, workers.data_parallel_group)
    processes: dict[int, list[int]] = {}
    for process, rank in enumerate(ranks):
        processes.setdefault(rank, []).append(process)
    double = next((rank for rank, each in processes.items() if len(each) > 1), None)
    if double is not None:
        raise LoaderError(
            f"processes {shorten_list(processes[double])} are all rank {double} of {workers.world_size}, and would "
            "read the same batches",
            hint="omit rank and world_size in WorkerConfig, or pass the rank within the whole job (RANK, not "
            "LOCAL_RANK)",
            code="WDS520",
        )


def check_created_after_init(workers: WorkerConfig) -> None:
    """Raise UsageError if a loader was created as the only rank, but torch.distributed now has several ranks."""
    if workers.has_default_rank and _group_size(workers.data_parallel_group) > 1:
        raise UsageError(
            "the dataset was created before torch.distributed was initialised, as rank 0 of 1: each of the "
            f"{_group_size(workers.data_parallel_group)} ranks would get the same batches",
            hint="create the dataset after init_process_group (with Lightning, in train_dataloader), or pass "
            "WorkerConfig(rank=..., world_size=...)",
        )


def _describe_differences(one: Any, other: Any, labels: tuple[str, str]) -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        return describe_differences(one, other, labels)
    return [f"{one!r} {labels[0]}, {other!r} {labels[1]}"]


def _all_gather_json(value: Any, group: Any) -> list[Any]:
    """A JSON value of each rank, in the order of the ranks."""
    if not _is_initialized():
        return [json.loads(json.dumps(value))]
    import torch

    data = json.dumps(value, separators=(",", ":")).encode()
    sizes = _all_gather_ints(len(data), group)
    # all_gather needs tensors of one size.
    own = torch.zeros(max(sizes), dtype=torch.uint8)
    own[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    rows = _all_gather_tensor(own, group)
    return [json.loads(row[:size].numpy().tobytes()) for row, size in zip(rows, sizes, strict=True)]


def _all_gather_ints(number: int, group: Any) -> list[int]:
    if not _is_initialized():
        return [number]
    import torch

    return [int(row) for row in _all_gather_tensor(torch.tensor([number], dtype=torch.int64), group)]


def _all_gather_tensor(own: torch.Tensor, group: Any) -> list[torch.Tensor]:
    import torch
    from torch import distributed

    on_device = own.to(_collective_device(group))
    rows = [torch.empty_like(on_device) for _ in range(_group_size(group))]
    distributed.all_gather(rows, on_device, group=group)
    return [row.cpu() for row in rows]


def _collective_device(group: Any) -> torch.device:
    """The device of the group's backend."""
    import torch
    from torch import distributed

    backend = str(distributed.get_backend(group))
    if backend == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("xpu") if backend == "xccl" else torch.device("cpu")


def _is_in_data_loader_worker() -> bool:
    torch_data = sys.modules.get("torch.utils.data")
    return torch_data is not None and torch_data.get_worker_info() is not None


def _is_initialized() -> bool:
    from torch import distributed

    return bool(distributed.is_available() and distributed.is_initialized())


def _group_rank_of(global_rank: int, group: Any) -> int:
    """The rank in the group of a process of the whole job."""
    from torch import distributed

    if not _is_initialized() or group is None:
        if not 0 <= global_rank < _group_size(group):
            raise UsageError(
                f"this job has no process of rank {global_rank}", hint="pass a rank of the job, counted from 0"
            )
        return global_rank
    ranks = distributed.get_process_group_ranks(group)
    if global_rank not in ranks:
        raise UsageError(
            f"process {global_rank} is not in the data-parallel group, which has {shorten_list(ranks)}",
            hint="pass the rank in the whole job of a process of the group",
        )
    return ranks.index(global_rank)


def _group_rank(group: Any) -> int:
    from torch import distributed

    return distributed.get_rank(group) if _is_initialized() else 0


def _group_size(group: Any) -> int:
    from torch import distributed

    return distributed.get_world_size(group) if _is_initialized() else 1


def needs_balance(dataset: BaseDataset) -> bool:
    """Whether ranks may have unequal numbers of batches in a pass, and the recipe requires equal numbers."""
    is_endless = isinstance(dataset, TrainDataset) and dataset.repeat
    return not is_endless and dataset.uneven != "keep" and dataset.worker_config.world_size > 1


class RankBalancer:
    """Draws the batches of one rank so that all ranks have equally many in each pass: see `needs_balance`.

    `is_padding`: whether the last drawn batch only pads the pass.
    """

    def __init__(self, dataset: BaseDataset) -> None:
        self.is_padding = False
        self._uneven = dataset.uneven
        self._workers = dataset.worker_config
        self._has_random_hooks = has_random_hooks(dataset)
        self._last_batch: Any = None

    def draw(self, stream: RankStream) -> Any:
        """The stream's next batch, or the last batch again. Raises StopIteration when the pass is over.

        A rank without a last batch, because it was restored or has none in this pass, makes a batch of its pass again
        (`make_padding_batch`). Raises LoaderError WDS510 if the ranks need to communicate and cannot, WDS511 if no
        batch can be made.
        """
        self.is_padding = False
        batch = self._draw_balanced(stream)
        self._last_batch = batch if self._uneven == "pad" else None
        return batch

    def forget_last_batch(self) -> None:
        """Forget the last batch at the end of a pass, so that it does not pad the next pass."""
        self._last_batch = None

    def batches_per_pass(self, stream: RankStream) -> int:
        """The number of batches of every rank in a pass: that of the first rank (the maximum), or of the last one."""
        return stream.pass_length(0 if self._uneven == "pad" else self._workers.world_size - 1)

    def _draw_balanced(self, stream: RankStream) -> Any:
        drops = self._uneven == "drop"
        if stream.has_fixed_length and not self._has_random_hooks:
            # Every range of positions is one batch: the number of each rank is known without communication. If bans or
            # failures take all samples of a range, a batch takes its place.
            if not stream.has_more(self._workers.world_size - 1 if drops else 0):
                raise StopIteration
            own = stream.draw(skips_empty_turns=False) if stream.has_more(self._workers.rank) else END
            return self._draw_padding(stream) if own is END else own
        self._check_group()
        batch: Any = None
        try:
            batch = stream.draw()
            has_ended = False
        except StopIteration:
            has_ended = True
        ask = any_rank if drops else all_ranks
        if ask(has_ended, self._workers.data_parallel_group):
            raise StopIteration
        return self._draw_padding(stream) if has_ended else batch

    def _check_group(self) -> None:
        """Check that the ranks can communicate, because hooks may drop or add batches at any time."""
        if not has_process_group(self._workers):
            raise LoaderError(
                f"uneven={self._uneven!r} with hooks, packing or grouping needs torch.distributed, which is not "
                "initialised",
                hint="initialise torch.distributed first (and pass data_parallel_group), or pass uneven='keep'",
                code="WDS510",
            )

    def _draw_padding(self, stream: RankStream) -> Any:
        if self._last_batch is None:
            self._last_batch = stream.make_padding_batch()
        if self._last_batch is None:
            raise LoaderError(
                "this rank has no batch of this pass to pad with",
                hint="check the log for failures on this rank only; or pass uneven='keep', which needs no padding",
                code="WDS511",
            )
        stream.record_padding()
        self.is_padding = True
        return self._last_batch
