"""One process of a job over gloo: makes every call of `wdsctl.loader.distributed`, and prints the results as JSON.

`python -m tests.loader.distributed_process RANK WORLD STORE`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from torch import distributed

from tests.core.job_states import job
from wdsctl.core.checkpoint.state import merge_states
from wdsctl.core.errors import WdsctlError
from wdsctl.loader import WorkerConfig
from wdsctl.loader.distributed import (
    all_gather_states,
    all_ranks,
    any_rank,
    check_created_after_init,
    check_distinct_ranks,
    check_group,
    check_same_on_all_ranks,
    gather_states,
    scatter_states,
)


def result_of(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Returns the result of a call, or code and message of the error that it raises."""
    try:
        return call(*arguments, **options)
    except WdsctlError as error:
        return [error.code, error.message]


def calls(rank: int, world: int) -> dict[str, Any]:
    states = job(world, lanes=2 * world, drawn=8 * world)
    # The longest state is the last one: sizes differ between ranks.
    states[-1]["plan"]["order"]["words"] = "ä" * 1000
    last, own = world - 1, {"rank": rank, "of": "é" * rank}
    merged = merge_states(job(world, lanes=2 * world, drawn=8 * world))
    ignored = "nobody reads this"
    return {
        "gathered": gather_states(states[rank]) == (states if rank == 0 else None),
        "gathered on the last": gather_states(own, dst=last),
        "gathered on all": gather_states(own, dst=None),
        "scattered": scatter_states(states if rank == last else ignored, src=last) == states[rank],  # type: ignore[arg-type]
        "merged": scatter_states(merged if rank == 0 else None) == merged,
        "of another world": scatter_states(states[:1] if rank == 0 else None) == states[:1],
        "of nobody": result_of(scatter_states, None),
        "everybody's": [
            all_gather_states(states[rank]) == states,
            all_gather_states(states if rank == last else ignored, src=last) == states,
            all_gather_states(merged) == merged,
            all_gather_states(None) is None,
        ],
        "any": [any_rank(rank == last), any_rank(False)],
        "all": [all_ranks(True), all_ranks(rank == 0)],
        "same": result_of(check_same_on_all_ranks, {"seed": 1}),
        "other": result_of(check_same_on_all_ranks, {"seed": 7 if rank == last else 1, "split": "train"}),
        "own ranks": result_of(check_distinct_ranks, WorkerConfig(rank, world)),
        "one rank": result_of(check_distinct_ranks, WorkerConfig(world - 1, world)),
        "mine": result_of(check_group, WorkerConfig(rank, world)),
        "not mine": result_of(check_group, WorkerConfig(0, 1)),
    }


def calls_in_groups(rank: int, world: int) -> dict[str, Any]:
    """The same calls in process groups: one of all ranks but the first, one of the first rank only."""
    groups = [distributed.new_group([0]), distributed.new_group(list(range(1, world)))]
    group, first = groups[rank > 0], 1 if rank else 0
    workers = WorkerConfig.default_worker_config(0, group)
    explicit = WorkerConfig(data_parallel_group=group)
    states = [{"rank": 0}, {"rank": 1}] if rank == 1 else [{"rank": 0}]
    return {
        "rank in its group": [workers.rank, workers.world_size],
        "left out": [(each.rank, each.world_size) for each in (WorkerConfig(num_workers=2), explicit)],
        "gathered in its group": gather_states({"rank": rank}, group, dst=first),
        "scattered in its group": scatter_states(states, group),
        "a rank outside": result_of(scatter_states, states, group, world - (rank > 0)),
        "a process outside": result_of(gather_states, {}, group, dst=0 if rank else 1),
    }


def main(rank: int, world: int, store: str) -> None:
    early = WorkerConfig(num_workers=1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    results = [result_of(check_created_after_init, workers) for workers in (early, WorkerConfig(), WorkerConfig(0, 1))]
    print(json.dumps({**calls(rank, world), **calls_in_groups(rank, world), "places": results}))  # noqa: T201 - read by the test
    distributed.barrier()
    distributed.destroy_process_group()
    sys.stdout.flush()
    # Skip the interpreter's shutdown, which gloo's threads abort once in many runs.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
