"""Photographs from a store on this machine whose requests take 20 ms: rates, requests, bytes, and the first batch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.corpora import PHOTO_SAMPLES
from benchmarks.loader_data import loader_data
from benchmarks.measure import ContenderError, Cost, measure
from benchmarks.places import DATA, PEERS_PYTHON, REPOSITORY, WDSCTL_PYTHON, wdsctl_script
from benchmarks.results import Row
from benchmarks.slow_store import Delays, SlowStore, start_store

CORPORA = ("photos-raw", "photos")
WORKERS = (2, 0)
USUAL = Delays(0.02)
ONE_LATE = Delays(0.02, late=2.0, late_share=0.01)
#: So long that no request that is sent after the first batch is answered before the process ends.
TRIP_SECONDS = 2.0
_STORE = DATA / "store"
_BUCKET = _STORE / "bucket"
_CACHE = DATA / "store-cache"
_SHARDS = f"shard-{{000000..{PHOTO_SAMPLES // 1000 - 1:06d}}}.tar"
#: What each reads. wdsctl and webdataset read the same tars.
_URLS = {
    "wdsctl": "s3://bucket/photos",
    "webdataset": f"store://bucket/photos/{_SHARDS}",
    "mosaic": "s3://bucket/mosaic",
    "litdata": "s3://bucket/litdata",
}
_CACHES = ("mosaic", "litdata")


def stores_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    names = [name for name in _URLS if is_selected(name)]
    for name in names:
        _fill_bucket(name)
    with start_store(_STORE) as store, _in_environment(store):
        if "wdsctl" in names:
            _prepare()
        for name in names:
            _verify(name, store)
        yield compete(
            "first batch from a store, 0 workers", [_first_batch(each, store) for each in names], rounds=rounds
        )
        for workers in WORKERS:
            contenders = [_contender(name, name, workers, store, USUAL) for name in names]
            if "wdsctl" in names:
                late = _contender("wdsctl, 1 % late", "wdsctl", workers, store, ONE_LATE)
                contenders[1:1] = [_local(workers), late]
            yield compete(row_title(workers), contenders, rounds=rounds)


def row_title(workers: int) -> str:
    return f"decoded photographs from a store, {workers} workers"


def _contender(title: str, name: str, workers: int, store: SlowStore, delays: Delays) -> Contender:
    command = (*_script(name, _URLS[name], workers), "--samples", str(PHOTO_SAMPLES))
    return Contender(name=title, command=command, before=partial(_begin, store, delays), after=partial(_rates, store))


def _local(workers: int) -> Contender:
    command = (*_script("wdsctl", str(loader_data("wdsctl", "photos")), workers), "--samples", str(PHOTO_SAMPLES))
    return Contender(name="wdsctl, a disk", command=command, after=_local_rates)


def _first_batch(name: str, store: SlowStore) -> Contender:
    command = (*_script(name, _URLS[name], 0), "--samples", "1")
    begin = partial(_begin, store, Delays(TRIP_SECONDS))
    return Contender(name=name, command=command, before=begin, after=partial(_trips, store))


def _script(name: str, data: str, workers: int) -> tuple[str, ...]:
    python = WDSCTL_PYTHON if name == "wdsctl" else PEERS_PYTHON
    cache = ("--cache", str(_CACHE)) if name in _CACHES and "://" in data else ()
    options = ("--data", data, "--mode", "decoded", "--workers", str(workers), *cache)
    return (str(python), "-m", f"benchmarks.contenders.{name}", *options)


def _begin(store: SlowStore, delays: Delays) -> None:
    shutil.rmtree(_CACHE, ignore_errors=True)
    _CACHE.mkdir(parents=True)
    store.set_delays(delays)


def _local_rates(cost: Cost) -> dict[str, float]:
    answer = json.loads(cost.output.splitlines()[-1])
    return {
        "samples_per_second": answer["samples"] / answer["seconds"],
        "cpu_seconds_a_sample": answer["cpu_seconds"] / answer["samples"],
        "first_batch_seconds": answer["first_batch_seconds"],
    }


def _rates(store: SlowStore, cost: Cost) -> dict[str, float]:
    counts, answer = store.counts, json.loads(cost.output.splitlines()[-1])
    used_bytes = answer["samples"] * _sample_bytes()
    return {
        **_local_rates(cost),
        "gets_a_thousand": 1000 * counts.gets / answer["samples"],
        "fetched_bytes_per_byte_used": counts.sent / used_bytes,
        "store_cpu_seconds": counts.cpu_seconds,
    }


def _trips(store: SlowStore, cost: Cost) -> dict[str, float]:
    seconds = json.loads(cost.output.splitlines()[-1])["first_batch_seconds"]
    return {"first_batch_trips": float(store.counts.trips), "first_batch_seconds": seconds}


@cache
def _sample_bytes() -> float:
    """Mean bytes of an image and its caption."""
    raw = DATA / "photos-raw"
    return sum(path.stat().st_size for path in raw.iterdir() if path.suffix in (".jpg", ".txt")) / PHOTO_SAMPLES


def _verify(name: str, store: SlowStore) -> None:
    """One whole pass, not timed: every sample once, with the captions of the files."""
    _begin(store, Delays())
    found, expected = _whole_pass(_script(name, _URLS[name], 0)), _whole_pass(_files())
    if wrong := [what for what in ("samples", "bytes", "checksum") if found[what] != expected[what]]:
        raise ContenderError(f"{name} from the store: {', '.join(wrong)} differ from the files: {found} != {expected}")


@cache
def _whole_pass(command: tuple[str, ...]) -> dict[str, float]:
    answer: dict[str, float] = json.loads(measure((*command, "--once")).output.splitlines()[-1])
    return answer


def _files() -> tuple[str, ...]:
    data = ("--data", str(loader_data("files", "photos")), "--mode", "decoded")
    return (str(PEERS_PYTHON), "-m", "benchmarks.contenders.files", *data)


def _fill_bucket(name: str) -> None:
    """Hard links to what the contender reads."""
    folder = _BUCKET / _URLS[name].split("/")[3]
    source = DATA / "photos" if folder.name == "photos" else loader_data(name, "photos")
    for path in source.rglob("*"):
        target = folder / path.relative_to(source)
        if path.is_file() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, target)


def _prepare() -> None:
    kind = ("--sample-type", "CaptioningSample", "--field-map", "image=jpg,caption=txt", "--split", "1,0,0")
    command = (wdsctl_script("wdsctl"), "prepare", _URLS["wdsctl"], *kind, "--no-input", "--quiet")
    subprocess.run(command, check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)


@contextmanager
def _in_environment(store: SlowStore) -> Iterator[None]:
    """What drivers of S3 read, and a folder for wdsctl's copy of the catalog."""
    before = dict(os.environ)
    os.environ.update(store.environment, XDG_DATA_HOME=str(DATA / "store-catalog"))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
