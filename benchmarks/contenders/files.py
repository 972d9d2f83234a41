"""The reference for every contender's checksums: the folder of files itself, read in order, decoded by Pillow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from benchmarks.contenders.pixels import decode
from benchmarks.contenders.protocol import BATCH_SIZE, Batch, Request, Stream, passes, run


def open_stream(request: Request) -> Stream:
    return passes(partial(_one_pass, request), once=request.once)


def _one_pass(request: Request) -> Iterator[Batch]:
    names = sorted(Path(request.data).glob("*.jpg"))
    for start in range(0, len(names), BATCH_SIZE):
        batch = names[start : start + BATCH_SIZE]
        images = [name.read_bytes() for name in batch]
        captions = [name.with_suffix(".txt").read_bytes() for name in batch]
        yield images if request.is_raw else torch.stack([decode(image) for image in images]), captions


if __name__ == "__main__":
    run(open_stream)
