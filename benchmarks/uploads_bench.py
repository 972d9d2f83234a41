"""`wdsctl prepare RAW s3://...` beside `s3fs.put` of the finished tars, over links of three speeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.measure import Cost
from benchmarks.places import WDSCTL_PYTHON
from benchmarks.results import Row

CORPORA: tuple[str, ...] = ()
LINKS = {"0": "no limit", "100": "100 MB/s", "25": "25 MB/s"}


def uploads_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    for link, words in LINKS.items():
        contenders = [
            _contender("wdsctl prepare, 2 workers", "prepare", 2, link),
            _contender("wdsctl prepare, 1 worker", "prepare", 1, link),
            _contender("s3fs.put of finished tars", "put", 1, link),
        ]
        yield compete(f"upload, {words}", [each for each in contenders if is_selected(each.name)], rounds=rounds)


def _contender(name: str, how: str, workers: int, link: str) -> Contender:
    options = ("--how", how, "--workers", str(workers), "--link", link)
    command = (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.uploads", *options)
    return Contender(name=name, command=command, after=figures_of)


def figures_of(cost: Cost) -> dict[str, float]:
    figures: dict[str, float] = json.loads(cost.output.splitlines()[-1])
    return figures
