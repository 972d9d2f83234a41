"""webdataset: shards shuffled, then a buffer of 1000."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import webdataset as wds
from webdataset.shardlists import expand_urls

from benchmarks.contenders.protocol import BATCH_SIZE, SHUFFLE_SAMPLES, Batch, Request, Stream, passes, run


def open_stream(request: Request) -> Stream:
    shards = _shards(request.data)
    dataset = wds.WebDataset(shards, shardshuffle=len(shards), seed=0).shuffle(SHUFFLE_SAMPLES)
    if request.is_raw:
        dataset = dataset.to_tuple("jpg", "txt").batched(BATCH_SIZE, collation_fn=_columns)
    else:
        dataset = dataset.decode("torchrgb8").to_tuple("jpg", "txt").batched(BATCH_SIZE)
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=request.workers)
    return passes(partial(_one_pass, loader), once=request.once)


def _shards(data: str) -> list[str]:
    """The tars in a folder; or those of a pattern of URLs, `store://...` for the store of the benchmark."""
    if "://" not in data:
        return sorted(map(str, Path(data).glob("*.tar")))
    return list(expand_urls(data.replace("store://", f"{os.environ['AWS_ENDPOINT_URL']}/")))


def _one_pass(loader: Any) -> Iterator[Batch]:
    yield from loader


def _columns(samples: list[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    return [image for image, _ in samples], [caption for _, caption in samples]


if __name__ == "__main__":
    run(open_stream)
