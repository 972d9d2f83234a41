"""One process of a job over gloo: plays histories of passes with hooks and `uneven="drop"` or `"pad"`.

`python -m tests.loader.pass_history_process RANK WORLD STORE DATASET FIRST_SEED SEEDS`. Prints the faults as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import random
import sys
from collections import Counter
from typing import Any

from torch import distributed

from tests.loader.running import json_round_trip
from tests.loader.test_pass_histories import ENCODERS, take
from wdsctl.loader import Loader, WorkerConfig, get_loader, get_train_dataset


def gather(value: Any) -> list[Any]:
    values: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def play(path: str, seed: int, rank: int, world: int) -> list[str]:
    """Breaks off and resumes a pass at every step. Returns the faults."""
    choose = random.Random(seed)  # the same on all ranks
    encoder = choose.choice(ENCODERS[1:])(seed)
    uneven, batch_size = choose.choice(["drop", "pad"]), choose.randint(1, 3)

    def loader_of(rank: int, world: int) -> Loader:
        options: dict[str, Any] = {"repeat": False, "uneven": uneven, "shuffle_buffer_size": 4, "task_encoder": encoder}
        workers = WorkerConfig(rank, world)
        return get_loader(get_train_dataset(path, batch_size=batch_size, worker_config=workers, **options))

    alone = loader_of(0, 1)
    expected = [Counter(take([alone], 99)[0]) for _ in range(5)]
    (length,) = take([loader_of(rank, world)], 99)[1]
    faults = []
    for step in range(length + 1):
        way = choose.choice(["break", "own", "all"])
        loader = loader_of(rank, world)
        loops = [take([loader], step)]
        if way != "break":
            states = json_round_trip(loader.save_state_global(None))
            loader = loader_of(rank, world)
            loader.load_state_dict(states[rank] if way == "own" else states)
        loops += [take([loader], 99) for _ in range(3)]
        of_ranks = gather(loops)
        samples = [[key for of_rank in of_ranks for key in of_rank[i][0]] for i in range(4)]
        apart = [i for i, keys in enumerate(samples) if len({key[1] for key in keys}) > 1]
        # A pass that begins after the last batch of another may have no batch: "drop" drops all if one rank has none.
        passes = [[key for keys in samples for key in keys if key[1] == number] for number in range(len(expected))]
        problems = [
            len({of_rank[i][1][0] for of_rank in of_ranks}) > 1 and f"loop {i} has different lengths" for i in range(4)
        ]
        problems.append(bool(apart) and f"ranks are a pass apart in loops {apart}")
        for number, keys in enumerate(passes):
            missing, surplus = expected[number] - Counter(keys), Counter(keys) - expected[number]
            problems.append(bool(surplus) and f"pass {number} has {sum(surplus.values())} samples too many")
            is_complete = uneven == "drop" or not any(passes[number:]) or not missing
            problems.append(not is_complete and f"pass {number} lacks {sum(missing.values())} samples")
        where = f"seed {seed}, {type(encoder).__name__}, {uneven}, batch_size {batch_size}, step {step}, {way}"
        faults += [f"{where}: {problem}" for problem in problems if problem]
    return faults


def main(rank: int, world: int, store: str, path: str, first: int, count: int) -> None:
    logging.disable()
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    faults = [fault for seed in range(first, first + count) for fault in play(path, seed, rank, world)]
    print(json.dumps(faults))  # noqa: T201 - read by the test
    distributed.barrier()
    distributed.destroy_process_group()
    sys.stdout.flush()
    # Skip the interpreter's shutdown, which gloo's threads abort once in many runs.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5], *map(int, sys.argv[5:7]))  # type: ignore[arg-type]
