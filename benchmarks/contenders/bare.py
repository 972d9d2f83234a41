"""The yardstick: no loader at all. Every shard mapped, part offsets in one array, the order a numpy permutation.

What a loop in Python can reach with nothing on top: no resume, no hooks. Pictures go through simplejpeg. With workers,
each makes every so manyth batch, and they come over in a bare ring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import numpy.typing as npt
import simplejpeg
import torch

from benchmarks.contenders.bare_ring import Parts, shared
from benchmarks.contenders.protocol import BATCH_SIZE, Batch, Request, Stream, passes, run

_BLOCK = 512
_SHAPE = (3, 256, 256)


@dataclass(frozen=True, slots=True)
class _Table:
    maps: list[mmap]
    #: int64 (samples,): which shard a sample is in.
    home: npt.NDArray[np.int64]
    #: int64 (samples, 4): where its jpg begins and ends, where its txt does.
    spans: npt.NDArray[np.int64]


def open_stream(request: Request) -> Stream:
    maps = [_mapped(path) for path in sorted(Path(request.data).glob("*.tar"))]
    spans = [_spans(shard) for shard in maps]
    table = _Table(maps, np.repeat(np.arange(len(maps)), list(map(len, spans))), np.concatenate(spans))
    if not request.workers:
        return passes(partial(_one_pass, table, np.random.default_rng(0), request.is_raw), once=request.once)
    open_worker_stream = partial(_of_worker, table, request.workers, request.once)
    return shared(open_worker_stream, request.workers, _SHAPE, None if request.is_raw else _decode)


def _one_pass(table: _Table, random: np.random.Generator, is_raw: bool) -> Iterator[Batch]:
    for images, captions in _parts(table, random, 0, 1):
        yield images if is_raw else _pixels(images), captions


def _of_worker(table: _Table, workers: int, once: bool, worker: int) -> Iterator[Parts]:
    """Every so manyth batch of passes that all workers shuffle alike."""
    random = np.random.default_rng(0)
    while True:
        yield from _parts(table, random, worker, workers)
        if once:
            return


def _parts(table: _Table, random: np.random.Generator, first: int, step: int) -> Iterator[Parts]:
    order = random.permutation(len(table.home))
    for start in range(first * BATCH_SIZE, len(order), step * BATCH_SIZE):
        chosen = order[start : start + BATCH_SIZE]
        shards = [table.maps[home] for home in table.home[chosen].tolist()]
        spans = table.spans[chosen].tolist()
        images = [shard[begin:end] for shard, (begin, end, _, _) in zip(shards, spans, strict=True)]
        captions = [shard[begin:end] for shard, (_, _, begin, end) in zip(shards, spans, strict=True)]
        yield images, captions


def _pixels(images: list[bytes]) -> torch.Tensor:
    batch = np.empty((len(images), *_SHAPE), dtype=np.uint8)
    _decode(images, batch)
    return torch.from_numpy(batch)


def _decode(images: list[bytes], batch: npt.NDArray[np.uint8]) -> None:
    """uint8 (batch, 3, height, width), all of it written."""
    for row, image in zip(batch, images, strict=True):
        row[:] = simplejpeg.decode_jpeg(image).transpose(2, 0, 1)


def _mapped(path: Path) -> mmap:
    with path.open("rb") as file:
        return mmap(file.fileno(), 0, access=ACCESS_READ)


def _spans(shard: mmap) -> npt.NDArray[np.int64]:
    """The rows of _Table.spans for one shard of plain ustar, a jpg and a txt a sample."""
    begins_ends: dict[bytes, list[int]] = {b"jpg": [], b"txt": []}
    at = 0
    while name := shard[at : at + 100].rstrip(b"\0"):
        size = int(shard[at + 124 : at + 135], 8)
        at += _BLOCK
        begins_ends.get(name.rpartition(b".")[2], []).extend((at, at + size))
        at += -(-size // _BLOCK) * _BLOCK
    return np.concatenate([np.reshape(ends, (-1, 2)) for ends in begins_ends.values()], axis=1)


if __name__ == "__main__":
    run(open_stream)
