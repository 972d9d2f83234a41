"""A training on a blend of equal weights over many small datasets: how it starts, what it holds, how fast it goes.

    python -m benchmarks.contenders.sources --sources N --mode raw|decoded|hook --seconds S [--workers W]

`raw`: nothing is overridden and nothing decoded. `hook`: `encode_sample` makes a tensor of the image's bytes. Both
over tiny samples. `decoded`: photographs, decoded as a training would have them. What comes is checked: after one pass'
worth of samples, every dataset has given within 2 picks a lane of its share.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.many_sources import PHOTOS, SAMPLES, ensure_photo_sources, ensure_sources
from benchmarks.memory import tree_bytes
from wdsctl.loader import (
    Blender,
    DefaultTaskEncoder,
    Loader,
    SampleDecoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
)

_BATCH = 32
_LANES = 8


@dataclass(slots=True)
class _Encoded:
    __key__: str
    __restore_key__: tuple[Any, ...]
    pixels: torch.Tensor


class _Raw(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = None


class _Hook(_Raw):
    """The least that a hook does: eight numbers out of a part."""

    def encode_sample(self, sample: Any) -> _Encoded:
        numbers = torch.from_numpy(np.frombuffer(sample.image, np.uint8, 8).copy())
        return _Encoded(sample.__key__, sample.__restore_key__, numbers)


class _Decoded(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder(image_decode="torchrgb8")


_ENCODERS = {"raw": _Raw, "hook": _Hook, "decoded": _Decoded}


def main() -> None:
    given = _arguments()
    torch.set_num_threads(1)
    of_photos = given.mode == "decoded"
    roots, samples = (
        (ensure_photo_sources(given.sources), PHOTOS) if of_photos else (ensure_sources(given.sources), SAMPLES)
    )
    # What Python imports when it first runs a loader is no work of the loader's.
    next(iter(_loader(roots[:1], given)))
    descriptors, bytes_before = _descriptors(), tree_bytes(os.getpid())
    start = time.perf_counter()
    loader = _loader(roots, given)
    next(iter(loader))
    seconds = time.perf_counter() - start
    counts = Counter(source for batch in islice(loader, samples // _BATCH) for source in _sources(batch))
    _check(counts, given.sources, samples)
    held = {
        "descriptors": _descriptors() - descriptors,
        "held_bytes": tree_bytes(os.getpid()) - bytes_before,
    }
    print(json.dumps({"start_seconds": seconds, **held, "samples_per_second": _rate(loader, given.seconds)}))


def _loader(roots: list[Path], given: argparse.Namespace) -> Loader:
    path: Any = str(roots[0]) if len(roots) == 1 else Blender([(str(root), 1) for root in roots])
    workers = WorkerConfig(rank=0, world_size=1, num_workers=given.workers)
    encoder = _ENCODERS[given.mode]()
    return get_loader(get_train_dataset(path, batch_size=_BATCH, task_encoder=encoder, worker_config=workers))


def _rate(loader: Loader, seconds: float) -> float:
    samples, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for batch in islice(loader, 20):
            samples += len(batch.__key__)
    return samples / elapsed


def _sources(batch: Any) -> list[int]:
    return [source for source, _, _ in batch.__restore_key__]


def _check(counts: Counter[int], sources: int, samples: int) -> None:
    share = samples / sources
    farthest = max(abs(counts[source] - share) for source in range(sources))
    if farthest > 2 * _LANES:
        raise SystemExit(f"a source is {farthest:g} samples off its share of {share:g}")


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sources", type=int, required=True)
    parser.add_argument("--mode", choices=sorted(_ENCODERS), required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seconds", type=float, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
