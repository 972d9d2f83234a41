"""MosaicML Streaming over the corpus converted to MDS (convert_mosaic.py), shuffled by its default algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.contenders.mosaic_package import StreamingDataLoader, StreamingDataset, clean_stale_shared_memory
from benchmarks.contenders.pixels import decode
from benchmarks.contenders.protocol import BATCH_SIZE, Batch, Request, Stream, passes, run


class _Decoded(StreamingDataset):  # type: ignore[misc]  # the base class is untyped here
    def __getitem__(self, at: Any) -> Any:
        sample = super().__getitem__(at)
        return {"jpg": decode(sample["jpg"]), "txt": sample["txt"]}


def open_stream(request: Request) -> Stream:
    # A run that was killed leaves segments behind that make the next one fail.
    clean_stale_shared_memory()
    kind = StreamingDataset if request.is_raw else _Decoded
    place = {"remote": request.data, "local": request.cache} if request.cache else {"local": request.data}
    dataset = kind(**place, shuffle=True, batch_size=BATCH_SIZE)
    if request.cache:
        # Its S3 client has a connection open, on which all workers would talk at once after a fork.
        for stream in dataset.streams:
            stream._downloader.clean_up()  # noqa: SLF001 - it has no other way
    collate = _columns if request.is_raw else None
    loader = StreamingDataLoader(dataset, batch_size=BATCH_SIZE, num_workers=request.workers, collate_fn=collate)
    return passes(partial(_one_pass, loader), once=request.once)


def _one_pass(loader: Any) -> Iterator[Batch]:
    for batch in loader:
        yield batch["jpg"], batch["txt"]


def _columns(samples: list[dict[str, bytes]]) -> dict[str, list[bytes]]:
    return {name: [sample[name] for sample in samples] for name in ("jpg", "txt")}


if __name__ == "__main__":
    run(open_stream)
