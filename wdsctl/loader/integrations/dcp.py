"""The state of a whole job as one value, for torch.distributed.checkpoint, FSDP2, Lightning, Accelerate and others.

Most trainers keep one state per name: that of rank 0, or one rank's. `WholeJob` gives all ranks the same state, so that
any of them may be kept, and any number of ranks can restore it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from wdsctl.core.errors import LoaderError, StateMismatch
from wdsctl.core.json_text import read_json
from wdsctl.core.text import short_repr
from wdsctl.loader import distributed
from wdsctl.loader.loader import Loader


class WholeJob:
    """A loader whose state is that of all ranks: a `torch.distributed.checkpoint.stateful.Stateful`.

    All ranks of the data-parallel group must ask for the state together. If some do not, the others raise LoaderError
    WDS546 after `timeout_seconds`, instead of waiting forever. The state is one text: trainers that compare, convert or
    move what they find in a state leave it alone.
    """

    #: NeMo AutoModel then saves through torch.distributed.checkpoint, on all ranks, and not on rank 0 alone.
    use_distributed_checkpointing = True

    def __init__(self, loader: Loader, *, timeout_seconds: float = 60.0) -> None:
        self.loader = loader
        self._timeout = timedelta(seconds=timeout_seconds)
        self._group: Any = None  # over gloo, with our timeout

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def __bool__(self) -> bool:
        """True, also for an endless training: trainers write `if loader:`."""
        return True

    def close(self) -> None:
        """End the workers and close the shards, as `Loader.close`."""
        self.loader.close()

    def state_dict(self) -> dict[str, str]:
        """The states of all ranks after their last batches. About 1 KB per rank and 100 bytes per lane."""
        return {"states": json.dumps(self._gather(), separators=(",", ":"))}

    def load_state_dict(self, saved: dict[str, str], *, strict: bool = False) -> None:
        """Continue from the states of all ranks, on any number of ranks. Needs no communication.

        Raises StateMismatch as `Loader.load_state_dict`.
        """
        self.loader.load_state_dict(_states_in(saved), strict=strict)

    def _gather(self) -> list[Any]:
        """The states of all data-parallel ranks, in order.

        Without a data-parallel group that fits, all processes of the job take part, of which several may have one rank.
        Raises LoaderError WDS546 without the other ranks.
        """
        state = self.loader.state_dict()
        workers = self.loader.worker_config
        distributed.check_other_processes(workers)
        if workers.world_size == 1:
            return [state]
        try:
            if self._group is None:
                self._group = distributed.new_gloo_group(workers.data_parallel_group, self._timeout)
            distributed.wait_for_all(self._group, self._timeout)
            states = {each["rank"]: each for each in distributed.all_gather_states(state, self._group)}
        except RuntimeError as error:
            self._group = None
            raise LoaderError(
                f"rank {workers.rank} asked for the state of the job, but not all of the other "
                f"{workers.world_size - 1} ranks did so within {self._timeout.total_seconds():g} s",
                hint="call state_dict() on all data-parallel ranks, or save loader.state_dict() of each rank in a file "
                "per rank",
                code="WDS546",
            ) from error
        if len(states) != workers.world_size:
            raise LoaderError(
                f"the processes of this job have loaders of {len(states)} ranks, and rank {workers.rank} is one of "
                f"{workers.world_size}",
                hint="pass the group of the ranks that read different batches: WorkerConfig(data_parallel_group=...)",
                code="WDS546",
            )
        return [states[rank] for rank in sorted(states)]


def _states_in(saved: Any) -> Any:
    """The states in a value of `WholeJob.state_dict`. Raises StateMismatch WDS502 for any other value."""
    text = saved.get("states") if isinstance(saved, Mapping) else None
    try:
        return read_json(text)  # type: ignore[arg-type] # a TypeError is handled
    except (TypeError, ValueError) as error:
        raise StateMismatch(
            f"the value is not the state of a job of a wdsctl loader: {short_repr(saved)}",
            hint="pass what WholeJob.state_dict() returned; a trainer that numbers its states needs the same order of "
            "registration in each run",
            code="WDS502",
        ) from error
