"""From the arguments of a training to its first batch, begun or resumed: one JSON line with the seconds.

    python -m benchmarks.contenders.resume --data DIR [--batches N]

With `--batches` a state is saved that many batches into the stream, and the clock starts when it is restored.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import islice
from typing import Any

from wdsctl.loader import DefaultTaskEncoder, get_savable_loader, get_train_dataset


class _Raw(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--batches", type=int, default=0)
    given = parser.parse_args()
    dataset = get_train_dataset(given.data, batch_size=32, task_encoder=_Raw())
    # What Python imports when it first runs a loader is no work of the loader's.
    before = get_savable_loader(dataset)
    next(islice(before, given.batches, None))
    saving = time.perf_counter()
    state = json.dumps(before.state_dict())
    saving = time.perf_counter() - saving
    start = time.perf_counter()
    loader = get_savable_loader(dataset)
    if given.batches:
        loader.restore_state_rank(json.loads(state))
    next(iter(loader))
    seconds = time.perf_counter() - start
    print(json.dumps({"first_batch_seconds": seconds, "state_bytes": len(state), "state_seconds": saving}))


if __name__ == "__main__":
    main()
