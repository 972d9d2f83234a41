"""The catalog of many tiny shards: by one process, by a local Ray cluster, and by an array job with its merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.places import WDSCTL_PYTHON
from benchmarks.results import Row
from benchmarks.uploads_bench import figures_of

CORPORA: tuple[str, ...] = ()
COUNTS = (10_000, 100_000)
_NAMES = {"wdsctl index, 1 worker": "local", "array job of 2 tasks": "job", "Ray, 2 workers": "ray"}


def shards_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    names = {name: how for name, how in _NAMES.items() if how != "ray" or find_spec("ray")}
    for count in COUNTS:
        contenders = [_contender(name, how, count) for name, how in names.items() if is_selected(name)]
        yield compete(f"{count:,} shards", contenders, rounds=rounds)


def _contender(name: str, how: str, count: int) -> Contender:
    options = ("--how", how, "--shards", str(count))
    command = (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.many_shards", *options)
    return Contender(name=name, command=command, after=figures_of)
