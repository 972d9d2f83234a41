"""Ready batches from two workers to one consumer: wdsctl's pool beside a bare ring and a pipe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.measure import Cost
from benchmarks.places import WDSCTL_PYTHON
from benchmarks.results import Row

CORPORA: tuple[str, ...] = ()
_NAMES = {"wdsctl pool": "pool", "bare ring": "ring", "pipe": "pipe"}


def transport_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    for mode in ("raw", "decoded"):
        contenders = [_contender(name, how, mode) for name, how in _NAMES.items() if is_selected(name)]
        yield compete(f"{mode} batches, 2 workers", contenders, rounds=rounds)


def _contender(name: str, how: str, mode: str) -> Contender:
    command = (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.transport", "--how", how, "--mode", mode)
    return Contender(name=name, command=command, after=_rate)


def _rate(cost: Cost) -> dict[str, float]:
    answer = json.loads(cost.output.splitlines()[-1])
    return {"samples_per_second": answer["samples"] / answer["seconds"]}
