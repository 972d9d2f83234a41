"""Loaders feeding one process: samples a second, raw and decoded, and the time to the first batch."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.loader_data import loader_data
from benchmarks.measure import ContenderError, Cost, measure
from benchmarks.places import PEERS_PYTHON, WDSCTL_PYTHON
from benchmarks.results import Row

CORPORA = ("photos-raw", "photos", "tiny")
#: Numbers of worker processes, a row each.
WORKERS = (0, 2)
_EVERYBODY = ("wdsctl", "wdsctl_views", "energon", "webdataset", "mosaic", "litdata", "bare")
#: Views of a map cannot leave a worker.
_WITHOUT_WORKERS = ("wdsctl_views",)
#: Those that have nothing to decode.
_RAW_ONLY = ("wdsctl_views",)
#: Those that read the shards as they are, without a conversion.
_SHARD_READERS = ("wdsctl", "energon", "webdataset")
_SECONDS = 5.0
#: Two JPEG decoders may differ by a grey level here and there, but not in the sum.
_PIXEL_TOLERANCE = 0.005


def loader_rows(
    is_selected: Callable[[str], bool], rounds: int, worker_counts: Sequence[int] = WORKERS
) -> Iterator[Row]:
    """Rows for each number of workers; only the contenders whose name is wanted."""
    for mode in ("raw", "decoded"):
        names = [name for name in _EVERYBODY if is_selected(name) and (mode == "raw" or name not in _RAW_ONLY)]
        for workers in worker_counts:
            running = [name for name in names if not (workers and name in _WITHOUT_WORKERS)]
            verify(running, mode, workers)
            contenders = [contender(name, "photos", mode, workers, _SECONDS) for name in running]
            yield compete(f"{mode}, {_workers(workers)}", contenders, rounds=rounds)
    readers = [name for name in _SHARD_READERS if is_selected(name)]
    contenders = [contender(name, "tiny", "raw", 0, 1.0) for name in readers]
    yield compete("first batch of a million samples, 0 workers", contenders, rounds=rounds)


def contender(name: str, corpus: str, mode: str, workers: int, seconds: float) -> Contender:
    length = ("--workers", str(workers), "--seconds", f"{seconds:g}")
    return Contender(name=name, command=(*_script(name, corpus, mode), *length), after=_rates)


def _rates(cost: Cost) -> dict[str, float]:
    answer = json.loads(cost.output.splitlines()[-1])
    return {
        "samples_per_second": answer["samples"] / answer["seconds"],
        "cpu_seconds_a_sample": answer["cpu_seconds"] / answer["samples"],
        "first_batch_seconds": answer["first_batch_seconds"],
    }


def verify(names: Sequence[str], mode: str, workers: int) -> None:
    """One whole pass each, not timed: the same samples as the folder of files holds, to the last byte."""
    expected = _whole_pass("files", mode, 0)
    for name in names:
        found = _whole_pass(name, mode, workers)
        wrong = [what for what in ("samples", "bytes", "checksum") if found[what] != expected[what]]
        if abs(found["pixels"] - expected["pixels"]) > _PIXEL_TOLERANCE * expected["pixels"]:
            wrong.append("pixels")
        if wrong:
            raise ContenderError(
                f"{name}, {mode}, {_workers(workers)}: {', '.join(wrong)} differ from the files: {found} != {expected}"
            )
        print(f"  {name}, {mode}, {_workers(workers)}: every sample once, checksums equal", file=sys.stderr)


@cache
def _whole_pass(name: str, mode: str, workers: int) -> dict[str, float]:
    cost = measure((*_script(name, "photos", mode), "--workers", str(workers), "--once"))
    answer: dict[str, float] = json.loads(cost.output.splitlines()[-1])
    return answer


def _script(name: str, corpus: str, mode: str) -> tuple[str, ...]:
    python = WDSCTL_PYTHON if name.startswith("wdsctl") else PEERS_PYTHON
    data = _data(name, corpus)
    return (str(python), "-m", f"benchmarks.contenders.{name}", "--data", str(data), "--mode", mode)


@cache
def _data(name: str, corpus: str) -> Path:
    return loader_data(name, corpus)


def _workers(workers: int) -> str:
    return f"{workers} worker{'' if workers == 1 else 's'}"
