"""One rank of a training from a store; saves its state there every few steps, and resumes from it."""

from __future__ import annotations

import hashlib
import json
import os
import sys

import fsspec

from wdsctl.loader import DefaultTaskEncoder, SampleDecoder, WorkerConfig, get_savable_loader, get_train_dataset

SAVE_EVERY = 10


class Encoder(DefaultTaskEncoder):
    decoder = SampleDecoder(image_decode="torchrgb8")  # uint8 (3, height, width)


def main(dataset: str, states: str, rank: int, world: int, steps: int) -> None:
    print(f"process {os.getpid()}", flush=True)
    workers = WorkerConfig(rank=rank, world_size=world, num_workers=0)
    loader = get_savable_loader(
        get_train_dataset(dataset, batch_size=8, task_encoder=Encoder(), worker_config=workers, lanes=4)
    )
    filesystem, path = fsspec.url_to_fs(f"{states}/rank{rank}.json")
    first = 0
    if filesystem.exists(path):
        saved = json.loads(filesystem.cat_file(path))
        loader.load_state_dict(saved["loader"])
        first = saved["step"]
    for step, batch in zip(range(first + 1, steps + 1), loader, strict=False):
        digest = hashlib.sha256("\n".join(batch.__key__).encode() + batch.image.numpy().tobytes()).hexdigest()
        print(f"step {step} {digest[:16]}", flush=True)
        if step % SAVE_EVERY == 0:
            filesystem.pipe_file(path, json.dumps({"step": step, "loader": loader.state_dict()}).encode())
    loader.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
