"""A script that a test runs in another process: restores a state and prints the digests of the next batches."""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path

from tests.loader.datasets import Raw, digest
from wdsctl.loader import get_savable_loader, get_train_dataset


def main(path: str, state: str, count: str) -> None:
    dataset = get_train_dataset(
        path, batch_size=7, shuffle_buffer_size=8, max_samples_per_sequence=4, task_encoder=Raw()
    )
    loader = get_savable_loader(dataset)
    loader.restore_state_rank(json.loads(Path(state).read_text(encoding="utf-8")))
    for batch in islice(loader, int(count)):
        sys.stdout.write(digest(batch) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
