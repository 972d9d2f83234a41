"""One rank of a job over gloo with a real loader: saved to one rank, restored from it, evened out with the others.

`python -m tests.loader.job_process RANK WORLD STORE DATASET`. Prints what it saw, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from typing import Any

from torch import distributed

from tests.loader.datasets import Raw, digest
from wdsctl.core.errors import WdsctlError
from wdsctl.loader import Loader, SkipSample, WorkerConfig, get_loader, get_train_dataset, get_val_dataset


class Skips(Raw):
    """Leaves out most of what the first lanes have, so that ranks have unlike numbers of batches."""

    def encode_sample(self, sample: Any) -> Any:
        if int(sample["__key__"]) % 3 == 0:
            raise SkipSample
        return sample


class Grouped(Skips):
    def batch_group_criterion(self, sample: Any) -> tuple[bool, int]:
        return int(sample["__key__"]) % 5 == 0, 3


def loader_of(path: str, rank: int, world: int, **options: Any) -> Loader:
    options = {"batch_size": 3, "lanes": 6, "shuffle_buffer_size": 8, "task_encoder": Skips(), **options}
    config = WorkerConfig(rank, world, data_parallel_group=distributed.group.WORLD)
    return get_loader(get_train_dataset(path, worker_config=config, **options))


def saved_and_restored(path: str, rank: int, world: int) -> dict[str, Any]:
    loader = loader_of(path, rank, world)
    list(islice(loader, 5))
    states = loader.save_state_global(0)
    truth = [digest(batch) for batch in islice(loader, 6)]
    again = loader_of(path, rank, world)
    again.restore_state_global(states, src_rank=0)
    return {
        "has states": states is not None,
        "goes on": [digest(batch) for batch in islice(again, 6)] == truth,
    }


def evened_out(path: str, rank: int, world: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for uneven in ("drop", "pad"):
        for name, encoder in (("runs", Skips()), ("lanes", Grouped())):
            loader = loader_of(path, rank, world, repeat=False, uneven=uneven, task_encoder=encoder)
            for number in range(2):
                padding = [loader.is_padding for _ in loader]
                found[f"{uneven} {name} {number}"] = [len(padding), sum(padding)]
    return found


def last_steps(path: str, rank: int, world: int) -> dict[str, Any]:
    """Passes of ranks that keep unlike numbers of batches, saved when the first of them has ended: runs of which only
    one rank has another, and lanes of which one rank has more."""
    workers = WorkerConfig(rank, world, data_parallel_group=distributed.group.WORLD)

    def runs() -> Loader:
        return loader_of(path, rank, world, repeat=False, batch_size=4, task_encoder=Raw())

    def lanes() -> Loader:
        options: dict[str, Any] = {"split_part": "train", "lanes": 5, "task_encoder": Grouped()}
        return get_loader(get_val_dataset(path, batch_size=3, worker_config=workers, **options))

    found: dict[str, Any] = {}
    for fresh in (runs, lanes):
        counts: list[Any] = [None] * world
        distributed.all_gather_object(counts, len(list(fresh())))
        least, most = min(counts), max(counts)
        loader, again = fresh(), fresh()
        list(islice(loader, least + 1))
        again.restore_state_global(loader.save_state_global(0), src_rank=0)
        # Of runs it is known that nobody has any more: the next pass follows.
        left = counts[rank] if fresh is runs else max(0, counts[rank] - least - 1)
        found[f"last steps, {fresh.__name__}"] = [least < most, len(list(again)) == left]
    return found


def padded(path: str, rank: int, world: int) -> dict[str, Any]:
    """A validation that has one lane, and so batches for one rank, saved after two steps: what came of each digest."""
    workers = WorkerConfig(rank, world, data_parallel_group=distributed.group.WORLD)
    options: dict[str, Any] = {"split_part": "train", "batch_size": 3, "lanes": 1, "task_encoder": Grouped()}

    def fresh() -> Loader:
        return get_loader(get_val_dataset(path, uneven="pad", worker_config=workers, **options))

    whole, loader, again = fresh(), fresh(), fresh()
    counts = [len(list(whole)), sum(whole.is_padding for _ in whole)]
    list(islice(loader, 2))
    again.restore_state_global(loader.save_state_global(0), src_rank=0)
    return {"padded": [*counts, len(list(again)), len(list(again))]}


def other_plans(path: str, rank: int, world: int) -> str:
    try:
        next(iter(loader_of(path, rank, world, seed=rank)))
    except WdsctlError as error:
        return error.code
    return "nothing"


def main(rank: int, world: int, store: str, path: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    told = {
        **saved_and_restored(path, rank, world),
        **evened_out(path, rank, world),
        **last_steps(path, rank, world),
        **padded(path, rank, world),
        "other plans": other_plans(path, rank, world),
    }
    print(json.dumps(told))  # noqa: T201 - to the test
    distributed.barrier()
    distributed.destroy_process_group()
    sys.stdout.flush()
    # What gloo's threads do while an interpreter ends is not asked here: once in many runs they abort it.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
