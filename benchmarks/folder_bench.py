"""A folder of 60,000 files to shards: `wdsctl prepare` and `wdsctl.Writer` against webdataset's ShardWriter."""

from __future__ import annotations

import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.measure import ContenderError, Cost
from benchmarks.places import DATA, PEERS_PYTHON, wdsctl_script
from benchmarks.results import Row

CORPORA = ("photos-raw",)
_RAW = DATA / "photos-raw"


def folder_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    contenders = (_wdsctl(workers=2), _wdsctl(workers=1), _wdsctl_writer(), _shardwriter())
    yield compete("folder to shards", [each for each in contenders if is_selected(each.name)], rounds=rounds)


def _wdsctl(workers: int) -> Contender:
    name = f"wdsctl prepare, {workers} worker{'s' if workers > 1 else ''}"
    destination = DATA / "wdsctl" / f"sharded-{workers}"
    options = ("--shard-samples", "1000", "--workers", str(workers), "--no-input", "--quiet")
    return _writer(name, (wdsctl_script("wdsctl"), "prepare", str(_RAW), str(destination), *options), destination)


def _wdsctl_writer() -> Contender:
    destination = DATA / "wdsctl" / "sharded-writer"
    command = (sys.executable, "-m", "benchmarks.contenders.writer", str(_RAW), str(destination))
    return _writer("wdsctl.Writer", command, destination)


def _shardwriter() -> Contender:
    destination = DATA / "webdataset" / "sharded"
    command = (str(PEERS_PYTHON), "-m", "benchmarks.contenders.shardwriter", str(_RAW), str(destination))
    return _writer("webdataset ShardWriter", command, destination)


def _writer(name: str, command: tuple[str, ...], destination: Path) -> Contender:
    return Contender(
        name=name,
        command=command,
        before=partial(shutil.rmtree, destination, ignore_errors=True),
        after=partial(_shard_figures, destination),
    )


def _shard_figures(destination: Path, _: Cost) -> dict[str, float]:
    """Shards written, after a look that they hold every file of the folder, byte for byte in number."""
    shards = sorted(destination.glob("**/*.tar"))
    sizes = sorted(size for shard in shards for size in _member_sizes(shard))
    if sizes != _raw_sizes():
        raise ContenderError(f"{destination.name} holds {len(sizes)} members of {sum(sizes)} bytes: not the folder's")
    return {"shards": float(len(shards))}


def _member_sizes(shard: Path) -> list[int]:
    with tarfile.open(shard) as tar:
        return [member.size for member in tar if member.isfile()]


@cache
def _raw_sizes() -> list[int]:
    return sorted(path.stat().st_size for path in _RAW.iterdir())
