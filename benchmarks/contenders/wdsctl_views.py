"""The package under test with `raw="view"`: parts are views of the mapped shards. Raw mode only."""

from __future__ import annotations

from typing import Any

from benchmarks.contenders.protocol import BATCH_SIZE, Request, Stream, run
from wdsctl.loader import DefaultTaskEncoder, get_loader, get_train_dataset, get_val_dataset


class _Raw(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = None


def open_stream(request: Request) -> Stream:
    make = get_val_dataset if request.once else get_train_dataset
    dataset = make(request.data, split_part="train", batch_size=BATCH_SIZE, task_encoder=_Raw(), raw="view")
    for batch in get_loader(dataset):
        yield batch.image, batch.caption


if __name__ == "__main__":
    run(open_stream)
