"""The package under test, with its defaults."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders.protocol import BATCH_SIZE, Request, Stream, run
from wdsctl.loader import (
    DefaultTaskEncoder,
    SampleDecoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
)


class _Raw(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = None


class _Decoded(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder(image_decode="torchrgb8")


def open_stream(request: Request) -> Stream:
    encoder = _Raw() if request.is_raw else _Decoded()
    workers = WorkerConfig(rank=0, world_size=1, num_workers=request.workers)
    if request.once:
        # The training stream has no end; a pass over the same split has one.
        one_pass = get_val_dataset(
            request.data, split_part="train", batch_size=BATCH_SIZE, task_encoder=encoder, worker_config=workers
        )
        loader = get_loader(one_pass)
    else:
        endless = get_train_dataset(request.data, batch_size=BATCH_SIZE, task_encoder=encoder, worker_config=workers)
        loader = get_loader(endless)
    for batch in loader:
        yield batch.image, batch.caption


if __name__ == "__main__":
    run(open_stream)
