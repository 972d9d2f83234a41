"""LitData over the corpus converted by its `optimize` (convert_litdata.py), shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from litdata import StreamingDataLoader, StreamingDataset
from litdata.streaming import downloader

from benchmarks.contenders.pixels import decode
from benchmarks.contenders.protocol import BATCH_SIZE, Batch, Request, Stream, passes, run


def open_stream(request: Request) -> Stream:
    cache = request.cache or None
    if cache:
        # The store of the benchmark has no certificate.
        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # noqa: SLF001 - there is no argument for it
    dataset = StreamingDataset(request.data, cache, shuffle=True, transform=None if request.is_raw else _decoded)
    # Views of a mapped chunk cannot leave a worker: there they are copied.
    collate = partial(_columns, bytes if request.workers else _unchanged) if request.is_raw else None
    loader = StreamingDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=request.workers, collate_fn=collate)
    return passes(partial(_one_pass, loader), once=request.once)


def _decoded(sample: dict[str, Any]) -> dict[str, Any]:
    return {"jpg": decode(sample["jpg"]), "txt": bytes(sample["txt"])}


def _one_pass(loader: Any) -> Iterator[Batch]:
    for batch in loader:
        yield batch["jpg"], batch["txt"]


def _columns(convert: Callable[[Any], Any], samples: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [convert(sample[name]) for sample in samples] for name in ("jpg", "txt")}


def _unchanged(part: Any) -> Any:
    """Without workers a part is a view of the mapped chunk, not a copy."""
    return part


if __name__ == "__main__":
    run(open_stream)
