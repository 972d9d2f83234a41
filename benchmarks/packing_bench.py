"""How full packs are, and how soon they are planned: lengths only, without samples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.measure import Cost
from benchmarks.places import WDSCTL_PYTHON
from benchmarks.results import Row

CORPORA: tuple[str, ...] = ()

ONE, TWO = "packing a million lengths", "packing a million lengths of two budgets"
_METHODS = ("best_fit", "knapsack", "first_fit_decreasing", "sequential")


def packing_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    packers = [_contender(f"wdsctl {method}", method) for method in _METHODS if is_selected("wdsctl")]
    examples = [_contender("the example's greedy", "example")] if is_selected("example") else []
    if packers + examples:
        yield compete(ONE, packers + examples, rounds=rounds)
    if packers:
        two = [_contender(f"wdsctl {method}", method, "--budgets", "2") for method in _METHODS]
        yield compete(TWO, two, rounds=rounds)


def _contender(name: str, *arguments: str) -> Contender:
    command = (str(WDSCTL_PYTHON), "-m", "benchmarks.contenders.packing", *arguments)
    return Contender(name=name, command=command, after=_answer)


def _answer(cost: Cost) -> dict[str, float]:
    found: dict[str, float] = json.loads(cost.output.splitlines()[-1])
    return found
