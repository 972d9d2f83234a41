"""One rank of a job over gloo with a real loader: saved to one rank, restored from it, with even step counts.

`python -m tests.loader.job_process RANK WORLD STORE DATASET`. Prints a report as JSON.
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
    """Skips every third sample, so that ranks have different numbers of batches."""

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


def check_restore(path: str, rank: int, world: int) -> dict[str, Any]:
    loader = loader_of(path, rank, world)
    list(islice(loader, 5))
    states = loader.save_state_global(0)
    expected = [digest(batch) for batch in islice(loader, 6)]
    restored = loader_of(path, rank, world)
    restored.restore_state_global(states, src_rank=0)
    return {
        "has states": states is not None,
        "goes on": [digest(batch) for batch in islice(restored, 6)] == expected,
    }


def count_uneven_steps(path: str, rank: int, world: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for uneven in ("drop", "pad"):
        for name, encoder in (("runs", Skips()), ("lanes", Grouped())):
            loader = loader_of(path, rank, world, repeat=False, uneven=uneven, task_encoder=encoder)
            for number in range(2):
                padding = [loader.is_padding for _ in loader]
                results[f"{uneven} {name} {number}"] = [len(padding), sum(padding)]
    return results


def check_last_steps(path: str, rank: int, world: int) -> dict[str, Any]:
    """Passes over ranks with different numbers of batches, saved after the first rank has ended: batch ranges of which
    only one rank has another one, and lanes of which one rank has more batches."""
    workers = WorkerConfig(rank, world, data_parallel_group=distributed.group.WORLD)

    def runs() -> Loader:
        return loader_of(path, rank, world, repeat=False, batch_size=4, task_encoder=Raw())

    def lanes() -> Loader:
        options: dict[str, Any] = {"split_part": "train", "lanes": 5, "task_encoder": Grouped()}
        return get_loader(get_val_dataset(path, batch_size=3, worker_config=workers, **options))

    results: dict[str, Any] = {}
    for make_loader in (runs, lanes):
        counts: list[Any] = [None] * world
        distributed.all_gather_object(counts, len(list(make_loader())))
        least, most = min(counts), max(counts)
        loader, restored = make_loader(), make_loader()
        list(islice(loader, least + 1))
        restored.restore_state_global(loader.save_state_global(0), src_rank=0)
        # With batch ranges, all ranks know that none are left, so the next pass follows.
        left = counts[rank] if make_loader is runs else max(0, counts[rank] - least - 1)
        results[f"last steps, {make_loader.__name__}"] = [least < most, len(list(restored)) == left]
    return results


def count_padding(path: str, rank: int, world: int) -> dict[str, Any]:
    """A validation with one lane, so with batches for one rank only, saved after two steps: counts of batches."""
    workers = WorkerConfig(rank, world, data_parallel_group=distributed.group.WORLD)
    options: dict[str, Any] = {"split_part": "train", "batch_size": 3, "lanes": 1, "task_encoder": Grouped()}

    def make_loader() -> Loader:
        return get_loader(get_val_dataset(path, uneven="pad", worker_config=workers, **options))

    whole, loader, restored = make_loader(), make_loader(), make_loader()
    counts = [len(list(whole)), sum(whole.is_padding for _ in whole)]
    list(islice(loader, 2))
    restored.restore_state_global(loader.save_state_global(0), src_rank=0)
    return {"padded": [*counts, len(list(restored)), len(list(restored))]}


def check_other_plans(path: str, rank: int, world: int) -> str:
    try:
        next(iter(loader_of(path, rank, world, seed=rank)))
    except WdsctlError as error:
        return error.code
    return "nothing"


def check_other_bans_and_steps(path: str, rank: int, world: int) -> dict[str, Any]:
    """What ranks get that pass other bans, and that resume from their own states of different steps."""
    saved, resumed = loader_of(path, rank, world), loader_of(path, rank, world)
    states = []
    for _ in range(world):
        next(iter(saved))
        states.append(saved.state_dict())
    resumed.load_state_dict(states[rank])
    together = loader_of(path, rank, world)
    together.load_state_dict(states[0])
    loaders = {
        "other bans": loader_of(path, rank, world, ban=[f"{rank:06}"]),
        "other steps": resumed,
        "one step": together,
    }
    report = {}
    for name, loader in loaders.items():
        try:
            next(iter(loader))
            report[name] = ["nothing", ""]
        except WdsctlError as error:
            report[name] = [error.code, error.message]
    return report


def main(rank: int, world: int, store: str, path: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    report = {
        **check_restore(path, rank, world),
        **count_uneven_steps(path, rank, world),
        **check_last_steps(path, rank, world),
        **count_padding(path, rank, world),
        "other plans": check_other_plans(path, rank, world),
        **check_other_bans_and_steps(path, rank, world),
    }
    print(json.dumps(report))  # noqa: T201 - read by the test
    distributed.barrier()
    distributed.destroy_process_group()
    sys.stdout.flush()
    # Skip the interpreter's shutdown, which gloo's threads abort once in many runs.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
