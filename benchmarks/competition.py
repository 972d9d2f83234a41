"""Runs the contenders of a row against each other: one warm-up each, then rounds in which everybody runs once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median

from benchmarks.contender import Contender
from benchmarks.measure import Cost, measure
from benchmarks.memory import TreeWatch
from benchmarks.places import shown
from benchmarks.results import Entry, Figures, Row


def compete(title: str, contenders: Sequence[Contender], *, rounds: int) -> Row:
    """The medians over `rounds` rounds, each begun by the next contender, so that nobody always comes first."""
    print(f"{title}: {', '.join(each.name for each in contenders)}", file=sys.stderr)
    tree_bytes = {each.name: _warm_up(each) for each in contenders}
    taken: dict[str, list[Figures]] = {each.name: [] for each in contenders}
    for first in range(rounds):
        for turn in range(len(contenders)):
            each = contenders[(first + turn) % len(contenders)]
            each.before()
            taken[each.name].append(_figures(each, measure(each.command)))
    return Row(title=title, entries=[_entry(each, taken[each.name], tree_bytes[each.name]) for each in contenders])


def _warm_up(contender: Contender) -> float:
    """Peak bytes of the whole process tree, from an untimed run that also brings the corpus into the page cache."""
    contender.before()
    with TreeWatch() as watch:
        cost = measure(contender.command, started=watch.start)
    _figures(contender, cost)
    return watch.peak_bytes


def _figures(contender: Contender, cost: Cost) -> Figures:
    figures = {
        "wall_seconds": cost.wall_seconds,
        "cpu_seconds": cost.cpu_seconds,
        "peak_bytes": float(cost.peak_bytes),
        **contender.after(cost),
    }
    rounded = ", ".join(f"{name} {value:,.2f}" for name, value in figures.items())
    print(f"  {contender.name}: {rounded}", file=sys.stderr)
    return figures


def _entry(contender: Contender, rounds: list[Figures], tree_bytes: float) -> Entry:
    middle = {name: median(figures[name] for figures in rounds) for name in rounds[0]}
    return Entry(
        name=contender.name,
        command=shown(contender.command),
        median={**middle, "tree_peak_bytes": tree_bytes},
        rounds=rounds,
    )
